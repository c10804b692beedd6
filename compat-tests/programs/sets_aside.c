/*
 * Mode "grown": one thread exchanges by epoll_wait while another adds two thousand copies of the connection to the same set, and
 * takes them out again. Mode "made": twenty thousand sets, each with the connection in it, are made, asked and closed, which
 * leaves no memory behind.
 */
#include "common.h"

#include <sys/resource.h>

enum { COPIES = 2000, SETS = 20000 };

static int set, connection;
static _Atomic bool is_over;

static int exchange_by(int set, uint64_t seed) {
    struct epoll_event event;
    ask(connection, 1 + seed % 16);
    CHECK(MUST(epoll_wait(set, &event, 1, 5000)) == 1 && event.data.fd == connection && event.events == EPOLLIN);
    char bytes[16];
    read_exact(connection, bytes, 1 + seed % 16);
    return 1;
}

static void *grow(void *unused) {
    (void)unused;
    static int copy[COPIES];
    for (int i = 0; i < COPIES; i++) {
        /* Nothing is asked of them: the end alone would be told. */
        struct epoll_event nothing = {.events = 0, .data.fd = -1};
        copy[i] = MUST(dup(connection));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, copy[i], &nothing));
    }
    for (int i = 0; i < COPIES; i++) {
        MUST(epoll_ctl(set, EPOLL_CTL_DEL, copy[i], NULL));
        MUST(close(copy[i]));
    }
    is_over = true;
    return NULL;
}

static int set_with_connection(void) {
    int made = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = connection};
    MUST(epoll_ctl(made, EPOLL_CTL_ADD, connection, &event));
    return made;
}

static void grown(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 4096;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    set = set_with_connection();
    pthread_t other = start_thread(grow, NULL);
    long exchanges = 0;
    while (!is_over || exchanges < 500)
        exchanges += exchange_by(set, (uint64_t)exchanges);
    CHECK(pthread_join(other, NULL) == 0);
    say("grown");
}

static void made(void) {
    unsigned long before = 0;
    for (long i = 0; i < SETS; i++) {
        int one = set_with_connection();
        struct epoll_event event;
        if (i % 100 == 0)
            exchange_by(one, (uint64_t)i);
        else
            CHECK(MUST(epoll_wait(one, &event, 1, 0)) == 0);
        MUST(close(one));
        if (i == SETS / 10)
            before = memory_used("RssAnon:");
    }
    unsigned long after = memory_used("RssAnon:");
    say("%s", after < before + 4096 ? "no memory is left behind" : "memory is left behind");
}

void tester(int fd) {
    connection = fd;
    mode_is("grown") ? grown() : made();
}
