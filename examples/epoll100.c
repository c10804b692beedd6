/* One process serves 100 endpoints with epoll(7); another asks each of them ten times.
 *
 *     cc epoll100.c -ldp && ./a.out
 */
#include <dp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 3100, ENDPOINTS = 100, ROUNDS = 10 };

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dp_errno_text());
    exit(1);
}

/* Answers whatever is there, and goes back to epoll when nothing is. */
static int serve(int fd) {
    int answers = 0, nid, dpid;
    for (;;) {
        char *message;
        ssize_t n = dp_read(fd, &message);
        if (n < 0 && errno == EAGAIN) return answers;
        if (n < 0 || dp_peer(fd, &nid, &dpid) < 0) die("dp_read");
        if (dp_sendto(fd, message, n, nid, dpid) < 0) die("dp_sendto");
        if (dp_fsync(fd, 1) < 0) die("dp_fsync");
        answers++;
    }
}

static void server(void) {
    struct epoll_event event = {.events = EPOLLIN}, events[16];
    int set = epoll_create1(0), left = ENDPOINTS * ROUNDS;
    for (int i = 0; i < ENDPOINTS; i++) {
        int fd = dp_open(FIRST + i);
        if (fd < 0 || dp_option(fd, DP_OPT_NONBLOCK, 1) < 0) die("dp_open");
        event.data.fd = fd;
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
    }
    while (left > 0) {
        int n = epoll_wait(set, events, 16, -1);
        if (n < 0) die("epoll_wait");
        for (int i = 0; i < n; i++) left -= serve(events[i].data.fd);
    }
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        server();
        return 0;
    }
    int fd = dp_open(0), answers = 0;
    if (fd < 0) die("dp_open");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ENDPOINTS; i++) {
            if (dp_sendto(fd, &i, sizeof i, 0, FIRST + i) < 0) die("dp_sendto");
        }
        for (int i = 0; i < ENDPOINTS; i++) {
            char *message;
            int value;
            if (dp_read(fd, &message) != sizeof value) die("dp_read");
            memcpy(&value, message, sizeof value);
            answers += value >= 0 && value < ENDPOINTS;
            if (dp_fsync(fd, 1) < 0) die("dp_fsync");
        }
    }
    printf("%d endpoints, %d answers\n", ENDPOINTS, answers);
    waitpid(child, NULL, 0);
    return dp_close(fd) < 0;
}
