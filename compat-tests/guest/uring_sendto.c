// SPDX-License-Identifier: MIT OR Apache-2.0
// DP_URING_SENDTO: sending by io_uring to a destination that is named with the message.
#define _GNU_SOURCE
#include "ring.h"

static char buf[4096], *large;

/* An entry for one message; what is not usual is changed in it before it is submitted. */
static struct io_uring_sqe *sendto_later(int fd, const void *message, unsigned len, unsigned dpid, uint64_t tag) {
    struct io_uring_sqe *s = submit_later(IORING_OP_URING_CMD, fd, (void *)message, len, tag);
    struct dp_uring_sendto what = {{0, dpid}, 0, 0};
    s->cmd_op = DP_URING_SENDTO;
    memcpy(s->cmd, &what, sizeof what);
    return s;
}

/* Submits all that is there; the result of the only command. */
static int result(void) {
    int res = -9999;
    uint64_t tag;
    if (enter(1, 0) != 1 || !done(true, &res, &tag, NULL))
        return -9999;
    return res;
}

static int sendto_now(int fd, const void *message, unsigned len, unsigned dpid) {
    sendto_later(fd, message, len, dpid, 1);
    return result();
}

static int sendto_with(int fd, unsigned dpid, unsigned nid, unsigned flags, unsigned pad) {
    struct io_uring_sqe *s = sendto_later(fd, "with", 4, dpid, 1);
    struct dp_uring_sendto what = {{nid, dpid}, flags, pad};
    memcpy(s->cmd, &what, sizeof what);
    return result();
}

static bool comes(int fd, const void *message, ssize_t len) {
    return ready(fd, POLLIN, 1000) && read(fd, buf, sizeof buf) == len && !memcmp(buf, message, len);
}

static bool nothing_came(int fd) {
    return !ready(fd, POLLIN, 0) && dp_stat(fd).next_len == ~0ull;
}

static void delivery(int from, int to) {
    unsigned n = dp_number(to);
    OK(sendto_now(from, "uring", 5, n) == 5 && comes(to, "uring", 5), "a message to a number");
    struct dp_ioc_addr peer;
    OK(!ioctl(to, DP_IOC_PEER, &peer) && peer.dpid == dp_number(from), "its sender is told");
    OK(sendto_now(from, "", 0, n) == 0 && ready(to, POLLIN, 0) && read(to, buf, 9) == 0, "an empty one");
    OK(sendto_with(from, n, 1, 0, 0) == 4 && comes(to, "with", 4), "to this node by its number");
    OK(sendto_with(from, 0, 0, DP_SEND_TARGET, 0) == -EDESTADDRREQ, "to the target, where there is none");
    dp_aim(from, n);
    OK(sendto_with(from, 0, 0, DP_SEND_TARGET | DP_SEND_NOWAIT, 0) == 4 && comes(to, "with", 4), "to the target");
    struct dp_ioc_stat s = dp_stat(from);
    OK(s.sent == 4 && s.sent_bytes == 13, "all are counted");
    int fixed[1] = {from};
    bool good = !syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, fixed, 1);
    sendto_later(0, "fixed", 5, n, 1)->flags = IOSQE_FIXED_FILE;
    OK(good && result() == 5 && comes(to, "fixed", 5), "on a registered file");
    syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_FILES, NULL, 0);
}

