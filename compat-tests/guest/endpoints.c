// SPDX-License-Identifier: MIT OR Apache-2.0
// Endpoints with plain system calls: numbers, messages, waiting, readiness, users.
#define _GNU_SOURCE
#include "tap.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

static unsigned char buf[1 << 20], big[1 << 20];
/* Not known to the compiler, which would warn. */
static void *volatile nowhere = (void *)8;

static void numbers(void) {
    int raw = open(DP_DEVICE, O_RDWR | O_NONBLOCK);
    FAILS(ENXIO, read(raw, buf, 1), "read before there is a number");
    FAILS(ENXIO, write(raw, buf, 1), "write before there is a number");
    FAILS(ENXIO, dp_aim(raw, 7), "a target before there is a number");
    OK(ready(raw, POLLIN | POLLOUT, 0) == POLLERR, "poll before there is a number");
    OK(ioctl(raw, DP_IOC_OPEN, &(struct dp_ioc_open){3000, 0, 0}) == 0 && dp_number(raw) == 3000, "a number");
    FAILS(EBUSY, ioctl(raw, DP_IOC_OPEN, &(struct dp_ioc_open){3001, 0, 0}), "a second number");
    FAILS(EADDRINUSE, dp_new(3000, 0, 0), "a number that is taken");
    close(raw);
    int again = dp_new(3000, 0, 0);
    OK(again >= 0, "a number is free at once after close");
    close(again);
    FAILS(EINVAL, dp_new(65536, 0, 0), "65536 is no number");
    FAILS(EINVAL, dp_new(0, 4095, 0), "4095 bytes are no pool");
    FAILS(EINVAL, dp_new(0, (1ull << 30) + 1, 0), "more than 1 GiB is no pool");
    FAILS(EINVAL, ioctl(raw = open(DP_DEVICE, O_RDWR), DP_IOC_OPEN, &(struct dp_ioc_open){0, DP_IOC_VERSION + 1, 0}), "no such version");
    FAILS(ENOTTY, ioctl(raw, _IO(0xBD, 99)), "no such ioctl");
    FAILS(EFAULT, ioctl(raw, DP_IOC_OPEN, (void *)8), "an argument that is not there");
    close(raw);
    int x = dp_new(0, 0, 0), y = dp_new(0, 0, 0);
    OK(dp_number(x) >= 1024 && dp_number(y) >= 1024 && dp_number(x) != dp_number(y), "any free number");
    close(x);
    close(y);
}

