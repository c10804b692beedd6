/*
 * One busy connection beside many idle ones (argument: how many), all in one epoll set of the server. The idle ones were used
 * a little before. The client reads how many exchanges to make from its standard input, line by line, and answers each line
 * with the nanoseconds that one took. For measurements: what it prints differs from run to run.
 *   family    several processes serve (second argument: how many), each at most so many (third argument); the client only
 *             waits for the mark "looked", and then uses all once more
 */
#include "common.h"

#include <sys/resource.h>

#define LIMIT 20000

static void many_descriptors(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void serve(int listener, long most) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[64];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    for (long open = 0, seen = 0; seen == 0 || open > 0;) {
        if (seen == most)
            epoll_ctl(set, EPOLL_CTL_DEL, listener, NULL);
        int n = MUST(epoll_wait(set, ready, 64, -1));
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            char bytes[64];
            if (fd == listener) {
                event.data.fd = accept(listener, NULL, NULL);
                if (event.data.fd < 0) {
                    CHECK(errno == EAGAIN);
                    continue;
                }
                no_delay(event.data.fd);
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event));
                open++, seen++;
                continue;
            }
            ssize_t got = read(fd, bytes, sizeof bytes);
            CHECK(got >= 0 || most < 0); /* where nobody is killed, no connection fails */
            if (got <= 0) {
                MUST(close(fd));
                open--;
            } else {
                write_all(fd, bytes, (size_t)got);
            }
        }
    }
}

void server(void) {
    many_descriptors();
    int listener = listen_here();
    set_nonblocking(listener, true);
    if (!mode_is("family")) {
        serve(listener, -1);
        return;
    }
    long count = argument(1, 2), most = argument(2, LIMIT);
    pid_t child[64];
    CHECK(count <= 64);
    for (long k = 0; k < count; k++) {
        child[k] = MUST(fork());
        if (child[k] == 0) {
            serve(listener, most);
            exit(0);
        }
    }
    for (long k = 0; k < count; k++)
        join_child(child[k]);
    say("all were served");
}

static void exchanges(int fd, long times) {
    char bytes[64] = "";
    for (long i = 0; i < times; i++) {
        CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
        read_exact(fd, bytes, sizeof bytes);
    }
}

void client(void) {
    static int idle[LIMIT];
    many_descriptors();
    long n = argument(0, 100), times;
    CHECK(n < LIMIT);
    int busy = connect_there();
    for (long i = 0; i < n; i++) {
        idle[i] = connect_there();
        no_delay(idle[i]);
        /* Each process of the server is to meet this client, who says hello at a door that they share. */
        exchanges(idle[i], i < 50 ? 200 : 30);
    }
    if (mode_is("family")) {
        mark(getenv("COMPAT_CONNECT"), 1);
        await_mark("looked");
        for (long i = 0; i < n; i++)
            exchanges(idle[i], 1);
        say("all are used again");
        return;
    }
    no_delay(busy);
    exchanges(busy, 1000);
    while (scanf("%ld", &times) == 1 && times > 0) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        exchanges(busy, times);
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%.1f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)times);
        fflush(stdout);
    }
}
