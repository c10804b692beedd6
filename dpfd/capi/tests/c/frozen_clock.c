/* The program's clock stands still, as under libfaketime: who waits goes to sleep nevertheless, and is woken. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { EXCHANGES = 2000 };
static int here, there;

/* In front of libc's. */
int clock_gettime(clockid_t which, struct timespec *t) {
    (void)which;
    *t = (struct timespec){1577836800, 0};
    return 0;
}

static void on_cpu(int nth) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && nth-- == 0) CPU_SET(cpu, &one);
    /* Where there is but one, it stays there. */
    if (CPU_COUNT(&one)) CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void *answer(void *arg) {
    (void)arg;
    on_cpu(1);
    for (int i = 0; i < EXCHANGES; i++) {
        expect(there, "ping");
        CHECK(dp_write(there, "pong", 4) == 4);
    }
    usleep(200000);
    CHECK(dp_write(there, "late", 4) == 4);
    return NULL;
}

int main(void) {
    here = endpoint(0);
    there = endpoint(stat_of(here).dpid);
    CHECK(dp_target(here, 0, stat_of(there).dpid) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, answer, NULL) == 0);
    on_cpu(0);
    for (int i = 0; i < EXCHANGES; i++) {
        CHECK(dp_write(here, "ping", 4) == 4);
        expect(here, "pong");
    }
    uint64_t slept = stat_of(here).sleeps;
    expect(here, "late");
    CHECK(stat_of(here).sleeps > slept);
    CHECK(pthread_join(t, NULL) == 0 && dp_close(here) == 0 && dp_close(there) == 0);
    puts("ok");
    return 0;
}
