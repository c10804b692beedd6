/*
 * The same calls under other names. Modes: syscall (through syscall(2)'s wrapper), fortified (the names that
 * _FORTIFY_SOURCE makes of read, recv, recvfrom, poll and ppoll).
 */
#define _FORTIFY_SOURCE 2
#include "common.h"

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
        CHECK(syscall(SYS_poll, &entry, 1, 5000) == 1);
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

void tester(int fd) {
    if (mode_is("syscall"))
        with_syscall(fd);
    else
        fortified(fd);
    say("300 rounds");
}

void helper(int fd) { echo_until_eof(fd); }
