// SPDX-License-Identifier: MIT OR Apache-2.0
// usage: smc [ROUNDS]: 64 bytes there and back between two processes on one CPU, over endpoints and over SMC-D loopback,
// TCP and AF_UNIX. For a kernel that has SMC-D (.ci/kconfig/smc.config); fails if a connection is not by SMC-D.
#define _GNU_SOURCE
#include "smc.h"
#include "turns.h"

enum { LEN = 64 };

static void unix_pair(int p[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, p))
        p[0] = p[1] = -1;
}

/* Both ends must say what they are: else this would measure TCP. */
static void smc_pair(int p[2]) {
    loopback_pair(p, AF_SMC);
    for (int i = 0; i < 2; i++) {
        int mode = smc_mode(p[i]);
        if (mode != SMC_DIAG_MODE_SMCD) {
            printf("# smc: this connection is not by SMC-D; smc_diag says mode %d (%d is TCP, -1 unknown)\n", mode,
                   SMC_DIAG_MODE_FALLBACK_TCP);
            exit(1);
        }
    }
}

static void endpoint_pair(int p[2]) {
    dp_pair(p, 0, 0);
}

int main(int argc, char **argv) {
    static void (*const connected[])(int[2]) = {tcp_pair, unix_pair, smc_pair, endpoint_pair};
    enum { WAYS = sizeof connected / sizeof *connected };
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, p[2];
    double best[WAYS], least[WAYS];
    if (!smc_name_system("DP-FIGURES")) {
        printf("# smc: SMC cannot be told this system's name: %s\n", strerror(errno));
        return 1;
    }
    for (int i = 0; i < REPEATS; i++) {
        for (int k = 0; k < WAYS; k++) {
            connected[k](p);
            double m = median(p, LEN, rounds, 0);
            best[k] = !i || m < best[k] ? m : best[k];
            least[k] = !i || quickest < least[k] ? quickest : least[k];
        }
    }
    printf("# 64 bytes there and back, one CPU: TCP %.2f us, AF_UNIX %.2f us, SMC-D %.2f us (its mode was checked), "
           "endpoints %.2f us\n", best[0], best[1], best[2], best[3]);
    printf("# endpoints take %.3f of SMC-D's time, %.2f of TCP's, %.2f of AF_UNIX's (emulated: kmod/README says what that "
           "means)\n", best[3] / best[2], best[3] / best[0], best[3] / best[1]);
    /* The scheduler takes one of two ways for a whole turn, and not the same for all: the quicker one was met by each. */
    printf("# the quickest of all: TCP %.2f us, AF_UNIX %.2f us, SMC-D %.2f us, endpoints %.2f us, %.3f of SMC-D's time\n",
           least[0], least[1], least[2], least[3], least[3] / least[2]);
    if (broken)
        puts("# a message was lost: these are no figures");
    return broken;
}
