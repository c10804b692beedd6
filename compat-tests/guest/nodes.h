// SPDX-License-Identifier: MIT OR Apache-2.0
// Nodes for tests: network namespaces in one process, with virtual Ethernet between them. An endpoint stays in the
// namespace in which it was opened, so one process can have some in each.
#ifndef NODES_H
#define NODES_H

#include "tap.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

struct node {
    int ns;
    unsigned nid;
    /* A descriptor of the device that is no endpoint: for what an administrator changes. */
    int control;
};

static inline bool enter(const struct node *n) {
    return !setns(n->ns, CLONE_NEWNET);
}

static inline int set_nid(const struct node *n, unsigned nid) {
    return ioctl(n->control, DP_IOC_NODE, &(struct dp_ioc_node){nid, 0});
}

/* A new namespace, which is entered, as a node. */
static inline bool node_new(struct node *n, unsigned nid) {
    if (unshare(CLONE_NEWNET))
        return false;
    n->ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    n->control = open(DP_DEVICE, O_RDWR | O_CLOEXEC);
    n->nid = nid;
    return n->ns >= 0 && n->control >= 0 && !set_nid(n, nid);
}

static inline struct rtattr *attribute(struct nlmsghdr *h, int type, const void *data, size_t len) {
    struct rtattr *a = (void *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));
    a->rta_type = type;
    a->rta_len = RTA_LENGTH(len);
    if (len)
        memcpy(RTA_DATA(a), data, len);
    h->nlmsg_len = NLMSG_ALIGN(h->nlmsg_len) + RTA_ALIGN(a->rta_len);
    return a;
}

static inline void nested_ends(struct nlmsghdr *h, struct rtattr *a) {
    a->rta_len = (char *)h + h->nlmsg_len - (char *)a;
}

/* One request to the kernel, and whether it went well. */
static inline bool netlink(struct nlmsghdr *h) {
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
        char rest[256];
    } answer;
    int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    h->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    bool sent = send(s, h, h->nlmsg_len, 0) == (ssize_t)h->nlmsg_len && recv(s, &answer, sizeof answer, 0) > 0;
    close(s);
    errno = -answer.e.error;
    return sent && answer.h.nlmsg_type == NLMSG_ERROR && !answer.e.error;
}

/* A virtual cable: `a` here, `b` in the other's namespace. */
static inline bool cable(const struct node *here, const char *a, const struct node *there, const char *b) {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
        char rest[512];
    } m = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
    struct ifinfomsg peer = {0};
    attribute(&m.h, IFLA_IFNAME, a, strlen(a) + 1);
    struct rtattr *info = attribute(&m.h, IFLA_LINKINFO, NULL, 0);
    attribute(&m.h, IFLA_INFO_KIND, "veth", 4);
    struct rtattr *data = attribute(&m.h, IFLA_INFO_DATA, NULL, 0);
    struct rtattr *other = attribute(&m.h, VETH_INFO_PEER, &peer, sizeof peer);
    attribute(&m.h, IFLA_IFNAME, b, strlen(b) + 1);
    attribute(&m.h, IFLA_NET_NS_FD, &there->ns, sizeof there->ns);
    nested_ends(&m.h, other);
    nested_ends(&m.h, data);
    nested_ends(&m.h, info);
    return enter(here) && netlink(&m.h);
}

static inline bool cut(const struct node *n, const char *name) {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
    } m = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_DELLINK}};
    if (!enter(n))
        return false;
    m.i.ifi_index = if_nametoindex(name);
    return m.i.ifi_index && netlink(&m.h);
}

/* A setting of an interface of the namespace that was entered. */
static inline bool iface_call(unsigned long call, const char *name, struct ifreq *r) {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(r->ifr_name, sizeof r->ifr_name, "%s", name);
    int result = ioctl(s, call, r);
    close(s);
    return result == 0;
}

