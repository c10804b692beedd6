// SPDX-License-Identifier: MIT OR Apache-2.0
// Times for the guest's measurements. The guest's CPU is emulated: only ratios of one run mean something, and what takes
// many instructions for each byte looks worse than it is.
#ifndef TURNS_H
#define TURNS_H

#include "tap.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

enum { REPEATS = 3 };

/* A message did not come, or not whole. */
static bool broken;

static inline void on_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static inline int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline bool all(int fd, char *b, int len) {
    for (int got = 0; got < len;) {
        ssize_t n = read(fd, b + got, len - got);
        if (n <= 0)
            return false;
        got += n;
    }
    return true;
}

/* Two ends of a connection over loopback, with nothing held back: AF_INET is TCP, AF_SMC takes the same addresses. */
static inline void loopback_pair(int p[2], int family) {
    int l = socket(family, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    bind(l, (void *)&a, len);
    listen(l, 1);
    getsockname(l, (void *)&a, &len);
    p[0] = socket(family, SOCK_STREAM, 0);
    p[1] = connect(p[0], (void *)&a, len) ? -1 : accept(l, NULL, NULL);
    close(l);
    for (int i = 0; i < 2; i++)
        setsockopt(p[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static inline void tcp_pair(int p[2]) {
    loopback_pair(p, AF_INET);
}

/* Of those that middle() looked at last, microseconds. */
static double quickest;

/* The median of so many seconds, in microseconds; frees them. */
static inline double middle(double *t, int n) {
    qsort(t, n, sizeof *t, by_size);
    double m = t[n / 2] * 1e6;
    quickest = t[0] * 1e6;
    free(t);
    return m;
}

/* Microseconds for `len` bytes there and back between two processes; both descriptors are closed then. */
static inline double median(int p[2], int len, int rounds, int other_cpu) {
    char b[64] = "ping";
    double *t = calloc(rounds, sizeof *t);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        on_cpu(other_cpu);
        for (int i = 0; i < rounds + rounds / 10; i++)
            if (!all(p[1], b, len) || write(p[1], b, len) != len)
                _exit(1);
        _exit(0);
    }
    on_cpu(0);
    for (int i = -rounds / 10; i < rounds; i++) {
        double began = now();
        if (write(p[0], b, len) != len || !all(p[0], b, len)) {
            broken = true;
            kill(child, SIGKILL);
            break;
        }
        if (i >= 0)
            t[i] = now() - began;
    }
    int status;
    broken |= waitpid(child, &status, 0) != child || status;
    close2(p);
    return middle(t, rounds);
}

#endif
