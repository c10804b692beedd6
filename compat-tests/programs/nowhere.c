/*
 * Addresses where no program has memory, in calls that connect and wait, on a socket beside a connection: the first page, and
 * the kernel's half of the addresses.
 */
#include "common.h"

#include <sys/select.h>

void tester(int fd) {
    struct timeval now = {0, 0};
    struct timespec exact = {0, 0};
    int other = MUST(socket(AF_INET, SOCK_STREAM, 0));
    for (int i = 0; i < 2; i++) {
        void *volatile bad = (void *)(i ? 1L : -1L);
        exchange(fd, 100, (uint64_t)i);
        outcome("connect", connect(other, bad, sizeof(struct sockaddr_in)));
        outcome("connect of a connection", connect(fd, bad, sizeof(struct sockaddr_in)));
        outcome("poll", poll(bad, 1, 0));
        outcome("ppoll", ppoll(bad, 1, &exact, NULL));
        for (int k = 0; k < 3; k++) {
            fd_set there;
            FD_ZERO(&there);
            FD_SET(fd, &there);
            fd_set *sets[3] = {k == 0 ? bad : &there, k == 1 ? bad : NULL, k == 2 ? bad : NULL};
            outcome("select", select(fd + 1, sets[0], sets[1], sets[2], &now));
            outcome("pselect", pselect(fd + 1, sets[0], sets[1], sets[2], &exact, NULL));
        }
    }
    exchange(fd, 100, 3);
    MUST(close(other));
}

void helper(int fd) { echo_until_eof(fd); }
