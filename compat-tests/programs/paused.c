/*
 * An epoll set of two connections, of which one is to be silent: its peer sends all the same, and then the other one's.
 *   paused    the program wants nothing to read of it (EPOLL_CTL_MOD)
 *   deleted   another thread deletes it (EPOLL_CTL_DEL), at about the time at which its peer sends
 * Each round has a set of its own: one in which a thread has slept often may be woken in another way.
 */
#include "common.h"

#define LENGTH 10

static int fds[2], set;

static int rounds(void) { return mode_is("paused") ? 3 : 60; }

static const char *of_round(const char *what, int round) {
    static char name[32];
    snprintf(name, sizeof name, "%s%d", what, round);
    return name;
}

static void watch(int op, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(set, op, fd, &event));
}

/* The connection that has something. */
static int next(void) {
    struct epoll_event event;
    CHECK(epoll_wait(set, &event, 1, 20000) == 1);
    return event.data.fd;
}

static void take(int fd) {
    char buffer[LENGTH];
    read_exact(fd, buffer, sizeof buffer);
}

static void *deletes(void *when) {
    write_all(fds[1], "!", 1); /* the peer sends now */
    for (volatile int turn = (int)(intptr_t)when; turn > 0; turn--)
        ;
    MUST(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], NULL));
    return NULL;
}

void server(void) {
    int listener = listen_here();
    fds[0] = accepted(listener);
    fds[1] = accepted(listener);
    uint64_t random = 1;
    for (int round = 0; round < rounds(); round++) {
        set = MUST(epoll_create1(0));
        watch(EPOLL_CTL_ADD, fds[0], EPOLLIN);
        watch(EPOLL_CTL_ADD, fds[1], EPOLLIN);
        for (int i = 0; i < 2; i++) {
            int fd = next();
            take(fd);
            write_all(fd, "!", 1);
        }
        bool taken = false;
        pthread_t other = 0;
        if (mode_is("paused")) {
            watch(EPOLL_CTL_MOD, fds[0], 0);
            mark(of_round("asleep", round), 1);
        } else {
            other = start_thread(deletes, (void *)(intptr_t)(next_random(&random) % 60000));
        }
        int fd;
        while ((fd = next()) == fds[0] && !mode_is("paused")) {
            if (!taken)
                take(fd);
            taken = true;
        }
        CHECK(fd == fds[1]);
        take(fd);
        if (mode_is("paused"))
            watch(EPOLL_CTL_MOD, fds[0], EPOLLIN);
        else
            pthread_join(other, NULL);
        if (mode_is("paused"))
            CHECK(next() == fds[0]);
        if (!taken)
            take(fds[0]);
        write_all(fds[0], "!", 1);
        close(set);
    }
    say("heard all");
}

void client(void) {
    int to[2] = {connected(), connected()};
    char message[LENGTH] = {0}, byte;
    for (int round = 0; round < rounds(); round++) {
        for (int i = 0; i < 2; i++) {
            write_all(to[i], message, sizeof message);
            read_exact(to[i], &byte, 1);
        }
        if (mode_is("paused")) {
            await_mark(of_round("asleep", round));
            sleep_ms(20);
        } else {
            read_exact(to[1], &byte, 1);
        }
        write_all(to[0], message, sizeof message);
        sleep_ms(20);
        write_all(to[1], message, sizeof message);
        read_exact(to[0], &byte, 1);
    }
    say("said all");
}