static void messages(void) {
    int p[2], n = -1;
    dp_pair(p, 0, 0);
    int lone = dp_new(0, 0, 0);
    FAILS(EDESTADDRREQ, write(lone, "x", 1), "write without a target");
    close(lone);
    OK(write(p[0], "hello", 5) == 5 && read(p[1], buf, sizeof buf) == 5 && !memcmp(buf, "hello", 5), "write, read");
    struct dp_ioc_addr from;
    OK(!ioctl(p[1], DP_IOC_PEER, &from) && from.nid == 0 && from.dpid == dp_number(p[0]), "who sent it");
    struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}}, in[2] = {{buf, 3}, {buf + 10, 10}};
    OK(writev(p[0], out, 3) == 6 && readv(p[1], in, 2) == 6 && !memcmp(buf, "abc", 3) && !memcmp(buf + 10, "def", 3),
       "writev is one message, readv takes one");
    OK(write(p[0], "", 0) == 0 && ready(p[1], POLLIN, 0) == POLLIN, "an empty message is there");
    OK(!ioctl(p[1], FIONREAD, &n) && n == 0 && read(p[1], buf, 10) == 0, "an empty message is read");
    OK(!ready(p[1], POLLIN, 0), "nothing is left");
    write(p[0], "0123456789", 10);
    write(p[0], "next", 4);
    OK(!ioctl(p[1], FIONREAD, &n) && n == 10, "FIONREAD tells the length");
    OK(read(p[1], buf, 4) == 4 && read(p[1], buf, 10) == 4 && !memcmp(buf, "next", 4), "a short read cuts the message");
    bool good = true;
    for (uint64_t i = 0; i < 5008; i++) {
        size_t len = i % 700;
        number(big, i, len);
        good &= write(p[0], big, len) == (ssize_t)len;
        if (i % 16 == 15)
            for (uint64_t k = i - 15; k <= i; k++)
                good &= read(p[1], buf, sizeof buf) == (ssize_t)(k % 700) && is_number(buf, k, k % 700);
    }
    OK(good, "5008 messages, whole and in order");
    /* What the ring has room for; above that they lie apart. */
    uint64_t max = DP_POOL_DEFAULT - 64 - 16;
    good = true;
    for (uint64_t len = 1; len <= max; len = len * 2 + 1) {
        number(big, len, len);
        good &= write(p[0], big, len) == (ssize_t)len && read(p[1], buf, sizeof buf) == (ssize_t)len;
        good &= is_number(buf, len, len);
    }
    number(big, 5, max);
    OK(good && write(p[0], big, max) == (ssize_t)max && read(p[1], buf, sizeof buf) == (ssize_t)max &&
           is_number(buf, 5, max),
       "every size, up to %lu", max);
    OK(write(p[0], big, max + 1) == (ssize_t)max + 1 && read(p[1], buf, sizeof buf) == (ssize_t)max + 1 &&
           !memcmp(buf, big, max + 1),
       "and one more");
    OK(dp_send_to(p[0], "me", 2, 0, dp_number(p[0])) == 2 && read(p[0], buf, 9) == 2, "oneself is a target");
    OK(dp_send_to(p[0], "me", 2, 1, dp_number(p[0])) == 2 && read(p[0], buf, 9) == 2, "this node by its number");
    FAILS(EHOSTUNREACH, dp_send_to(p[0], "me", 2, 9, 5), "another node");
    FAILS(EINVAL, dp_send_to(p[0], "me", 2, 0, 0), "0 is no target");
    FAILS(EFAULT, write(p[0], nowhere, 4), "a message that is not there");
    FAILS(ESPIPE, pread(p[1], buf, 1, 0), "no positions");
    write(p[0], "whole", 5);
    FAILS(EFAULT, read(p[1], nowhere, 5), "a buffer that is not there");
    OK(read(p[1], buf, 9) == 5, "what could not be read is still there");
    /* Half of the buffer is there. */
    char *half = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(half + 4096, 4096);
    FAILS(EFAULT, write(p[0], half + 4000, 200), "a message of which half is there");
    OK(!ready(p[1], POLLIN, 0) && dp_stat(p[1]).pool_left == dp_stat(p[1]).pool, "it leaves nothing behind");
    OK(write(p[0], half, 4096) == 4096 && read(p[1], buf, sizeof buf) == 4096, "untouched pages are a message");
    munmap(half, 4096);
    struct dp_ioc_stat s = dp_stat(p[1]);
    OK(s.received == dp_stat(p[0]).sent - 2 && s.next_len == ~0ull && s.pool == DP_POOL_DEFAULT, "counters");
    close2(p);
}

static void *read_large(void *fd) {
    static unsigned char *b;
    bool good = true;
    b = b ? b : malloc(16 << 20);
    for (unsigned i = 0; i < 4; i++) {
        good &= read(*(int *)fd, b, 16 << 20) == 16 << 20;
        for (size_t k = 0; k < 16 << 20; k += 4096)
            good &= b[k] == (unsigned char)(k / 4096 * 3 + i);
    }
    return (void *)good;
}

