/*
 * Two epoll sets that were inside each other, one after the other: what one has of a set that was closed has the place of the
 * other by now. Two threads close both at once, or change one and close the other. Argument: rounds (10000).
 */
#include "common.h"

static pthread_barrier_t together;
static int first, second, rounds;

static void put_into(int outer, int inner) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = inner};
    MUST(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
}

static void *one(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        pthread_barrier_wait(&together);
        MUST(close(first));
        pthread_barrier_wait(&together);
    }
    return NULL;
}

void tester(int fd) {
    rounds = (int)argument(0, 10000);
    CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
    pthread_t other = start_thread(one, NULL);
    for (int i = 0; i < rounds; i++) {
        first = MUST(epoll_create1(0));
        int inner = MUST(epoll_create1(0));
        put_into(first, inner);
        MUST(close(inner));
        second = MUST(epoll_create1(0));
        put_into(second, first);
        pthread_barrier_wait(&together);
        if (i % 2)
            epoll_ctl(second, EPOLL_CTL_DEL, first, NULL); /* it may be closed */
        MUST(close(second));
        pthread_barrier_wait(&together);
    }
    CHECK(pthread_join(other, NULL) == 0);
    exchange(fd, 10, 1);
    say("closed");
}

void helper(int fd) { echo_until_eof(fd); }
