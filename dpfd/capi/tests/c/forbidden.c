/* A program that forbids itself, after a while, the call by which a thread's locks are taken from it, membarrier, and those
 * that sleep. Others get in nevertheless, one at a time, and every message arrives. */
#define _GNU_SOURCE
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { MESSAGES = 5000 };
static int here, there;

static void forbid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    /* For the library's thread, too. */
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0);
    CHECK(syscall(SYS_membarrier, 0, 0, 0) == -1 && errno == EPERM);
}

static void *send_all(void *arg) {
    (void)arg;
    for (int i = 0; i < MESSAGES; i++) CHECK(dp_write(here, &i, sizeof i) == sizeof i);
    return NULL;
}

static void *receive_all(void *arg) {
    (void)arg;
    for (int i = 0; i < MESSAGES; i++) {
        char *at;
        CHECK(dp_read(there, &at) == sizeof i && memcmp(at, &i, sizeof i) == 0);
        CHECK(dp_fsync(there, 1) == 0);
    }
    return NULL;
}

static void both(void *(*elsewhere)(void *), void *(*mine)(void *)) {
    pthread_t t;
    CHECK(pthread_create(&t, NULL, elsewhere, NULL) == 0);
    mine(NULL);
    CHECK(pthread_join(t, NULL) == 0);
}

int main(void) {
    there = endpoint(0);
    here = endpoint(stat_of(there).dpid);
    both(receive_all, send_all);
    /* Until this thread owns the locks of both sides. */
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(dp_write(here, "mine", 4) == 4);
        expect(there, "mine");
    }
    forbid();
    both(send_all, receive_all);
    both(receive_all, send_all);
    CHECK(stat_of(there).received == 4 * MESSAGES);
    CHECK(dp_close(here) == 0 && dp_close(there) == 0);
    puts("ok");
    return 0;
}