static void large(void) {
    int p[2], n;
    void *good;
    pthread_t t;
    unsigned char *m = malloc((16 << 20) + 1);
    dp_pair(p, 65536, 0);
    OK(dp_stat(p[1]).max_message == 16 << 20, "16 MiB are the most");
    pthread_create(&t, NULL, read_large, &p[1]);
    bool sent = true;
    for (unsigned i = 0; i < 4; i++) {
        for (size_t k = 0; k < 16 << 20; k += 4096)
            m[k] = k / 4096 * 3 + i;
        sent &= write(p[0], m, 16 << 20) == 16 << 20;
    }
    pthread_join(t, &good);
    OK(sent && good, "four messages of 16 MiB through a pool of 64 KiB");
    FAILS(EMSGSIZE, write(p[0], m, (16 << 20) + 1), "one byte more");
    FAILS(EMSGSIZE, dp_send_to(p[0], m, (16 << 20) + 1, 0, dp_number(p[1])), "one byte more, to another");
    close2(p);

    dp_pair(p, 4096, O_NONBLOCK);
    bool in_order = true;
    for (uint64_t i = 0; i < 50; i++) {
        size_t len = i % 3 ? 100 : 20000 + i;
        number(big, i, len);
        in_order &= write(p[0], big, len) == (ssize_t)len;
        if (i % 7 == 6)
            for (uint64_t k = i - 6; k <= i; k++) {
                len = k % 3 ? 100 : 20000 + k;
                in_order &= !ioctl(p[1], FIONREAD, &n) && n == (int)len && read(p[1], buf, sizeof buf) == (ssize_t)len;
                in_order &= is_number(buf, k, len);
            }
    }
    OK(in_order, "large and small ones in order");
    while (ready(p[1], POLLIN, 0))
        read(p[1], buf, sizeof buf);
    n = 0;
    while (write(p[0], m, 300000) == 300000)
        n++;
    OK(errno == EAGAIN && n == 3 && !ready(p[0], POLLOUT, 0), "what lies apart is limited: %d of 300000 bytes", n);
    OK(read(p[1], buf, 10) == 10 && ready(p[0], POLLOUT, 1000) == POLLOUT && write(p[0], m, 300000) == 300000, "and comes back");
    FAILS(EFAULT, write(p[0], nowhere, 5000), "a large one that is not there");
    write(p[0], m, 5000);
    uint64_t used = dp_stat(p[1]).pool - dp_stat(p[1]).pool_left;
    OK(used == 4 * 64, "a large one takes a token of the ring");
    close2(p);
    free(m);
}

static void *write_late(void *fd) {
    pause_ms(50);
    return (void *)write(*(int *)fd, "late", 4);
}

static void nothing(int s) {
    (void)s;
}

static void waiting(void) {
    int p[2], fl;
    pthread_t t;
    dp_pair(p, 4096, 0);
    double began = now();
    pthread_create(&t, NULL, write_late, &p[0]);
    OK(read(p[1], buf, 9) == 4 && now() - began > 0.04, "read waits");
    pthread_join(t, NULL);
    struct sigaction act = {.sa_handler = nothing};
    sigaction(SIGALRM, &act, NULL);
    ualarm(30000, 0);
    FAILS(EINTR, read(p[1], buf, 9), "a signal interrupts read");
    fl = fcntl(p[0], F_GETFL);
    fcntl(p[0], F_SETFL, fl | O_NONBLOCK);
    fcntl(p[1], F_SETFL, fl | O_NONBLOCK);
    FAILS(EAGAIN, read(p[1], buf, 9), "nothing there, O_NONBLOCK");
    uint64_t n = 0, got = 0;
    for (number(big, n, 200); write(p[0], big, 200) == 200; number(big, n, 200))
        n++;
    OK(errno == EAGAIN && n > 8 && n < 21, "no room, O_NONBLOCK, after %lu", n);
    OK(ready(p[0], POLLIN | POLLOUT, 0) == 0, "poll says so");
    fcntl(p[0], F_SETFL, fl);
    ualarm(30000, 0);
    FAILS(EINTR, write(p[0], big, 200), "a signal interrupts write");
    while (read(p[1], buf, sizeof buf) == 200 && is_number(buf, got, 200))
        got++;
    OK(got == n && ready(p[0], POLLOUT, 0) == POLLOUT, "all of them arrive, and there is room");
    /* A large message refused: poll must not promise room for less. */
    fcntl(p[0], F_SETFL, fl | O_NONBLOCK);
    while (write(p[0], big, 800) == 800)
        ;
    FAILS(EAGAIN, write(p[0], big, 3000), "no room for a large one");
    read(p[1], buf, sizeof buf);
    read(p[1], buf, sizeof buf);
    OK(ready(p[0], POLLOUT, 0) == 0 && errno, "room for less is not what was wanted");
    read(p[1], buf, sizeof buf);
    read(p[1], buf, sizeof buf);
    OK(ready(p[0], POLLOUT, 0) == POLLOUT && write(p[0], big, 3000) == 3000, "room for as much is");
    struct iovec v = {buf, 9};
    fcntl(p[1], F_SETFL, fl);
    read(p[1], buf, sizeof buf);
    FAILS(EAGAIN, preadv2(p[1], &v, 1, -1, RWF_NOWAIT), "RWF_NOWAIT does not wait");
    close2(p);
}

