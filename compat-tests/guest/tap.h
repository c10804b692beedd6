// SPDX-License-Identifier: MIT OR Apache-2.0
// What the guest's tests share: lines for TAP, and endpoints in few words.
#ifndef TAP_H
#define TAP_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dp_ioctl.h"

static int tap_count, tap_failed;

#define OK(what, ...)                                                                                  \
    do {                                                                                               \
        bool tap_good = (what);                                                                        \
        int tap_errno = errno;                                                                         \
        tap_failed += !tap_good;                                                                       \
        printf("%sok %d - ", tap_good ? "" : "not ", ++tap_count);                                     \
        printf(__VA_ARGS__);                                                                           \
        if (!tap_good)                                                                                 \
            printf(" # line %d, errno %d %s", __LINE__, tap_errno, strerror(tap_errno));               \
        puts("");                                                                                      \
        fflush(stdout);                                                                                \
    } while (0)

#define FAILS(error, call, ...) OK((errno = 0, (call) == -1 && errno == (error)), __VA_ARGS__)

static inline int tap_end(void) {
    printf("1..%d\n", tap_count);
    return tap_failed != 0;
}

static inline void pause_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* What the function gives in a child of its own; -1 if it does not come to its end. */
static inline int child_says(int (*f)(int), int arg) {
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(f(arg));
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define NOBODY 65534

/* From here on a user without privilege. */
static inline bool become_nobody(void) {
    return !setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY);
}

/* An endpoint; dpid 0: any number. pool 0: the default. */
static inline int dp_new(unsigned dpid, uint64_t pool, int flags) {
    int fd = open(DP_DEVICE, O_RDWR | O_CLOEXEC | flags);
    struct dp_ioc_open o = {dpid, 0, pool};
    if (fd >= 0 && ioctl(fd, DP_IOC_OPEN, &o)) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}

static inline struct dp_ioc_stat dp_stat(int fd) {
    struct dp_ioc_stat s = {.size = sizeof s};
    if (ioctl(fd, DP_IOC_STAT, &s))
        memset(&s, 0, sizeof s);
    return s;
}

static inline unsigned dp_number(int fd) {
    return dp_stat(fd).dpid;
}

static inline int dp_aim(int fd, unsigned dpid) {
    struct dp_ioc_addr a = {0, dpid};
    return ioctl(fd, DP_IOC_TARGET, &a);
}

static inline long dp_send_to(int fd, const void *message, size_t len, unsigned nid, unsigned dpid) {
    struct dp_ioc_sendto s = {(uintptr_t)message, len, {nid, dpid}, 0, 0};
    return ioctl(fd, DP_IOC_SENDTO, &s);
}

/* Two endpoints; the first sends to the second, the second to the first. */
static inline void dp_pair(int p[2], uint64_t pool, int flags) {
    for (int i = 0; i < 2; i++)
        p[i] = dp_new(0, pool, flags);
    for (int i = 0; i < 2; i++)
        dp_aim(p[i], dp_number(p[!i]));
}

static inline void close2(int p[2]) {
    close(p[0]);
    close(p[1]);
}

static inline short ready(int fd, short events, int ms) {
    struct pollfd p = {fd, events, 0};
    return poll(&p, 1, ms) > 0 ? p.revents : 0;
}

/* A message that tells its number and can be checked. */
static inline void number(unsigned char *m, uint64_t i, size_t len) {
    for (size_t k = 0; k < len; k++)
        m[k] = i * 31 + k * 7 + k / 251;
    memcpy(m, &i, len < 8 ? len : 8);
}

static inline bool is_number(const unsigned char *m, uint64_t i, size_t len) {
    static _Thread_local unsigned char want[1 << 20];
    number(want, i, len);
    return !memcmp(m, want, len);
}

#endif
