/*
 * One server process, one readiness call, five clients that talk in turns and all at once.
 * Modes: poll ppoll select pselect epoll epoll_pwait epoll_edge.
 */
#include "common.h"

#include <sys/select.h>

#define CLIENTS 5
#define ROUNDS 60

static int watched[CLIENTS + 1]; /* [0] is the listener */
static bool ready[CLIENTS + 1];
static int watching, epoll_set = -1;
static const struct timespec five_seconds = {5, 0};

static void watch(int fd) {
    no_delay(fd); /* inherited from the listener; some messages are echoed in pieces */
    watched[watching] = fd;
    if (epoll_set >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)watching};
        if (mode_is("epoll_edge")) {
            event.events |= EPOLLET;
            set_nonblocking(fd, true);
        }
        MUST(epoll_ctl(epoll_set, EPOLL_CTL_ADD, fd, &event));
    }
    watching++;
}

static void wait_with_poll(void) {
    struct pollfd entries[CLIENTS + 1];
    for (int i = 0; i < watching; i++)
        entries[i] = (struct pollfd){.fd = watched[i], .events = POLLIN};
    int n = mode_is("poll") ? poll(entries, (nfds_t)watching, 5000)
                            : ppoll(entries, (nfds_t)watching, &five_seconds, NULL);
    CHECK(n > 0);
    for (int i = 0; i < watching; i++)
        ready[i] = watched[i] >= 0 && (entries[i].revents & (POLLIN | POLLHUP));
}

static void wait_with_select(void) {
    fd_set readable;
    FD_ZERO(&readable);
    int highest = -1;
    for (int i = 0; i < watching; i++)
        if (watched[i] >= 0) {
            FD_SET(watched[i], &readable);
            highest = watched[i] > highest ? watched[i] : highest;
        }
    struct timeval limit = {5, 0};
    int n = mode_is("select") ? select(highest + 1, &readable, NULL, NULL, &limit)
                              : pselect(highest + 1, &readable, NULL, NULL, &five_seconds, NULL);
    CHECK(n > 0);
    for (int i = 0; i < watching; i++)
        ready[i] = watched[i] >= 0 && FD_ISSET(watched[i], &readable);
}

static void wait_with_epoll(void) {
    struct epoll_event events[2]; /* fewer than connections: the rest must come with the next call */
    int n = mode_is("epoll_pwait") ? epoll_pwait(epoll_set, events, 2, 5000, NULL)
                                   : epoll_wait(epoll_set, events, 2, 5000);
    CHECK(n > 0);
    memset(ready, 0, sizeof ready);
    for (int i = 0; i < n; i++)
        ready[events[i].data.u32] = true;
}

static void wait_ready(void) {
    if (epoll_set >= 0)
        wait_with_epoll();
    else if (mode_is("poll") || mode_is("ppoll"))
        wait_with_poll();
    else
        wait_with_select();
}

/* Echoes what is there; with edges everything that is there. Returns the bytes, and whether it was EOF. */
static uint64_t serve(int fd, bool *eof) {
    char buffer[700];
    uint64_t total = 0;
    do {
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n < 0) {
            CHECK(errno == EAGAIN && mode_is("epoll_edge"));
            break;
        }
        *eof = n == 0;
        write_all(fd, buffer, (size_t)n);
        total += (uint64_t)n;
    } while (mode_is("epoll_edge") && !*eof);
    return total;
}

void server(void) {
    if (mode_is("epoll") || mode_is("epoll_pwait") || mode_is("epoll_edge"))
        epoll_set = MUST(epoll_create1(EPOLL_CLOEXEC));
    watch(listen_here());
    uint64_t total = 0;
    for (int ended = 0; ended < CLIENTS;) {
        wait_ready();
        int before = watching;
        for (int i = 1; i < before; i++) {
            bool eof = false;
            if (!ready[i])
                continue;
            total += serve(watched[i], &eof);
            if (eof) {
                MUST(close(watched[i]));
                watched[i] = -1;
                ended++;
            }
        }
        if (ready[0]) {
            int fd = accept(watched[0], NULL, NULL);
            if (fd >= 0)
                watch(fd);
            while (fd >= 0 && mode_is("epoll_edge"))
                if ((fd = accept(watched[0], NULL, NULL)) >= 0)
                    watch(fd);
        }
    }
    say("echoed %llu bytes", (unsigned long long)(total - (uint64_t)(CLIENTS * warm_count() * WARM_BYTES)));
}

void client(void) {
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connected();
    for (int round = 0; round < ROUNDS; round++) {
        exchange(fds[round * 3 % CLIENTS], 1 + (size_t)round * 37 % 2000, (uint64_t)round);
        char out[CLIENTS][300], in[300];
        for (int i = 0; i < CLIENTS; i++) {
            fill(out[i], sizeof out[i], (uint64_t)(round * CLIENTS + i));
            write_all(fds[i], out[i], sizeof out[i]);
        }
        for (int i = CLIENTS - 1; i >= 0; i--) {
            read_exact(fds[i], in, sizeof in);
            CHECK(memcmp(in, out[i], sizeof in) == 0);
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        MUST(close(fds[i]));
    say("%d rounds with %d connections", ROUNDS, CLIENTS);
}
