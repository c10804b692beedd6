/* One process waits for two endpoints with select(2).
 *
 *     cc select.c -ldp && ./a.out
 */
#include <dp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEFT = 3021, RIGHT = 3022, EACH = 500 };

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dp_errno_text());
    exit(1);
}

/* Sends to both in turn, from one endpoint. */
static void sender(void) {
    int fd = dp_open(0);
    if (fd < 0) die("dp_open");
    for (int i = 0; i < EACH; i++) {
        if (dp_sendto(fd, &i, sizeof i, 0, LEFT) < 0) die("dp_sendto");
        if (dp_sendto(fd, &i, sizeof i, 0, RIGHT) < 0) die("dp_sendto");
    }
    dp_close(fd);
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        sender();
        return 0;
    }
    int fds[2] = {dp_open(LEFT), dp_open(RIGHT)}, next[2] = {0, 0};
    if (fds[0] < 0 || fds[1] < 0) die("dp_open");
    while (next[0] < EACH || next[1] < EACH) {
        fd_set ready;
        FD_ZERO(&ready);
        FD_SET(fds[0], &ready);
        FD_SET(fds[1], &ready);
        int most = fds[0] > fds[1] ? fds[0] : fds[1];
        if (select(most + 1, &ready, NULL, NULL, NULL) < 0) die("select");
        for (int i = 0; i < 2; i++) {
            int value;
            if (!FD_ISSET(fds[i], &ready)) continue;
            if (read(fds[i], &value, sizeof value) != sizeof value) die("read");
            if (value != next[i]++) die("the order"); /* messages of one sender stay in order */
        }
    }
    printf("left: %d messages\nright: %d messages\n", next[0], next[1]);
    waitpid(child, NULL, 0);
    return dp_close(fds[0]) < 0 || dp_close(fds[1]) < 0;
}