static void order(int from, int to) {
    int res;
    uint64_t tag;
    bool good = true;
    static uint32_t i[60];
    dp_aim(from, dp_number(to));
    for (int round = 0; round < 5; round++) {
        for (uint32_t k = 0; k < 60; k++) {
            i[k] = round * 60 + k;
            struct io_uring_sqe *s = k % 2 ? sendto_later(from, &i[k], 4, dp_number(to), k)
                                           : submit_later(IORING_OP_WRITE, from, &i[k], 4, k);
            s->flags = k < 59 ? IOSQE_IO_LINK : 0;
        }
        good &= enter(60, 60) == 60;
        for (uint32_t k = 0; k < 60; k++) {
            good &= done(false, &res, &tag, NULL) && res == 4 && tag == k;
            good &= comes(to, &i[k], 4);
        }
    }
    OK(good, "300 linked commands and writes by turns arrive in order");
    sendto_later(from, "1", 1, dp_number(to), 1)->flags = IOSQE_IO_LINK;
    sendto_later(from, "2", 1, 0, 2)->flags = IOSQE_IO_LINK;
    submit_later(IORING_OP_WRITE, from, "3", 1, 3);
    int got[4] = {0};
    enter(3, 3);
    while (done(false, &res, &tag, NULL))
        got[tag & 3] = res;
    OK(got[1] == 1 && got[2] == -EINVAL && got[3] == -ECANCELED && comes(to, "1", 1) && nothing_came(to),
       "a link ends with a command that fails");
}

static void full(int from, int to) {
    unsigned n = dp_number(to);
    int res, sent = 0;
    uint64_t tag;
    while ((res = sendto_now(from, large, 900, n)) == 900)
        sent++;
    OK(sent >= 3 && res == -EAGAIN, "without room: EAGAIN at once, after %d messages", sent);
    OK(!ready(from, POLLOUT, 0), "poll(2) tells of no room");
    sendto_later(from, large, 900, n, 1)->flags = IOSQE_IO_LINK;
    submit_later(IORING_OP_WRITE, from, large, 1, 2);
    int got[3] = {0};
    enter(2, 2);
    while (done(false, &res, &tag, NULL))
        got[tag % 3] = res;
    OK(got[1] == -EAGAIN && got[2] == -ECANCELED, "what is linked behind it does not overtake it");

    /* Once there is room, again, in one link. */
    submit_later(IORING_OP_POLL_ADD, from, NULL, 0, 3)->poll32_events = POLLOUT;
    sqes[(*sq_tail - 1) & *sq_mask].flags = IOSQE_IO_LINK;
    sendto_later(from, large, 900, n, 4);
    enter(2, 0);
    pause_ms(20);
    bool good = !done(false, &res, &tag, NULL);
    for (int i = 0; i < sent; i++)
        good &= read(to, buf, sizeof buf) == 900;
    good &= done(true, &res, &tag, NULL) && tag == 3 && (res & POLLOUT);
    good &= done(true, &res, &tag, NULL) && tag == 4 && res == 900;
    OK(good && comes(to, large, 900) && nothing_came(to), "linked behind a poll for room it is sent when there is some");

    /* Many, each told by poll before it is tried again. */
    good = true;
    unsigned long again = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        for (uint32_t i = 0; i < 400; i++) {
            pause_ms(i % 50 == 0 ? 20 : 0);
            if (read(to, buf, sizeof buf) != 700 || memcmp(buf, &i, 4))
                _exit(1);
        }
        _exit(0);
    }
    for (uint32_t i = 0; i < 400; i++) {
        memcpy(large, &i, 4);
        while ((res = sendto_now(from, large, 700, n)) == -EAGAIN) {
            again++;
            submit_later(IORING_OP_POLL_ADD, from, NULL, 0, 5)->poll32_events = POLLOUT;
            good &= result() > 0;
        }
        good &= res == 700;
    }
    int status;
    waitpid(child, &status, 0);
    OK(good && again > 0 && status == 0, "400 through a pool for five, in order (%lu times EAGAIN)", again);
    OK(dp_stat(from).full >= again, "each is counted");
}