struct stream {
    int from, to;
    uint64_t count;
    size_t len;
    bool good;
};

static void *stream_out(void *arg) {
    struct stream *s = arg;
    static _Thread_local unsigned char m[70000];
    s->good = true;
    for (uint64_t i = 0; i < s->count; i++) {
        size_t len = 8 + i % s->len;
        number(m, i, len);
        s->good &= write(s->from, m, len) == (ssize_t)len;
    }
    return NULL;
}

static void streams(void) {
    int p[2];
    dp_pair(p, 4096, 0);
    struct stream s = {p[0], p[1], 20000, 900, true};
    pthread_t t;
    pthread_create(&t, NULL, stream_out, &s);
    bool good = true;
    for (uint64_t i = 0; i < s.count && good; i++) {
        if (i % 2000 == 0)
            pause_ms(2);
        good &= read(p[1], buf, sizeof buf) == (ssize_t)(8 + i % 900) && is_number(buf, i, 8 + i % 900);
    }
    pthread_join(t, NULL);
    OK(good && s.good, "20000 messages through a full pool, in order");
    close2(p);

    enum { SENDERS = 6 };
    int to = dp_new(0, 16384, 0), n = dp_number(to);
    struct stream all[SENDERS];
    pthread_t threads[SENDERS];
    unsigned numbers[SENDERS];
    uint64_t next[SENDERS] = {0};
    for (int i = 0; i < SENDERS; i++) {
        all[i] = (struct stream){dp_new(0, 4096, 0), to, 2000, 300, true};
        numbers[i] = dp_number(all[i].from);
        dp_aim(all[i].from, n);
        pthread_create(&threads[i], NULL, stream_out, &all[i]);
    }
    good = true;
    for (int k = 0; k < SENDERS * 2000 && good; k++) {
        ssize_t len = read(to, buf, sizeof buf);
        struct dp_ioc_addr from;
        ioctl(to, DP_IOC_PEER, &from);
        int i = 0;
        while (i < SENDERS && numbers[i] != from.dpid)
            i++;
        good &= i < SENDERS && len == (ssize_t)(8 + next[i] % 300) && is_number(buf, next[i], len);
        next[i % SENDERS]++;
    }
    OK(good, "six senders, each in order");
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        close(all[i].from);
    }
    close(to);
}

