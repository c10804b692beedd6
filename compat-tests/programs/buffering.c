/*
 * Programs that rely on the buffers between the two sides.
 *   both_first             each side writes 1 MiB before it reads anything
 *   slow_poll, slow_select, slow_epoll, slow_edge
 *                          a nonblocking sender fills everything there is, then waits for room
 */
#include "common.h"

#include <sys/select.h>

#define FIRST (1u << 20)
#define STREAM (12u << 20)

static char data[STREAM];

static void both_first(int fd) {
    uint64_t sum = SUM_START;
    fill(data, FIRST, is_client ? 1 : 2);
    write_all(fd, data, FIRST);
    mark(is_client ? "client-wrote" : "server-wrote", 1);
    await_mark(is_client ? "server-wrote" : "client-wrote");
    read_exact(fd, data, FIRST);
    say("received, sum %016llx", (unsigned long long)checksum(sum, data, FIRST));
}

static int epoll_for(int fd) {
    if (!mode_is("slow_epoll") && !mode_is("slow_edge"))
        return -1;
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLOUT | (mode_is("slow_edge") ? EPOLLIN | EPOLLET : 0)};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    return set;
}

static void wait_writable(int fd, int set) {
    if (set >= 0) {
        struct epoll_event event;
        CHECK(MUST(epoll_wait(set, &event, 1, 10000)) == 1);
    } else if (mode_is("slow_select")) {
        fd_set writable;
        FD_ZERO(&writable);
        FD_SET(fd, &writable);
        struct timeval limit = {10, 0};
        CHECK(MUST(select(fd + 1, NULL, &writable, NULL, &limit)) == 1);
    } else {
        struct pollfd entry = {.fd = fd, .events = POLLOUT};
        CHECK(MUST(poll(&entry, 1, 10000)) == 1 && entry.revents == POLLOUT);
    }
}

void tester(int fd) {
    if (mode_is("both_first")) {
        both_first(fd);
        return;
    }
    int set = epoll_for(fd);
    uint64_t full = 0, state = 5;
    set_nonblocking(fd, true);
    fill(data, STREAM, 3);
    for (size_t at = 0; at < STREAM;) {
        size_t length = 1 + next_random(&state) % 200000;
        length = length > STREAM - at ? STREAM - at : length;
        ssize_t n = write(fd, data + at, length);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        CHECK(n < 0 && errno == EAGAIN);
        if (full++ == 0)
            mark("full", 1); /* the reader starts only now */
        wait_writable(fd, set);
    }
    MUST(shutdown(fd, SHUT_WR));
    say("sent, sum %016llx, was full: %s", (unsigned long long)checksum(SUM_START, data, STREAM),
        full > 0 ? "yes" : "no");
    set_nonblocking(fd, false);
    char byte;
    outcome("end", read(fd, &byte, 1));
    if (set >= 0)
        close(set);
}

void helper(int fd) {
    if (mode_is("both_first")) {
        both_first(fd);
        return;
    }
    uint64_t sum = SUM_START, total = 0;
    static char chunk[65536];
    await_mark("full");
    for (ssize_t n; (n = MUST(read(fd, chunk, sizeof chunk))) > 0; total += (uint64_t)n) {
        sum = checksum(sum, chunk, (size_t)n);
        if (total < 50 * sizeof chunk)
            sleep_ms(1);
    }
    say("received %llu bytes, sum %016llx", (unsigned long long)total, (unsigned long long)sum);
}
