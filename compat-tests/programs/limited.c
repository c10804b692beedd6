/*
 * A process forbids itself new descriptors (RLIMIT_NOFILE), so that poll(2) refuses any list, and goes on with its connection, to
 * the end of it. Modes: what waits there.
 *   recv, nonblocking, epoll, select, select_time
 *   poll       with a limit of one, which is enough for that
 * First argument: how the limit is set: 0 setrlimit, 1 prlimit, 2 syscall, 3 by another process
 */
#include "common.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#define SOON 1000 /* ms */

static int set = -1;

static void limit(void) {
    rlim_t n = mode_is("poll") ? 1 : 0;
    struct rlimit few = {n, n};
    switch (argument(0, 0)) {
    case 0:
        MUST(setrlimit(RLIMIT_NOFILE, &few));
        break;
    case 1:
        MUST(prlimit(0, RLIMIT_NOFILE, &few, NULL));
        break;
    case 2:
        MUST(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &few, NULL));
        break;
    default: {
        pid_t other = MUST(fork());
        if (other == 0) {
            MUST(prlimit(getppid(), RLIMIT_NOFILE, &few, NULL));
            _exit(0);
        }
        join_child(other);
    }
    }
}

static void await(int fd) {
    if (mode_is("epoll")) {
        struct epoll_event got;
        CHECK(epoll_wait(set, &got, 1, SOON) == 1 && got.events & EPOLLIN && got.data.u64 == 3);
    } else if (mode_is("select") || mode_is("select_time")) {
        struct timeval soon = {SOON / 1000, 0};
        fd_set in;
        FD_ZERO(&in);
        FD_SET(fd, &in);
        CHECK(select(fd + 1, &in, NULL, NULL, mode_is("select") ? NULL : &soon) == 1 && FD_ISSET(fd, &in));
    } else if (mode_is("poll")) {
        struct pollfd one = {fd, POLLIN, 0};
        CHECK(poll(&one, 1, SOON) == 1 && one.revents & POLLIN);
    }
}

static ssize_t take(int fd, char *to, size_t n) {
    uint64_t start = now_ms();
    for (;;) {
        await(fd);
        ssize_t got = recv(fd, to, n, mode_is("recv") ? 0 : MSG_DONTWAIT);
        CHECK(now_ms() - start < SOON);
        if (got >= 0)
            return got;
        CHECK(errno == EAGAIN && mode_is("nonblocking"));
        sleep_ms(1);
    }
}

void tester(int fd) {
    if (mode_is("epoll")) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = 3};
        set = MUST(epoll_create1(0));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    }
    set_nonblocking(fd, false);
    limit();
    char in[10];
    uint64_t position = 0;
    for (uint32_t wait = 0; wait < 200; wait += 50) {
        ask_later(fd, sizeof in, wait);
        for (size_t at = 0; at < sizeof in;) {
            ssize_t n = take(fd, in + at, sizeof in - at);
            CHECK(n > 0);
            at += (size_t)n;
        }
        CHECK(is_pattern(in, sizeof in, position));
        position += sizeof in;
    }
    ask_shutdown(fd);
    CHECK(take(fd, in, 1) == 0);
    say("ended");
}

void helper(int fd) { serve_asks(fd); }