static void readiness(void) {
    int p[2], ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {EPOLLIN | EPOLLET, {.u32 = 1}}, out = {EPOLLOUT | EPOLLET, {.u32 = 2}}, got;
    dp_pair(p, 4096, O_NONBLOCK);
    OK(ready(p[1], POLLIN | POLLOUT, 0) == POLLOUT, "fresh: room, nothing to read");
    epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &ev);
    OK(epoll_wait(ep, &got, 1, 0) == 0, "nothing is told");
    bool good = true;
    for (int i = 0; i < 10; i++) {
        write(p[0], "x", 1);
        good &= epoll_wait(ep, &got, 1, 1000) == 1 && got.data.u32 == 1 && epoll_wait(ep, &got, 1, 0) == 0;
    }
    OK(good, "edge-triggered: each message is told once");
    ev.events = EPOLLIN;
    epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &ev);
    good = true;
    for (int i = 0; i < 10; i++)
        good &= epoll_wait(ep, &got, 1, 0) == 1 && read(p[1], buf, 9) == 1;
    OK(good && epoll_wait(ep, &got, 1, 0) == 0, "level-triggered: told until read");
    while (write(p[0], buf, 500) == 500)
        ;
    epoll_ctl(ep, EPOLL_CTL_DEL, p[1], NULL);
    epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &out);
    OK(epoll_wait(ep, &got, 1, 20) == 0, "edge-triggered: no room");
    while (read(p[1], buf, 500) == 500)
        ;
    OK(epoll_wait(ep, &got, 1, 1000) == 1 && got.events == EPOLLOUT, "edge-triggered: room again");
    while (write(p[0], buf, 500) == 500)
        ;
    close(p[1]);
    OK(epoll_wait(ep, &got, 1, 1000) == 1, "a target that goes is told");
    close(p[0]);
    close(ep);

    enum { MANY = 40 };
    int all[MANY];
    fd_set set;
    FD_ZERO(&set);
    int from = dp_new(0, 4096, 0), top = 0;
    for (int i = 0; i < MANY; i++) {
        all[i] = dp_new(0, 4096, 0);
        FD_SET(all[i], &set);
        top = all[i] > top ? all[i] : top;
    }
    dp_send_to(from, "x", 1, 0, dp_number(all[7]));
    dp_send_to(from, "x", 1, 0, dp_number(all[31]));
    OK(select(top + 1, &set, NULL, NULL, NULL) == 2 && FD_ISSET(all[7], &set) && FD_ISSET(all[31], &set), "select");
    for (int i = 0; i < MANY; i++)
        close(all[i]);
    close(from);
}

static void *read_one(void *fd) {
    unsigned char b[16];
    return (void *)read(*(int *)fd, b, sizeof b);
}

static void duplicate(void) {
    int p[2];
    dp_pair(p, 0, 0);
    pthread_t t;
    void *got;
    int mine = dup(p[1]);
    pthread_create(&t, NULL, read_one, &mine);
    pause_ms(30);
    close(p[1]);
    write(p[0], "12", 2);
    pthread_join(t, &got);
    OK((ssize_t)got == 2, "a duplicate keeps it open");
    close(mine);
    close(p[0]);
}

/* Several may send on one endpoint: each is told of room, whoever was refused last. */
static void refused_by_two(void) {
    int p[2], q[2], ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {EPOLLOUT | EPOLLET, {.u32 = 1}}, got;
    dp_pair(p, 4096, O_NONBLOCK);
    dp_pair(q, 4096, O_NONBLOCK);
    unsigned x = dp_number(p[1]), y = dp_number(q[1]);
    while (dp_send_to(p[0], buf, 500, 0, x) == 500)
        ;
    while (dp_send_to(p[0], buf, 500, 0, y) == 500)
        ;
    epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev);
    OK(epoll_wait(ep, &got, 1, 20) == 0, "two destinations without room");
    while (read(p[1], buf, 500) == 500)
        ;
    OK(epoll_wait(ep, &got, 1, 1000) == 1, "room at the first is told");
    FAILS(EAGAIN, dp_send_to(p[0], buf, 500, 0, y), "not at the second");
    OK(!ready(p[0], POLLOUT, 0) && dp_send_to(p[0], buf, 500, 0, x) == 500, "which poll is about then");
    while (read(q[1], buf, 500) == 500)
        ;
    OK(ready(p[0], POLLOUT, 1000) == POLLOUT, "room at the second is told");
    close2(p);
    close2(q);
    close(ep);
}

static void flags(void) {
    int p[2];
    dp_pair(p, 4096, 0);
    struct dp_ioc_sendto s = {(uintptr_t)buf, 500, {0, 0}, DP_SEND_NOWAIT | DP_SEND_TARGET, 0};
    int n = 0;
    while (ioctl(p[0], DP_IOC_SENDTO, &s) == 500)
        n++;
    OK(errno == EAGAIN && n > 4 && !ready(p[0], POLLOUT, 0), "to the target, without waiting: %d messages", n);
    s.flags = 4;
    FAILS(EINVAL, ioctl(p[0], DP_IOC_SENDTO, &s), "a flag that there is not");
    FAILS(ENOTTY, ioctl(0, DP_IOC_SENDTO, &s), "a descriptor of something else");
    OK(read(p[1], buf, 0) == 0 && read(p[1], buf, 0) == 0 && read(p[1], buf, 500) == 500, "a read of no bytes takes nothing");
    while (--n)
        read(p[1], buf, 500);
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    FAILS(EAGAIN, read(p[1], buf, 0), "and waits for a message");
    int alone = dp_new(0, 4096, 0);
    s.flags = DP_SEND_TARGET;
    FAILS(EDESTADDRREQ, ioctl(alone, DP_IOC_SENDTO, &s), "no target");
    OK(dp_stat(alone).serial > dp_stat(p[1]).serial && dp_stat(p[1]).serial > dp_stat(p[0]).serial, "each has a serial number");
    close(alone);
    close2(p);
}

