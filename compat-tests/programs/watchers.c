/*
 * Several threads wait for the same connection.
 * Modes: poll (both must wake), epoll (the same, each with a set of its own), shared_oneshot (one set, each
 * message handled by exactly one thread).
 */
#include "common.h"

#define ROUNDS 100
#define MESSAGES 400

static pthread_barrier_t both_awake, taken_out;
static int connection, shared_set;
static int handled; /* by the thread that holds the ONESHOT event, so never by two at once */

static void wait_readable(int set) {
    struct pollfd entry = {.fd = connection, .events = POLLIN};
    struct epoll_event event;
    int n = set < 0 ? poll(&entry, 1, 5000) : epoll_wait(set, &event, 1, 5000);
    CHECK(n == 1);
}

static void *watcher(void *leads) {
    int set = -1;
    if (mode_is("epoll")) {
        struct epoll_event event = {.events = EPOLLIN};
        set = MUST(epoll_create1(0));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, connection, &event));
    }
    for (int i = 0; i < ROUNDS; i++) {
        char byte;
        if (leads)
            ask(connection, 1);
        wait_readable(set);
        pthread_barrier_wait(&both_awake);
        if (leads) {
            CHECK(read(connection, &byte, 1) == 1 && (uint8_t)byte == pattern((uint64_t)i));
        }
        pthread_barrier_wait(&taken_out);
    }
    if (set >= 0)
        close(set);
    return NULL;
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        struct epoll_event event;
        CHECK(epoll_wait(shared_set, &event, 1, 5000) == 1);
        if (handled < MESSAGES) {
            char message[8];
            read_exact(connection, message, sizeof message);
            CHECK(is_pattern(message, sizeof message, (uint64_t)handled * sizeof message));
            if (++handled < MESSAGES)
                ask(connection, sizeof message);
            else
                ask_shutdown(connection); /* EOF stays readable: it wakes and ends everyone */
        }
        bool last = handled == MESSAGES;
        struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT};
        MUST(epoll_ctl(shared_set, EPOLL_CTL_MOD, connection, &again));
        if (last)
            return NULL;
    }
}

void tester(int fd) {
    connection = fd;
    pthread_t first, second;
    if (mode_is("shared_oneshot")) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
        shared_set = MUST(epoll_create1(0));
        MUST(epoll_ctl(shared_set, EPOLL_CTL_ADD, fd, &event));
        first = start_thread(worker, NULL);
        second = start_thread(worker, NULL);
        ask(fd, 8);
    } else {
        pthread_barrier_init(&both_awake, NULL, 2);
        pthread_barrier_init(&taken_out, NULL, 2);
        first = start_thread(watcher, &connection);
        second = start_thread(watcher, NULL);
    }
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    say("both threads done, %d messages handled by one of them", handled);
}
