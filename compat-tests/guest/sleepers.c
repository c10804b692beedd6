// SPDX-License-Identifier: MIT OR Apache-2.0
// Readers that sleep on one endpoint: one has a place of its own, the others stand in a queue, and pollers beside them.
// No message may find all of them asleep, whatever else wakes them.
#define _GNU_SOURCE
#include "tap.h"

#include <sched.h>
#include <stdatomic.h>

enum { READERS = 4, ROUNDS = 400, BURST = 3, STORM = 20000 };

static int ends[2];
static atomic_long taken, sum, interrupted;
static atomic_bool stop;

static void nothing(int signal) {
    (void)signal;
}

/* Takes messages until one is empty. */
static void *reads(void *unused) {
    (void)unused;
    for (;;) {
        uint64_t i;
        ssize_t n = read(ends[1], &i, sizeof i);
        if (n == 0)
            return NULL;
        if (n == sizeof i) {
            atomic_fetch_add(&sum, i);
            atomic_fetch_add(&taken, 1);
        } else if (n < 0 && errno == EINTR) {
            atomic_fetch_add(&interrupted, 1);
        } else {
            return (void *)1;
        }
    }
}

/* Whether that many messages have been taken, within ten seconds. */
static bool come_to(long n) {
    for (double end = now() + 10; atomic_load(&taken) < n && now() < end;)
        pause_ms(1);
    return atomic_load(&taken) == n;
}

/* An empty message for each reader; whether all of them ended well. */
static bool end(pthread_t *readers, int n) {
    bool good = true;
    for (int i = 0; i < n; i++)
        good &= write(ends[0], "", 0) == 0;
    for (int i = 0; i < n; i++) {
        void *result;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 10;
        good &= !pthread_timedjoin_np(readers[i], &result, &until) && !result;
    }
    return good;
}

static long send_numbers(long from, long n) {
    long all = 0;
    for (uint64_t i = from; i < (uint64_t)(from + n); i++) {
        if (write(ends[0], &i, sizeof i) != sizeof i)
            return -1;
        all += i;
    }
    return all;
}

/* Bursts, with everybody asleep in between: as many as there are messages must wake. */
static void bursts(void) {
    pthread_t readers[READERS];
    long wanted = 0, sent = 0;
    bool good = true;
    taken = sum = 0;
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, reads, NULL);
    for (int round = 0; good && round < ROUNDS; round++) {
        wanted += send_numbers(sent, BURST);
        sent += BURST;
        good = come_to(sent);
        if (round % 8 == 0)
            pause_ms(2);
    }
    OK(good && sum == wanted, "%d readers asleep, bursts of %d messages: %ld of %ld came", READERS, BURST, (long)taken, sent);
    OK(end(readers, READERS), "and all of them wake to end");
}

static void *interrupts(void *reader) {
    while (!atomic_load(&stop)) {
        pthread_kill(*(pthread_t *)reader, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

/* A signal ends a read, and takes no wake-up with it that another reader would have needed. */
static void signals(void) {
    pthread_t readers[2], other;
    struct sigaction a = {.sa_handler = nothing};
    sigaction(SIGUSR1, &a, NULL);
    taken = sum = interrupted = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&readers[i], NULL, reads, NULL);
    pthread_create(&other, NULL, interrupts, &readers[0]);
    long wanted = 0, sent = 0;
    bool good = true;
    // One at a time: the next goes when the last was taken, so each finds readers that sleep or are being interrupted.
    while (good && sent < STORM) {
        wanted += send_numbers(sent++, 1);
        for (double end = now() + 10; good && atomic_load(&taken) < sent; good = now() < end)
            sched_yield();
    }
    OK(good && sum == wanted && interrupted > 0, "two readers, one of them interrupted %ld times: %ld of %d messages came",
       (long)interrupted, (long)taken, STORM);
    atomic_store(&stop, true);
    pthread_join(other, NULL);
    OK(end(readers, 2), "and both wake to end");
}

static void *polls(void *unused) {
    (void)unused;
    return (void *)(intptr_t)ready(ends[1], POLLIN, 10000);
}

static void pollers(void) {
    pthread_t reader, poller;
    void *told;
    taken = sum = 0;
    pthread_create(&poller, NULL, polls, NULL);
    pause_ms(20);
    long wanted = send_numbers(1, 1);
    OK(!pthread_join(poller, &told) && told == (void *)POLLIN, "a poller is told while nobody reads");
    pthread_create(&reader, NULL, reads, NULL);
    OK(come_to(1) && sum == wanted, "a reader finds what came before it");
    OK(end(&reader, 1), "and ends");
}

/* In place nothing is taken: one message wakes everybody who waits for it. */
static void *waits(void *unused) {
    (void)unused;
    return (void *)(intptr_t)read(ends[1], NULL, 0);
}

static void in_place(void) {
    pthread_t all[READERS];
    struct dp_ioc_pool pool = {0};
    bool good = !ioctl(ends[1], DP_IOC_POOL, &pool);
    for (int i = 0; i < READERS; i++)
        pthread_create(&all[i], NULL, waits, NULL);
    pause_ms(50);
    good &= write(ends[0], "all", 3) == 3;
    for (int i = 0; i < READERS; i++) {
        void *result = (void *)1;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 10;
        good &= !pthread_timedjoin_np(all[i], &result, &until) && !result;
    }
    OK(good, "one message in place wakes all %d who wait", READERS);
}

int main(void) {
    dp_pair(ends, 0, 0);
    bursts();
    signals();
    pollers();
    close2(ends);
    dp_pair(ends, 0, 0);
    in_place();
    close2(ends);
    return tap_end();
}
