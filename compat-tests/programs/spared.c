/*
 * Calls that fail, or are about something else, leave a connection and what is unread of it as they were.
 *   control    a message with a header of control data that is longer than all of it; the number behind it is the connection's
 *   unshare    a thread closes the number for itself alone: it has a table of its own from then on
 *   beyond     dup2 puts something at the connection's number, which a limit forbids by now
 *   numbers    dup2 puts what is not open at every number; the next close has nothing to close there, either
 *   closefrom  of numbers above it, where a filter forbids close_range
 */
#include "common.h"

#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define HIGH 200

static void send_control(int pair, size_t length, int fd) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control = {.header = {.cmsg_len = length, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    int *numbers = (int *)CMSG_DATA(&control.header);
    for (int i = 0; i < 8; i++)
        numbers[i] = i == 0 ? pair : fd;
    struct iovec piece = {"x", 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof(int))};
    outcome("sendmsg", sendmsg(pair, &message, 0));
}

static void *close_for_itself(void *fd) {
    unsigned number = (unsigned)*(int *)fd;
    outcome("close_range", close_range(number, number, CLOSE_RANGE_UNSHARE));
    outcome("in the thread", fcntl((int)number, F_GETFD));
    return NULL;
}

static void forbid_close_range(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

static int try(int fd) {
    int pair[2];
    if (mode_is("control")) {
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        send_control(pair[0], 1 << 30, fd);
        send_control(pair[0], CMSG_LEN(3 * sizeof(int)), fd);
    } else if (mode_is("unshare")) {
        pthread_join(start_thread(close_for_itself, &fd), NULL);
    } else if (mode_is("beyond")) {
        MUST(dup2(fd, HIGH));
        MUST(close(fd));
        fd = HIGH;
        struct rlimit limit;
        MUST(getrlimit(RLIMIT_NOFILE, &limit));
        limit.rlim_cur = HIGH / 2;
        MUST(setrlimit(RLIMIT_NOFILE, &limit));
        outcome("dup2", dup2(1, fd));
    } else if (mode_is("closefrom")) {
        forbid_close_range();
        MUST(dup2(1, HIGH));
        closefrom(HIGH - 10);
        outcome("above", fcntl(HIGH, F_GETFD));
    }
    return fd;
}

static void put_nothing_everywhere(int fd) {
    int closed = 0;
    for (int number = 3; number < 10 * HIGH; number++) {
        CHECK(dup2(-1, number) == -1 && errno == EBADF);
        closed += number != fd && close(number) == 0;
    }
    say("closed: %d", closed); /* a listener, and what the program was started with */
}

void tester(int fd) {
    char bytes[100];
    uint64_t position = 0;
    int there = 0;
    if (mode_is("numbers"))
        put_nothing_everywhere(fd);
    for (int i = 0; i < 3; i++) {
        ask(fd, sizeof bytes);
        while (there != sizeof bytes)
            MUST(ioctl(fd, FIONREAD, &there));
        fd = i == 0 ? try(fd) : fd;
        read_exact(fd, bytes, sizeof bytes);
        CHECK(is_pattern(bytes, sizeof bytes, position));
        position += sizeof bytes;
        there = 0;
    }
    say("all came");
    MUST(shutdown(fd, SHUT_WR));
}
