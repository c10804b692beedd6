/*
 * Flags of recv and send, and byte counts. Modes: zerocopy, peek, peek_until, peek_waitall, waitall, dontwait, trunc,
 * empty, bad_address, pending, told_beside (how much is left, in a control message), low_water (a mark that is set while
 * bytes are there, and holds for what comes later), no_length (a length of -1, as of a read that failed).
 */
#include "common.h"

#include <linux/sockios.h>
#include <sys/mman.h>

static uint64_t taken;

static void take(int fd, size_t length) {
    char buffer[70000];
    read_exact(fd, buffer, length);
    CHECK(is_pattern(buffer, length, taken));
    taken += length;
}

static int waiting_bytes(int fd) {
    int n = -1;
    MUST(ioctl(fd, FIONREAD, &n));
    return n;
}

/* Asks for bytes and returns once all of them are here. */
static void have(int fd, int bytes) {
    ask(fd, (uint32_t)bytes);
    while (waiting_bytes(fd) < bytes)
        sleep_ms(1);
}

static void with_control(int fd, size_t room) {
    char byte[10], control[256];
    struct iovec piece = {byte, sizeof byte};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room, .msg_namelen = 7};
    have(fd, 25);
    CHECK(MUST(recvmsg(fd, &m, 0)) == 10);
    CHECK(is_pattern(byte, 10, taken));
    taken += 10;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    say("length %zu, flags %#x, without a name %u", (size_t)m.msg_controllen, (unsigned)m.msg_flags, m.msg_namelen);
    if (c)
        say("%d %d: left %d", c->cmsg_level, c->cmsg_type, *(int *)CMSG_DATA(c));
    take(fd, 15);
}

static void told_beside(int fd) {
    int on = 1, off = 0;
    have(fd, 10); /* there before the option is set */
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on));
    take(fd, 10);
    with_control(fd, 256);
    with_control(fd, 24);
    with_control(fd, 10);
    with_control(fd, 0);
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &off, sizeof off));
    with_control(fd, 256);
}

