/* Threads: sharing an endpoint, being cancelled in it, meeting its end. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { ROUNDS = 20000 };
static int shared_fd;

static void *receive(void *sum) {
    for (int i = 0; i < ROUNDS; i++) {
        char *at;
        int value;
        CHECK(dp_read(shared_fd, &at) == sizeof value);
        memcpy(&value, at, sizeof value);
        *(long *)sum += value;
        CHECK(dp_fsync(shared_fd, 1) == 0);
    }
    return NULL;
}

/* One thread sends to the endpoint itself, another receives from it. */
static void two_share_one(void) {
    shared_fd = endpoint(0);
    CHECK(dp_target(shared_fd, 0, stat_of(shared_fd).dpid) == 0);
    long sum = 0;
    pthread_t t;
    CHECK(pthread_create(&t, NULL, receive, &sum) == 0);
    for (int i = 0; i < ROUNDS; i++) CHECK(dp_write(shared_fd, &i, sizeof i) == sizeof i);
    CHECK(pthread_join(t, NULL) == 0 && sum == (long)ROUNDS * (ROUNDS - 1) / 2);
    CHECK(dp_close(shared_fd) == 0);
}

enum { LONGEST = 300000, MANY = 1500 };

/* Of one byte all over; of the last, one. */
static int is_whole(const char *message, ssize_t n) {
    return n == 1 || (n > 1 && memcmp(message, message + 1, n - 1) == 0);
}

static void *copy_all(void *sum) {
    char *into = malloc(LONGEST);
    CHECK(into != NULL);
    ssize_t n;
    while ((n = dp_recvfrom(shared_fd, into, LONGEST, NULL, NULL)) != 1) {
        CHECK(is_whole(into, n));
        *(long *)sum += n;
    }
    free(into);
    return NULL;
}

static void *read_all(void *sum) {
    char *at;
    ssize_t n;
    while ((n = dp_read(shared_fd, &at)) != 1) {
        CHECK(is_whole(at, n));
        *(long *)sum += n;
        CHECK(dp_fsync(shared_fd, 1) == 0); /* this one, and never what the other thread copies */
        CHECK(stat_of(shared_fd).loaned == 0);
    }
    CHECK(dp_fsync(shared_fd, 1) == 0);
    return NULL;
}

