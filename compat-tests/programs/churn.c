/*
 * Connections that come, exchange 8 messages of 64 bytes and go, 50 at a time, with a server over epoll (argument: how many,
 * 2000). The server says what CPU time it took for each, in microseconds.
 */
#include "common.h"

#include <sys/resource.h>

#define AT_ONCE 50
#define EXCHANGES 8

static double cpu(void) {
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    return seconds * 1e6 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static long connections(void) {
    long wanted = argument(0, 2000);
    CHECK(wanted > 0);
    return (wanted + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
}

static void watch(int set, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static bool served(int fd) {
    char message[64];
    ssize_t n = MUST(read(fd, message, sizeof message));
    if (n > 0)
        write_all(fd, message, (size_t)n);
    return n > 0;
}

void server(void) {
    int listener = listen_here(), set = MUST(epoll_create1(0));
    MUST(fcntl(listener, F_SETFL, O_NONBLOCK));
    watch(set, listener);
    double start = cpu();
    for (long closed = 0; closed < connections();) {
        struct epoll_event events[64];
        int n = MUST(epoll_wait(set, events, 64, -1));
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                for (int new; (new = accept(listener, NULL, NULL)) >= 0;)
                    watch(set, new);
            } else if (!served(fd)) {
                MUST(close(fd));
                closed++;
            }
        }
    }
    say("cpu %.2f", (cpu() - start) / (double)connections());
}

void client(void) {
    int fds[AT_ONCE];
    for (long i = 0; i < connections(); i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++)
            fds[k] = connect_there();
        char message[64] = "";
        for (int round = 0; round < EXCHANGES; round++) {
            for (int k = 0; k < AT_ONCE; k++)
                write_all(fds[k], message, sizeof message);
            for (int k = 0; k < AT_ONCE; k++)
                read_exact(fds[k], message, sizeof message);
        }
        for (int k = 0; k < AT_ONCE; k++)
            MUST(close(fds[k]));
    }
}
