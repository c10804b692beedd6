// SPDX-License-Identifier: MIT OR Apache-2.0
// usage: pingpong ROUNDS: 64 bytes there and back between two processes, medians, over endpoints, AF_UNIX and TCP.
#define _GNU_SOURCE
#include "turns.h"

#include <sys/socket.h>

enum { LEN = 64 };

/* The time of one write, and of one read, while nobody waits: ns. */
static void calls(int from, int to, double *w, double *r) {
    /* Shorter than the slice that another process would get meanwhile: some are undisturbed. */
    enum { ROUNDS = 320, EACH = 50 };
    char b[LEN] = "";
    *w = *r = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double t0 = now();
        for (int k = 0; k < EACH; k++)
            broken |= write(from, b, LEN) != LEN;
        double t1 = now();
        for (int k = 0; k < EACH; k++)
            broken |= read(to, b, LEN) != LEN;
        double t2 = now();
        *w = (t1 - t0) < *w ? t1 - t0 : *w;
        *r = (t2 - t1) < *r ? t2 - t1 : *r;
    }
    *w *= 1e9 / EACH;
    *r *= 1e9 / EACH;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, p[2];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < (cpus > 1 ? 2 : 1); cpu++) {
        double best[3] = {1e9, 1e9, 1e9};
        for (int i = 0; i < REPEATS; i++) {
            double m[3];
            tcp_pair(p);
            m[0] = median(p, LEN, rounds, cpu);
            socketpair(AF_UNIX, SOCK_STREAM, 0, p);
            m[1] = median(p, LEN, rounds, cpu);
            dp_pair(p, 0, 0);
            m[2] = median(p, LEN, rounds, cpu);
            for (int k = 0; k < 3; k++)
                best[k] = m[k] < best[k] ? m[k] : best[k];
        }
        printf("# 64 bytes there and back, %s: TCP %.2f us, AF_UNIX %.2f us, endpoints %.2f us\n",
               cpu ? "two CPUs" : "one CPU", best[0], best[1], best[2]);
        printf("# endpoints take %.2f of TCP's time, %.2f of AF_UNIX's (emulated: kmod/README says what that means)\n",
               best[2] / best[0], best[2] / best[1]);
    }
    double w[2], r[2];
    if (pipe(p))
        return 1;
    calls(p[1], p[0], &w[0], &r[0]);
    close2(p);
    dp_pair(p, 0, 0);
    calls(p[0], p[1], &w[1], &r[1]);
    close2(p);
    printf("# one write of 64 bytes that wakes nobody: pipe %.0f ns, endpoint %.0f ns; a read: %.0f and %.0f ns\n", w[0], w[1],
           r[0], r[1]);
    if (broken)
        puts("# a message was lost: these are no figures");
    return broken;
}
