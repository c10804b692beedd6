/*
 * select(2) with a descriptor in the third set alone that has hung up, which is no exceptional condition, beside a connection:
 * the call sleeps as long as it would without that one. Argument 1: by pselect.
 */
#include "common.h"

#include <sys/select.h>

static int select_for(int ms, int fd, int hung_up, fd_set *in, fd_set *except) {
    struct timeval time = {0, ms * 1000};
    struct timespec exact = {0, ms * 1000000L};
    FD_ZERO(in);
    FD_ZERO(except);
    FD_SET(fd, in);
    FD_SET(hung_up, except);
    int highest = fd > hung_up ? fd : hung_up;
    return argument(0, 0) ? pselect(highest + 1, in, NULL, except, &exact, NULL)
                          : select(highest + 1, in, NULL, except, &time);
}

void tester(int fd) {
    int ends[2];
    char byte;
    fd_set in, except;
    MUST(pipe(ends));
    MUST(close(ends[1]));
    for (int i = 0; i < 3; i++) {
        uint64_t start = now_ms();
        CHECK(select_for(200, fd, ends[0], &in, &except) == 0);
        CHECK(now_ms() - start >= 190 && !FD_ISSET(fd, &in) && !FD_ISSET(ends[0], &except));
        ask_later(fd, 1, 50);
        CHECK(select_for(900, fd, ends[0], &in, &except) == 1);
        CHECK(FD_ISSET(fd, &in) && !FD_ISSET(ends[0], &except));
        read_exact(fd, &byte, 1);
    }
    say("slept");
}

void helper(int fd) { serve_asks(fd); }