static void mistakes(int from, int to) {
    unsigned n = dp_number(to);
    struct io_uring_sqe *s = sendto_later(from, "x", 1, n, 1);
    s->cmd_op = DP_IOC_SENDTO;
    OK(result() == -ENOTTY, "a number that is no command: ENOTTY");
    sendto_later(from, "x", 1, n, 1)->cmd_op = 0;
    OK(result() == -ENOTTY, "nor is 0 one");
    sendto_later(from, "x", 1, n, 1)->uring_cmd_flags = IORING_URING_CMD_FIXED;
    OK(result() == -EINVAL, "registered buffers: EINVAL");
    OK(sendto_with(from, n, 0, 4, 0) == -EINVAL && sendto_with(from, n, 0, 0, 1) == -EINVAL, "bits without a meaning: EINVAL");
    OK(sendto_with(from, 0, 0, 0, 0) == -EINVAL && sendto_with(from, 65536, 0, 0, 0) == -EINVAL, "no number: EINVAL");
    OK(sendto_with(from, n, 2, 0, 0) == -EHOSTUNREACH, "another node: EHOSTUNREACH");
    OK(sendto_now(from, NULL, 9, n) == -EFAULT && sendto_now(from, (void *)-4096l, 9, n) == -EFAULT &&
           sendto_now(from, (void *)0x5000, 4000, n) == -EFAULT,
       "addresses without memory: EFAULT");
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    OK(sendto_now(from, edge + 4000, 200, n) == -EFAULT, "memory that ends too early: EFAULT");
    OK(sendto_now(from, large, DP_IOC_MESSAGE_MAX + 1, n) == -EMSGSIZE && sendto_now(from, large, ~0u, n) == -EMSGSIZE,
       "too long: EMSGSIZE");
    OK(nothing_came(to), "nothing came of any of them");
    OK(sendto_now(from, edge, 3000, n) == 3000 && comes(to, edge, 3000), "a page that was never touched is sent");
    munmap(edge, 4096);
    OK(sendto_now(from, large, DP_IOC_MESSAGE_MAX, n) == DP_IOC_MESSAGE_MAX && read(to, buf, 100) == 100 && !memcmp(buf, large, 100),
       "the longest there may be");
    int bare = open(DP_DEVICE, O_RDWR), pipe_ends[2];
    OK(sendto_now(bare, "x", 1, n) == -ENXIO, "a file without a number: ENXIO");
    close(bare);
    OK(!pipe(pipe_ends) && sendto_now(pipe_ends[1], "x", 1, n) == -EOPNOTSUPP, "a file that is no endpoint: EOPNOTSUPP");
    close2(pipe_ends);
    bool good = !seteuid(65534);
    int strange = dp_new(0, 4096, 0);
    good &= !seteuid(0);
    OK(good && sendto_now(from, "x", 1, dp_number(strange)) == -EACCES, "another user's endpoint: EACCES");
    close(strange);
}

static void by_others(int from, int to) {
    unsigned n = dp_number(to);
    while (sendto_now(from, large, 900, n) == 900)
        ;
    /* To a worker only because that was asked for. It must not wait there: nobody makes room. */
    sendto_later(from, large, 900, n, 1)->flags = IOSQE_ASYNC;
    OK(result() == -EAGAIN, "IOSQE_ASYNC: EAGAIN as well, and no worker waits");
    while (ready(to, POLLIN, 0))
        read(to, buf, sizeof buf);
    sendto_later(from, "async", 5, n, 1)->flags = IOSQE_ASYNC;
    OK(result() == 5 && comes(to, "async", 5), "and a message where there is room");
    close(ring);
    OK(ring_open(IORING_SETUP_SQPOLL), "a ring with a thread of the kernel's that submits");
    sendto_later(from, "polled", 6, n, 1);
    int res = 0;
    uint64_t tag;
    syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
    OK(done(true, &res, &tag, NULL) && res == 6 && comes(to, "polled", 6), "a message by it");
}

int main(void) {
    int from = dp_new(0, 4096, 0), to = dp_new(0, 4096, 0);
    large = mmap(NULL, DP_IOC_MESSAGE_MAX + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(large, 'l', 4096);
    OK(ring_open(0), "a ring");
    delivery(from, to);
    order(from, to);
    full(from, to);
    mistakes(from, to);
    OK(workers() == 0, "no worker thread was ever started: %d", workers());
    by_others(from, to);
    close(ring);
    pause_ms(20);
    close(from);
    close(to);
    return tap_end();
}
