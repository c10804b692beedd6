/* Ping-pong between two processes with nothing but read(2) and write(2) on endpoints.
 *
 *     cc pingpong_plain.c -ldp && ./a.out 10000
 */
#include <dp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PING = 3001, PONG = 3002 };

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dp_errno_text());
    exit(1);
}

/* An endpoint with a target, which may be opened later. */
static int endpoint(int own, int target) {
    int fd = dp_open(own);
    if (fd < 0) die("dp_open");
    if (dp_target(fd, 0, target) < 0) die("dp_target");
    return fd;
}

static void pong(int rounds) {
    int fd = endpoint(PONG, PING);
    char message[64];
    while (rounds-- > 0) {
        ssize_t n = read(fd, message, sizeof message); /* one read, one message */
        if (n < 0) die("read");
        if (write(fd, message, n) != n) die("write");
    }
    dp_close(fd);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10000;
    pid_t child = fork(); /* before the first dp_open: endpoints belong to the process that opened them */
    if (child == 0) {
        pong(rounds);
        return 0;
    }
    int fd = endpoint(PING, PONG);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < rounds; i++) {
        int back = -1;
        if (write(fd, &i, sizeof i) != sizeof i) die("write");
        if (read(fd, &back, sizeof back) != sizeof back || back != i) die("read");
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double us = (to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3;
    printf("%d round trips, %.2f us each\n", rounds, us / (rounds > 0 ? rounds : 1));
    waitpid(child, NULL, 0);
    return dp_close(fd) < 0;
}
