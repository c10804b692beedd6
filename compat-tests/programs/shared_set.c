/*
 * A child that was forked waits in its parent's epoll set, and so does its parent. The server has the set, the client sends
 * what it is asked for.
 *   deleted   the parent has deleted a registration just before the fork, and adds it again behind the child's waits
 *   changed   the same, with what is waited for: it is changed, and changed back
 *   asleep    the parent sleeps on a connection that the child does not have, while the child waits again and again
 */
#include "common.h"

#define ROUNDS 16
/* A wake-up that was lost is found in a second. */
#define LATE_MS 800

static uint64_t taken[2]; /* positions in the client's patterns */

static void take(int fd, size_t length, uint64_t *position) {
    char buffer[64];
    read_exact(fd, buffer, length);
    CHECK(is_pattern(buffer, length, *position));
    *position += length;
}

static void control(int set, int op, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(set, op, fd, &event));
}

/* Waits for an event of `fd`; false where none came in time. */
static bool hears_of(int set, int fd, int milliseconds) {
    for (uint64_t end = now_ms() + (uint64_t)milliseconds; now_ms() < end;) {
        struct epoll_event event;
        if (MUST(epoll_wait(set, &event, 1, (int)(end - now_ms()))) == 1 && event.data.fd == fd)
            return true;
    }
    return false;
}

static void rounds(int set, int fd, uint64_t *position, uint32_t later) {
    int late = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = now_ms();
        ask_later(fd, 10, later);
        CHECK(hears_of(set, fd, 5000));
        late += now_ms() - before > LATE_MS;
        take(fd, 10, position);
    }
    say("late: %d", late);
}

/* A child that waits some times, or for ever, and has the set until it is ended. */
static pid_t waiting_child(int set, bool for_ever) {
    pid_t child = MUST(fork());
    for (int i = 0; child == 0 && (for_ever || i < 3); i++) {
        struct epoll_event events[4];
        MUST(epoll_wait(set, events, 4, 100));
        usleep(1000);
    }
    if (child == 0) {
        mark("waited", 1);
        for (;;)
            pause();
    }
    if (!for_ever)
        await_mark("waited");
    return child;
}

static void end(pid_t child) {
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
}

static uint64_t spent_ms(void) {
    struct timespec t;
    MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t));
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void server(void) {
    int listener = listen_here(), c = accepted(listener), set = MUST(epoll_create1(0));
    control(set, EPOLL_CTL_ADD, c, EPOLLIN);
    rounds(set, c, &taken[0], 0);
    pid_t child = 0;
    if (mode_is("deleted")) {
        control(set, EPOLL_CTL_DEL, c, 0);
        child = waiting_child(set, false);
        control(set, EPOLL_CTL_ADD, c, EPOLLIN);
        /* Whoever polls the set itself relies on what the kernel has. */
        struct pollfd entry = {.fd = set, .events = POLLIN};
        for (int i = 0; i < 3; i++) {
            uint64_t before = now_ms();
            ask_later(c, 10, 20);
            CHECK(MUST(poll(&entry, 1, 5000)) == 1);
            say("in time: %s", now_ms() - before < LATE_MS ? "yes" : "no");
            take(c, 10, &taken[0]);
        }
        rounds(set, c, &taken[0], 1);
    } else if (mode_is("changed")) {
        control(set, EPOLL_CTL_MOD, c, EPOLLIN | EPOLLOUT);
        child = waiting_child(set, false);
        control(set, EPOLL_CTL_MOD, c, EPOLLIN);
        uint64_t before = spent_ms();
        CHECK(!hears_of(set, c, 500));
        say("rests: %s", spent_ms() - before < 40 ? "yes" : "no");
        rounds(set, c, &taken[0], 1);
    } else if (mode_is("asleep")) {
        child = waiting_child(set, true);
        mark("forked", 1);
        int d = accepted(listener);
        control(set, EPOLL_CTL_ADD, d, EPOLLIN);
        rounds(set, d, &taken[1], 0);
        rounds(set, d, &taken[1], 30);
    }
    end(child);
}

static void *serve(void *fd) {
    serve_asks(*(int *)fd);
    return NULL;
}

void client(void) {
    int c = connected(), d;
    pthread_t other = start_thread(serve, &c);
    if (mode_is("asleep")) {
        await_mark("forked");
        d = connected();
        serve_asks(d);
    }
    CHECK(pthread_join(other, NULL) == 0);
    say("EOF");
}
