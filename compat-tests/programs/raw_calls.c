/*
 * The same calls under other names. Modes: syscall (through syscall(2)'s wrapper), fortified (the names that
 * _FORTIFY_SOURCE makes of read, recv, recvfrom, poll and ppoll), underscores (the C library's second names).
 */
#define _FORTIFY_SOURCE 2
#include "common.h"

#include <dlfcn.h>
#include <sys/select.h>
#include <sys/syscall.h>

static void with_syscall(int fd) {
    char out[500], in[500];
    for (int i = 0; i < 300; i++) {
        size_t length = 1 + (size_t)i % sizeof out;
        fill(out, length, (uint64_t)i);
        if (i % 2)
            CHECK(syscall(SYS_write, fd, out, length) == (long)length);
        else
            CHECK(syscall(SYS_sendto, fd, out, length, MSG_NOSIGNAL, NULL, 0) == (long)length);
        struct pollfd entry = {.fd = fd, .events = POLLIN};
#ifdef SYS_poll
        CHECK(syscall(SYS_poll, &entry, 1, 5000) == 1);
#else
        CHECK(syscall(SYS_ppoll, &entry, 1, NULL, NULL, 0) == 1);
#endif
        for (size_t got = 0; got < length;) {
            long n = i % 3 ? syscall(SYS_read, fd, in + got, length - got)
                           : syscall(SYS_recvfrom, fd, in + got, length - got, 0, NULL, NULL);
            CHECK(n > 0);
            got += (size_t)n;
        }
        CHECK(memcmp(in, out, length) == 0);
        exchange(fd, 100, (uint64_t)i);
    }
    for (long bad = 0; bad < 4096; bad += 1000)
        outcome("clone3 of nowhere", syscall(SYS_clone3, bad, 64));
    int number = -1;
    outcome("FIONREAD", syscall(SYS_ioctl, fd, FIONREAD, &number));
    CHECK(number == 0);
    socklen_t size = sizeof number;
    outcome("getsockopt", syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &number, &size));
    say("TCP_NODELAY: %d", number);
    number = 1;
    outcome("setsockopt", syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &number, size));
    number = 0;
    outcome("getsockopt", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, &size));
    say("TCP_NODELAY: %d", number);
    struct sockaddr_storage peer;
    size = sizeof peer;
    outcome("getpeername", syscall(SYS_getpeername, fd, &peer, &size));
}

/* Lengths the compiler cannot know, into arrays it does know: that makes it call __read_chk and the others. */
static void fortified(int fd) {
    char out[500], in[500];
    struct pollfd entries[1];
    struct timespec limit = {5, 0};
    volatile nfds_t count = 1;
    for (int i = 0; i < 300; i++) {
        volatile size_t length = 1 + (size_t)i % sizeof out;
        fill(out, length, (uint64_t)i);
        write_all(fd, out, length);
        entries[0] = (struct pollfd){.fd = fd, .events = POLLIN};
        CHECK((i % 2 ? poll(entries, count, 5000) : ppoll(entries, count, &limit, NULL)) == 1);
        CHECK(recv(fd, in, length, MSG_WAITALL | MSG_PEEK) == (ssize_t)length);
        ssize_t n = i % 3 == 0   ? read(fd, in, length)
                    : i % 3 == 1 ? recv(fd, in, length, MSG_WAITALL)
                                 : recvfrom(fd, in, length, MSG_WAITALL, NULL, NULL);
        CHECK(n > 0);
        read_exact(fd, in + n, length - (size_t)n);
        CHECK(memcmp(in, out, length) == 0);
    }
}

/* A C library without the second name has the first alone. */
#define SECOND(name)                                           \
    ({                                                         \
        void *second = dlsym(RTLD_DEFAULT, "__" #name);        \
        (__typeof__(&name))(second ? second : (void *)(name)); \
    })

static void wait_for_bytes(int fd, bool by_poll) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    struct timeval limit = {5, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK((by_poll ? SECOND(poll)(&entry, 1, 5000) : SECOND(select)(fd + 1, &set, NULL, NULL, &limit)) == 1);
}

static void with_underscores(int fd) {
    char out[500], in[500];
    int other = MUST(SECOND(socket)(AF_UNIX, SOCK_STREAM, 0));
    for (int i = 0; i < 300; i++) {
        size_t length = 1 + (size_t)i % sizeof out;
        struct iovec piece = {out, length};
        struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
        fill(out, length, (uint64_t)i);
        if (i % 3 == 0)
            CHECK(SECOND(write)(fd, out, length) == (ssize_t)length);
        else if (i % 3 == 1)
            CHECK(SECOND(send)(fd, out, length, MSG_NOSIGNAL) == (ssize_t)length);
        else
            CHECK(SECOND(sendmmsg)(fd, &message, 1, 0) == 1 && message.msg_len == length);
        wait_for_bytes(fd, i % 2);
        for (size_t got = 0; got < length;) {
            ssize_t n = i % 5 ? SECOND(read)(fd, in + got, length - got) : SECOND(recv)(fd, in + got, length - got, 0);
            CHECK(n > 0);
            got += (size_t)n;
        }
        CHECK(memcmp(in, out, length) == 0);
        exchange(fd, 100, (uint64_t)i);
        if (i % 50 == 0) {
            CHECK(SECOND(dup2)(fd, other) == other);
            exchange(other, 100, (uint64_t)i);
            int third = MUST(SECOND(fcntl)(fd, F_DUPFD, 0));
            exchange(third, 100, (uint64_t)i);
            CHECK(SECOND(close)(third) == 0);
        }
    }
    int flags = MUST(SECOND(fcntl)(fd, F_GETFL));
    MUST(SECOND(fcntl)(fd, F_SETFL, flags | O_NONBLOCK));
    outcome("read of nothing", SECOND(read)(fd, in, sizeof in));
    MUST(SECOND(fcntl)(fd, F_SETFL, flags));
    CHECK(SECOND(close)(other) == 0);
    outcome("write after close", SECOND(write)(other, out, 1));
    /* The number stands for a file now, and both are used. */
    CHECK(MUST(open("/dev/null", O_RDWR)) == other);
    CHECK(SECOND(write)(other, out, 1) == 1 && SECOND(read)(other, in, 1) == 0);
    exchange(fd, 100, 1);
    outcome("connect again", SECOND(connect)(fd, &(struct sockaddr){.sa_family = AF_INET}, sizeof(struct sockaddr)));
}

void tester(int fd) {
    if (mode_is("syscall"))
        with_syscall(fd);
    else if (mode_is("underscores"))
        with_underscores(fd);
    else
        fortified(fd);
    say("300 rounds");
}

void helper(int fd) { echo_until_eof(fd); }