/* TCP_ZEROCOPY_RECEIVE may give nothing but the hint to call recv; what it gives and what is left is the stream. */
static void zerocopy(int fd) {
    struct {
        uint64_t address;
        uint32_t length, skip, inq;
        int32_t err;
        uint64_t copy;
        int32_t copied;
        uint32_t flags;
    } z;
    char *map = mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    char buffer[4096];
    for (int i = 0; i < 50; i++) {
        int some = 1 + i * 19;
        have(fd, some);
        memset(&z, 0, sizeof z);
        z.address = (uintptr_t)map;
        z.length = 65536;
        z.copy = (uintptr_t)buffer;
        z.copied = sizeof buffer;
        socklen_t length = sizeof z;
        MUST(getsockopt(fd, IPPROTO_TCP, 35 /* TCP_ZEROCOPY_RECEIVE */, &z, &length));
        CHECK(z.length == 0 && z.copied >= 0 && z.copied <= some && z.err == 0);
        CHECK(is_pattern(buffer, (size_t)z.copied, taken));
        taken += (uint64_t)z.copied;
        if (z.copied == 0)
            CHECK((int)z.skip == some);
        if (z.copied < some)
            take(fd, (size_t)(some - z.copied));
        CHECK(recv(fd, buffer, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    }
    outcome("a socket without a struct", getsockopt(fd, IPPROTO_TCP, 35, &z, &(socklen_t){4}));
}

static void peek(int fd) {
    char buffer[200];
    for (int i = 0; i < 50; i++) {
        have(fd, 100);
        for (int k = 0; k < 3; k++) {
            CHECK(recv(fd, buffer, 60, MSG_PEEK) == 60 && is_pattern(buffer, 60, taken));
            CHECK(recv(fd, buffer, 60, MSG_PEEK | MSG_DONTWAIT) == 60 && is_pattern(buffer, 60, taken));
        }
        CHECK(recv(fd, buffer, sizeof buffer, MSG_PEEK) == 100 && is_pattern(buffer, 100, taken));
        take(fd, 30);
        CHECK(recv(fd, buffer, sizeof buffer, MSG_PEEK) == 70 && is_pattern(buffer, 70, taken));
        take(fd, 70);
        CHECK(recv(fd, buffer, 1, MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN);
    }
    ask_later(fd, 5, 50);
    CHECK(recv(fd, buffer, sizeof buffer, MSG_PEEK) > 0 && is_pattern(buffer, 1, taken)); /* blocks */
    take(fd, 5);
}

/* Peeks until all of what was sent in several pieces is there, wherever it is kept meanwhile. */
static void peek_until(int fd) {
    static char buffer[60000];
    uint64_t state = 3;
    for (int i = 0; i < 60; i++) {
        size_t all = 0, most = i % 10 == 9 ? 12000 : 300;
        for (int k = 0; k < 5; k++) {
            uint32_t n = 1 + (uint32_t)(next_random(&state) % most);
            ask(fd, n);
            all += n;
        }
        uint64_t end = now_ms() + 10000;
        ssize_t n;
        while ((n = recv(fd, buffer, sizeof buffer, MSG_PEEK)) < (ssize_t)all) {
            CHECK(n > 0 && is_pattern(buffer, (size_t)n, taken));
            CHECK(now_ms() < end /* it never sees all */);
        }
        CHECK(n == (ssize_t)all && is_pattern(buffer, all, taken));
        CHECK(waiting_bytes(fd) == (int)all);
        CHECK(recv(fd, NULL, sizeof buffer, MSG_PEEK | MSG_TRUNC) == (ssize_t)all);
        size_t part = 1 + next_random(&state) % all, cut = next_random(&state) % part;
        char *other = malloc(part);
        CHECK(other);
        struct iovec pieces[3] = {{buffer, cut}, {NULL, 0}, {other, part - cut}};
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 3};
        CHECK(recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)part);
        CHECK(is_pattern(buffer, cut, taken) && is_pattern(other, part - cut, taken + cut));
        free(other);
        take(fd, part);
        n = recv(fd, buffer, sizeof buffer, MSG_PEEK | MSG_DONTWAIT);
        CHECK(n == (all == part ? -1 : (ssize_t)(all - part)) && (n < 0 || is_pattern(buffer, (size_t)n, taken)));
        take(fd, all - part);
    }
}

/* Together they wait, as without MSG_PEEK; a time limit and the end of the stream give what is there. */
static void peek_waitall(int fd) {
    static char buffer[60000];
    for (int i = 0; i < 30; i++) {
        uint32_t first = 1 + (uint32_t)i * 97 % 1000, second = i % 10 ? 60 : 20000;
        ask(fd, first);
        ask_later(fd, 100, i % 3 ? 0 : 5);
        ask_later(fd, second, i % 3 == 1 ? 5 : 0);
        size_t all = first + 100 + second;
        CHECK(recv(fd, buffer, all, MSG_PEEK | MSG_WAITALL) == (ssize_t)all && is_pattern(buffer, all, taken));
        CHECK(recv(fd, buffer, sizeof buffer, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT) == (ssize_t)all);
        take(fd, all);
    }
    have(fd, 40);
    struct timeval limit = {.tv_usec = 50000}, none = {0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    outcome("50 ms for 100, 40 there", recv(fd, buffer, 100, MSG_PEEK | MSG_WAITALL));
    take(fd, 40);
    outcome("50 ms for 100, nothing there", recv(fd, buffer, 100, MSG_PEEK | MSG_WAITALL));
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    ask(fd, 10);
    ask_shutdown(fd);
    outcome("100, EOF after 10", recv(fd, buffer, 100, MSG_PEEK | MSG_WAITALL));
    take(fd, 10);
    outcome("at EOF", recv(fd, buffer, 100, MSG_PEEK | MSG_WAITALL));
}

static void waitall(int fd) {
    static char buffer[200000];
    for (int i = 0; i < 30; i++) {
        ask(fd, 40);
        ask_later(fd, 60, i % 10 ? 0 : 20); /* comes in two pieces */
        CHECK(recv(fd, buffer, 100, MSG_WAITALL) == 100 && is_pattern(buffer, 100, taken));
        taken += 100;
    }
    ask(fd, sizeof buffer);
    CHECK(recv(fd, buffer, sizeof buffer, MSG_WAITALL) == sizeof buffer);
    CHECK(is_pattern(buffer, sizeof buffer, taken));
    taken += sizeof buffer;
    ask(fd, 10);
    ask_shutdown(fd);
    outcome("waitall of 100, EOF after 10", recv(fd, buffer, 100, MSG_WAITALL));
}

static void dontwait(int fd) {
    char buffer[100];
    struct iovec vector = {buffer, sizeof buffer};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    for (int i = 0; i < 20; i++) {
        CHECK(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        CHECK(recvmsg(fd, &message, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        have(fd, 100);
        CHECK(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) == 100 && is_pattern(buffer, 100, taken));
        taken += 100;
    }
    set_nonblocking(fd, true);
    outcome("read on a nonblocking fd", read(fd, buffer, sizeof buffer));
    set_nonblocking(fd, false);
    ask_later(fd, 10, 30);
    take(fd, 10); /* blocks again */
}

/* On TCP MSG_TRUNC throws bytes away and says how many. */
static void truncated(int fd) {
    char buffer[100];
    for (int i = 0; i < 50; i++) {
        have(fd, 100);
        memset(buffer, 'u', sizeof buffer);
        CHECK(recv(fd, buffer, 40, MSG_TRUNC) == 40);
        for (int k = 0; k < 40; k++)
            CHECK(buffer[k] == 'u');
        taken += 40;
        take(fd, 60);
    }
    have(fd, 10);
    outcome("recv(NULL, 10, MSG_TRUNC)", recv(fd, NULL, 10, MSG_TRUNC));
    taken += 10;
}

static void empty(int fd) {
    char byte;
    outcome("send of nothing", send(fd, "", 0, 0));
    outcome("write of nothing", write(fd, "", 0));
    outcome("read of nothing", read(fd, &byte, 0));
    have(fd, 10);
    outcome("recv of nothing, 10 there", recv(fd, &byte, 0, 0));
    outcome("waiting", waiting_bytes(fd));
    take(fd, 10);
    outcome("recv into nowhere", recv(fd, NULL, 0, MSG_DONTWAIT));
}

/* The kernel answers EFAULT and keeps the bytes. */
static void bad_address(int fd) {
    have(fd, 10);
    outcome("recv at a bad address", recv(fd, (void *)8, 5, 0));
    take(fd, 10);
    outcome("send from a bad address", send(fd, (void *)8, 5, 0));
    have(fd, 10);
    take(fd, 10);
    char buffer[10];
    void *const beyond = (void *)-4096;
    struct iovec pieces[] = {{beyond, 5}, {buffer, 5}}, later[] = {{buffer, 5}, {NULL, 5}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2}, no_list = {.msg_iov = beyond, .msg_iovlen = 1};
    have(fd, 10);
    outcome("read into the kernel", read(fd, beyond, 5));
    outcome("write from the kernel", write(fd, beyond, 5));
    outcome("recvmsg, first piece", recvmsg(fd, &message, 0));
    outcome("sendmsg, first piece", sendmsg(fd, &message, 0));
    outcome("recvmsg, no list", recvmsg(fd, &no_list, 0));
    outcome("sendmsg, no list", sendmsg(fd, &no_list, 0));
    outcome("recvmsg, no message", recvmsg(fd, beyond, 0));
    outcome("readv, second piece", readv(fd, later, 2));
    take(fd, 10);
    outcome("recvmsg with MSG_TRUNC", (ask(fd, 10), message.msg_iov = later, recvmsg(fd, &message, MSG_TRUNC | MSG_WAITALL)));
    taken += 10;
    have(fd, 10);
    take(fd, 10);
    /* Where there is nothing to be put there, nobody looks at the address; that of the kernel is refused before. */
    outcome("recv, nothing there", recv(fd, NULL, 5, MSG_DONTWAIT));
    outcome("peek, nothing there", recv(fd, NULL, 5, MSG_PEEK | MSG_DONTWAIT));
    outcome("recvmsg, nothing there", (message.msg_iov = later + 1, message.msg_iovlen = 1, recvmsg(fd, &message, MSG_DONTWAIT)));
    outcome("recv into the kernel, nothing there", recv(fd, beyond, 5, MSG_DONTWAIT));
    outcome("and with MSG_TRUNC", recv(fd, beyond, 5, MSG_DONTWAIT | MSG_TRUNC));
    ask_later(fd, 10, 30);
    outcome("a wait", recv(fd, NULL, 5, 0));
    outcome("a peek", recv(fd, NULL, 5, MSG_PEEK));
    take(fd, 10);
    ask_shutdown(fd);
    outcome("recv at the end", recv(fd, NULL, 5, 0));
    MUST(shutdown(fd, SHUT_WR));
    outcome("send behind it", send(fd, NULL, 5, MSG_NOSIGNAL));
    outcome("send of the kernel's behind it", send(fd, beyond, 5, MSG_NOSIGNAL));
}

static void pending(int fd) {
    for (int i = 0; i < 30; i++) {
        CHECK(waiting_bytes(fd) == 0);
        have(fd, 100);
        CHECK(waiting_bytes(fd) == 100);
        take(fd, 30);
        CHECK(waiting_bytes(fd) == 70);
        take(fd, 70);
    }
    have(fd, 60000);
    outcome("waiting", waiting_bytes(fd));
    take(fd, 60000);
    outcome("waiting", waiting_bytes(fd));
    for (int unsent = 1; unsent > 0;) /* the helper has taken all that was sent, so this becomes 0 */
        MUST(ioctl(fd, SIOCOUTQ, &unsent));
    say("nothing unsent");
}

/* The peer sleeps while the mark is set, and so does not see that; then a byte comes, and more of them later. */
static void low_water(int fd) {
    char bytes[1000];
    int mark = 100;
    ask(fd, 20);
    ask_later(fd, 1, 300);
    while (waiting_bytes(fd) < 20)
        sleep_ms(1);
    take(fd, 10);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    take(fd, 10);
    for (int i = 0; i < 3; i++) {
        while (waiting_bytes(fd) < 1)
            sleep_ms(1);
        /* What the call has taken already does not count: Linux wakes it for no less than the mark. */
        ask_later(fd, (uint32_t)mark, 100);
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        outcome("recv of 1, and of 100 later", n);
        CHECK(n > 0 && is_pattern(bytes, (size_t)n, taken));
        taken += (uint64_t)n;
        ask(fd, 1);
    }
    /* Nor for this one. */
    while (waiting_bytes(fd) < 1)
        sleep_ms(1);
    take(fd, 1);
}

static void no_length(int fd) {
    static char bytes[100];
    volatile size_t minus_one = (size_t)-1;
    outcome("write of -1", write(fd, bytes, minus_one));
    have(fd, 10);
    outcome("read of -1", read(fd, bytes, minus_one));
    struct iovec piece = {bytes, minus_one};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    outcome("writev of -1", writev(fd, &piece, 1));
    outcome("readv of -1", readv(fd, &piece, 1));
    outcome("sendmsg of -1", sendmsg(fd, &message, 0));
    outcome("recvmsg of -1", recvmsg(fd, &message, 0));
    take(fd, 10);
    have(fd, 10);
    take(fd, 10);
}

void tester(int fd) {
    static const struct {
        const char *name;
        void (*run)(int fd);
    } modes[] = {
        {"told_beside", told_beside}, {"zerocopy", zerocopy}, {"peek", peek},             {"peek_until", peek_until}, {"peek_waitall", peek_waitall},
        {"waitall", waitall},   {"dontwait", dontwait},     {"trunc", truncated},
        {"empty", empty},       {"bad_address", bad_address}, {"pending", pending},
        {"low_water", low_water}, {"no_length", no_length},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (mode_is(modes[i].name))
            modes[i].run(fd);
    say("%llu bytes taken", (unsigned long long)taken);
}