/* Short ones, long ones, and ones out of line. */
static void one_copies_and_one_reads(void) {
    static const size_t sizes[] = {100, 5000, 40000, LONGEST};
    static char message[LONGEST];
    shared_fd = endpoint(0);
    CHECK(dp_target(shared_fd, 0, stat_of(shared_fd).dpid) == 0);
    long sums[2] = {0, 0}, sum = 0;
    pthread_t t[2];
    CHECK(pthread_create(&t[0], NULL, copy_all, &sums[0]) == 0);
    CHECK(pthread_create(&t[1], NULL, read_all, &sums[1]) == 0);
    for (int i = 0; i < MANY; i++) {
        size_t n = sizes[i % 4];
        memset(message, i, n);
        CHECK(dp_write(shared_fd, message, n) == (ssize_t)n);
        sum += (long)n;
    }
    for (int i = 0; i < 2; i++) CHECK(dp_write(shared_fd, "e", 1) == 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(sums[0] + sums[1] == sum && sums[0] > 0 && sums[1] > 0);
    CHECK(dp_close(shared_fd) == 0);
}

static atomic_int cleaned;
static void clean(void *arg) {
    (void)arg;
    cleaned++;
}

static void *read_forever(void *arg) {
    char *at;
    pthread_cleanup_push(clean, NULL);
    dp_read(*(int *)arg, &at);
    CHECK(!"a message from nowhere");
    pthread_cleanup_pop(0);
    return NULL;
}

static void *write_forever(void *arg) {
    pthread_cleanup_push(clean, NULL);
    for (;;) CHECK(dp_write(*(int *)arg, "x", 1) == 1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled(void *(*what)(void *), int fd) {
    int before = cleaned;
    void *result;
    pthread_t t;
    CHECK(pthread_create(&t, NULL, what, &fd) == 0);
    usleep(50000);
    CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && cleaned == before + 1);
}

/* A cancelled thread unwinds through a sleeping call; the endpoint goes on working. */
static void cancelling(void) {
    int to = endpoint(0), fd = endpoint(stat_of(to).dpid), nowhere = endpoint(60001);
    cancelled(read_forever, to);
    CHECK(dp_write(fd, "after", 5) == 5);
    expect(to, "after");
    cancelled(write_forever, nowhere); /* its target is never opened: it fills up */
    CHECK(dp_option(nowhere, DP_OPT_NONBLOCK, 1) == 0);
    FAILS(dp_write(nowhere, "x", 1), EAGAIN, "at the moment");
    CHECK(dp_close(fd) == 0 && dp_close(to) == 0 && dp_close(nowhere) == 0);
}

static void *read_on(void *arg) {
    char *at;
    pthread_cleanup_push(clean, NULL);
    for (;;) {
        CHECK(dp_read(*(int *)arg, &at) == 1);
        CHECK(dp_fsync(*(int *)arg, 1) == 0);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* However brief its sleeps are: each may be its last. */
static void cancelling_between_messages(void) {
    for (int i = 0; i < 20; i++) {
        int to = endpoint(0), fd = endpoint(stat_of(to).dpid), ended = 0, before = cleaned;
        CHECK(dp_option(to, DP_OPT_SPIN, 0) == 0);
        pthread_t t;
        CHECK(pthread_create(&t, NULL, read_on, &to) == 0);
        for (int n = 0; n < 5000 && !ended; n++) {
            CHECK(dp_write(fd, "x", 1) == 1);
            usleep(100);
            if (n == 200) CHECK(pthread_cancel(t) == 0);
            ended = n >= 200 && pthread_tryjoin_np(t, NULL) == 0;
        }
        CHECK(ended && cleaned == before + 1);
        CHECK(dp_option(to, DP_OPT_NONBLOCK, 1) == 0);
        char *at;
        while (dp_read(to, &at) == 1) CHECK(dp_fsync(to, 1) == 0);
        CHECK(errno == EAGAIN && dp_write(fd, "after", 5) == 5);
        CHECK(dp_option(to, DP_OPT_NONBLOCK, 0) == 0);
        expect(to, "after");
        CHECK(dp_close(fd) == 0 && dp_close(to) == 0);
    }
}

static void ignore(int signal) { (void)signal; }

static void *interrupt(void *main_thread) {
    usleep(50000);
    pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    return NULL;
}

static void signals(void) {
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = ignore; /* without SA_RESTART */
    CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
    int fd = endpoint(0);
    char *at;
    pthread_t t, me = pthread_self();
    CHECK(pthread_create(&t, NULL, interrupt, &me) == 0);
    FAILS(dp_read(fd, &at), EINTR, "interrupted");
    CHECK(pthread_join(t, NULL) == 0 && dp_close(fd) == 0);
}

static atomic_int number = -1;
static void *hammer(void *arg) {
    char *at;
    (void)arg;
    for (;;) {
        int fd = number;
        pthread_testcancel();
        if (fd < 0) continue;
        if (dp_write(fd, "x", 1) == -1) CHECK(errno != EFAULT && errno != ENOTRECOVERABLE);
        if (dp_read(fd, &at) >= 0) dp_fsync(fd, 1);
    }
    return NULL;
}

/* Endpoints end while other threads are in their calls: every call ends, with success or an errno. */
static void closing_under_calls(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&t[i], NULL, hammer, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        int fd = endpoint(0);
        CHECK(dp_option(fd, DP_OPT_NONBLOCK, 1) == 0);
        CHECK(dp_target(fd, 0, stat_of(fd).dpid) == 0);
        number = fd;
        usleep(500);
        number = -1;
        CHECK(dp_close(fd) == 0);
    }
    /* One may wait in an endpoint that took over a number it knew: cancelled, it ends there, too. */
    for (int i = 0; i < 3; i++) CHECK(pthread_cancel(t[i]) == 0 && pthread_join(t[i], NULL) == 0);
}

int main(void) {
    two_share_one();
    one_copies_and_one_reads();
    cancelling();
    cancelling_between_messages();
    signals();
    closing_under_calls();
    puts("ok");
    return 0;
}
