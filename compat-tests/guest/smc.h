// SPDX-License-Identifier: MIT OR Apache-2.0
// What AF_SMC must be told, and asked, over netlink, before it is measured: a connection for which SMC-D cannot be had
// becomes plain TCP and works all the same.
#ifndef SMC_H
#define SMC_H

#include "tap.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/smc.h>
#include <linux/smc_diag.h>
#include <linux/sock_diag.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* An answer of the kernel's; as much as it puts into one. */
union netlink_answer {
    struct nlmsghdr header;
    char bytes[32768];
};

static inline int netlink_error(const struct nlmsghdr *answer) {
    return answer->nlmsg_type == NLMSG_ERROR ? -((struct nlmsgerr *)NLMSG_DATA(answer))->error : 0;
}

/* A command of generic netlink with one attribute, a string of up to SMC_MAX_EID_LEN. False: errno says why. */
static inline bool genetlink_call(int fd, int family, int command, int attribute, const char *text, int flags,
                                  union netlink_answer *answer) {
    struct {
        struct nlmsghdr header;
        struct genlmsghdr command;
        struct nlattr attribute;
        char text[NLA_ALIGN(SMC_MAX_EID_LEN + 1)];
    } call = {
        .header = {.nlmsg_len = sizeof call, .nlmsg_type = family, .nlmsg_flags = NLM_F_REQUEST | flags},
        .command = {.cmd = command, .version = 1},
        .attribute = {.nla_len = NLA_HDRLEN + strlen(text) + 1, .nla_type = attribute},
    };
    strncpy(call.text, text, SMC_MAX_EID_LEN);
    call.header.nlmsg_len = offsetof(typeof(call), attribute) + NLA_ALIGN(call.attribute.nla_len);
    if (send(fd, &call, call.header.nlmsg_len, 0) < 0 || recv(fd, answer, sizeof *answer, 0) < 0)
        return false;
    errno = netlink_error(&answer->header);
    return !errno;
}

/* The number that generic netlink gave SMC's commands; 0: errno says why. */
static inline int smc_commands(int fd) {
    union netlink_answer answer;
    if (!genetlink_call(fd, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, SMC_GENL_FAMILY_NAME, 0, &answer))
        return 0;
    const char *end = answer.bytes + answer.header.nlmsg_len;
    for (const char *at = (char *)NLMSG_DATA(&answer.header) + GENL_HDRLEN; at + NLA_HDRLEN <= end;) {
        const struct nlattr *attribute = (const void *)at;
        if (attribute->nla_type == CTRL_ATTR_FAMILY_ID)
            return *(const uint16_t *)(at + NLA_HDRLEN);
        at += NLA_ALIGN(attribute->nla_len);
    }
    errno = EPROTO;
    return 0;
}

/* Gives this system a name. Two sockets use SMC-D if they are told the same one; only s390 has one by itself. */
static inline bool smc_name_system(const char *name) {
    char padded[SMC_MAX_EID_LEN + 1];
    union netlink_answer answer;
    snprintf(padded, sizeof padded, "%-*s", SMC_MAX_EID_LEN, name);
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
    int commands = smc_commands(fd);
    bool named = commands && (genetlink_call(fd, commands, SMC_NETLINK_ADD_UEID, SMC_NLA_EID_TABLE_ENTRY, padded,
                                             NLM_F_ACK, &answer) || errno == EEXIST);
    close(fd);
    return named;
}

/* SMC_DIAG_MODE_... of a connected socket; -1: it is no socket of AF_SMC, or nobody knows. */
static inline int smc_mode(int socket_fd) {
    struct {
        struct nlmsghdr header;
        struct smc_diag_req request;
    } ask = {
        .header = {.nlmsg_len = sizeof ask, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request.diag_family = AF_SMC,
    };
    union netlink_answer answer;
    struct stat s;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG), mode = -1;
    bool more = !fstat(socket_fd, &s) && send(fd, &ask, sizeof ask, 0) == sizeof ask;
    while (more) {
        int left = recv(fd, &answer, sizeof answer, 0);
        more = left > 0;
        /* All sockets there are; this one is known by its inode. */
        for (struct nlmsghdr *h = &answer.header; left > 0 && NLMSG_OK(h, (unsigned)left); h = NLMSG_NEXT(h, left)) {
            const struct smc_diag_msg *m = NLMSG_DATA(h);
            if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
                more = false;
            else if (m->diag_inode == s.st_ino)
                mode = m->diag_mode;
        }
    }
    close(fd);
    return mode;
}

#endif