static inline bool bring_up(const struct node *n, const char *name, int mtu) {
    struct ifreq r = {.ifr_mtu = mtu};
    bool good = enter(n) && iface_call(SIOCSIFMTU, name, &r);
    r.ifr_flags = IFF_UP;
    return good && iface_call(SIOCSIFFLAGS, name, &r);
}

/* Until the kernel has noticed that the other end is up, too, it drops what an interface sends. What takes the RTNL next, as
 * attaching does, comes when that is over. */
static inline bool is_running(const struct node *n, const char *name) {
    struct ifreq r = {0};
    for (int i = 0; i < 5000; i++, pause_ms(1))
        if (enter(n) && iface_call(SIOCGIFFLAGS, name, &r) && r.ifr_flags & IFF_RUNNING)
            return true;
    return false;
}

/* An address of IPv4 for what is compared with, 10.0.0.`last`. */
static inline bool set_ip(const struct node *n, const char *name, unsigned char last) {
    struct ifreq r = {0}, mask = {0};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 | last)};
    memcpy(&r.ifr_addr, &a, sizeof a);
    a.sin_addr.s_addr = htonl(0xffffff00);
    memcpy(&mask.ifr_netmask, &a, sizeof a);
    return enter(n) && iface_call(SIOCSIFADDR, name, &r) && iface_call(SIOCSIFNETMASK, name, &mask);
}

static inline int attach(const struct node *n, const char *name, unsigned flags) {
    struct dp_ioc_iface i = {.flags = flags};
    snprintf(i.name, sizeof i.name, "%s", name);
    return enter(n) ? ioctl(n->control, DP_IOC_ATTACH_IF, &i) : -1;
}

/* Tells `n` that `other` is behind its interface, at the address of the other's. */
static inline int route(const struct node *n, const char *name, const struct node *other, const char *others) {
    struct dp_ioc_route r = {.nid = other->nid};
    struct ifreq q = {0};
    if (!enter(other) || !iface_call(SIOCGIFHWADDR, others, &q) || !enter(n))
        return -1;
    memcpy(r.mac, q.ifr_hwaddr.sa_data, 6);
    snprintf(r.name, sizeof r.name, "%s", name);
    return ioctl(n->control, DP_IOC_NART, &r);
}

static inline int forget_route(const struct node *n, unsigned nid) {
    return enter(n) ? ioctl(n->control, DP_IOC_NART, &(struct dp_ioc_route){.nid = nid, .flags = DP_REMOVE}) : -1;
}

/* Two nodes, each attached to its end of a cable and knowing where the other is. */
static inline bool connect_nodes(struct node *a, const char *at_a, struct node *b, const char *at_b, int mtu) {
    return cable(a, at_a, b, at_b) && bring_up(a, at_a, mtu) && bring_up(b, at_b, mtu) && is_running(a, at_a) &&
           is_running(b, at_b) && !attach(a, at_a, 0) &&
           !attach(b, at_b, 0) && !route(a, at_a, b, at_b) && !route(b, at_b, a, at_a);
}

/* A number of the node's list; -1: it has none of that name. */
static inline long long counter(const struct node *n, const char *name) {
    char line[256], found[64];
    long long value, result = -1;
    FILE *f = enter(n) ? fopen("/proc/thread-self/net/dp_ether", "r") : NULL;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "count %63s %lld", found, &value) == 2 && !strcmp(found, name))
            result = value;
    if (f)
        fclose(f);
    return result;
}

/* Somebody who gets to see the frames of a protocol at an interface of the node's, or at all (NULL): as long as that
 * descriptor is open, frames are what is sent. */
static inline int watch(const struct node *n, const char *name, int protocol) {
    struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol)};
    int s = enter(n) ? socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) : -1;
    where.sll_ifindex = name ? if_nametoindex(name) : 0;
    return s < 0 || bind(s, (void *)&where, sizeof where) ? -1 : s;
}

static inline int endpoint_at(const struct node *n, unsigned dpid, uint64_t pool, int flags) {
    return enter(n) ? dp_new(dpid, pool, flags) : -1;
}

#endif