static int low_number_refused(int low) {
    if (!become_nobody())
        return 1;
    return dp_new(low, 0, 0) == -1 && errno == EACCES && dp_new(1024, 0, 0) >= 0 ? 0 : 2;
}

static int others_refused(int to) {
    if (!become_nobody())
        return 1;
    int fd = dp_new(0, 0, 0);
    dp_aim(fd, to);
    bool good = ready(fd, POLLOUT, 0) == POLLOUT && write(fd, "let me in", 9) == -1 && errno == EACCES;
    /* Left for a number that root opens later. */
    return good && dp_send_to(fd, "for root", 8, 0, to + 1) == 8 ? 0 : 2;
}

/* Root opens the number while its sender is there. */
static int others_are_told(int to) {
    if (!become_nobody())
        return 1;
    int fd = dp_new(0, 0, 0), go = dp_new(6003, 0, 0);
    char b[9];
    bool good = dp_send_to(fd, "for root", 8, 0, to) == 8 && dp_stat(fd).backlog == 1;
    return good && go >= 0 && read(go, b, 9) == 8 && dp_stat(fd).backlog == 0 && dp_stat(fd).lost == 1 ? 0 : 2;
}

static void users(void) {
    int low = dp_new(999, 0, 0), six = dp_new(6000, 0, O_NONBLOCK);
    OK(low >= 0, "root has numbers below 1024");
    close(low);
    OK(child_says(low_number_refused, 1023) == 0, "others have not");
    OK(child_says(others_refused, 6000) == 0, "an endpoint of another user is not written to");
    FAILS(EAGAIN, read(six, buf, 9), "nothing came");
    int next = dp_new(6001, 0, O_NONBLOCK);
    FAILS(EAGAIN, read(next, buf, 9), "nor by leaving it before the number was opened");
    close(six);
    close(next);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        pid_t other = fork();
        if (!other)
            _exit(others_are_told(6002));
        /* As root, until nobody has left its message; then lets it go on. */
        int status, mine;
        pause_ms(300);
        mine = dp_new(6002, 0, O_NONBLOCK);
        if (mine < 0 || setuid(NOBODY))
            _exit(2);
        int to = dp_new(0, 0, 0);
        dp_send_to(to, "go ahead", 8, 0, 6003);
        waitpid(other, &status, 0);
        _exit(status != 0);
    }
    int status;
    waitpid(child, &status, 0);
    OK(status == 0, "what another user's opening takes away is counted as lost");
}

static void information(void) {
    int p[2];
    char path[64], text[600] = "";
    dp_pair(p, 8192, 0);
    write(p[0], "abc", 3);
    read(p[1], buf, 9);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", p[0]);
    int f = open(path, O_RDONLY);
    OK(read(f, text, sizeof text - 1) > 0 && strstr(text, "sent:\t1 3\n") && strstr(text, "pool:\t8192 ") && strstr(text, "uid:\t0\n"), "fdinfo");
    close(f);
    struct dp_ioc_stat s = {.size = 8};
    OK(!ioctl(p[0], DP_IOC_STAT, &s) && s.dpid && !s.target_dpid && s.size == 8, "a short structure is filled shortly");
    FAILS(EINVAL, ioctl(p[0], DP_IOC_STAT, &(struct dp_ioc_stat){.size = 3}), "too short a structure");
    close2(p);
}

int main(void) {
    numbers();
    messages();
    large();
    waiting();
    streams();
    readiness();
    duplicate();
    refused_by_two();
    flags();
    users();
    information();
    return tap_end();
}
