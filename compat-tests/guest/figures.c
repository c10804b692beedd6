// SPDX-License-Identifier: MIT OR Apache-2.0
// usage: figures [ROUNDS]: what else endpoints take, beside what else there is: in place, in bulk, in great number.
#define _GNU_SOURCE
#include "place.h"
#include "turns.h"

#include <sys/resource.h>
#include <sys/socket.h>

enum { LEN = 64, BULK = 65536, BULK_POOL = 4 * BULK, IDLE = 5000, WAITING = 256 };

static unsigned char bulk[BULK];

static struct pool opened(int fd, uint64_t size) {
    struct pool p;
    if (!pool_open(&p, fd, size)) {
        perror("figures: a pool in place");
        exit(1);
    }
    return p;
}

static void polls_in_place(struct pool *p, unsigned char *to) {
    unsigned char *m;
    size_t len;
    while (!(m = take(p, &len, NULL)))
        ;
    memcpy(to, m, len < LEN ? len : LEN);
    broken |= len != LEN;
    release(p);
}

/* Microseconds there and back; both sides look into their mapped pools until a message is there. */
static double in_place(int rounds) {
    int p[2];
    unsigned char b[LEN] = "ping";
    double *t = calloc(rounds, sizeof *t);
    dp_pair(p, 0, 0);
    fflush(stdout);
    pid_t child = fork();
    struct pool pool = opened(p[!child], 0);
    if (!child) {
        on_cpu(1);
        for (int i = 0; i < rounds + rounds / 10; i++) {
            polls_in_place(&pool, b);
            broken |= write(p[1], b, LEN) != LEN;
        }
        _exit(broken);
    }
    on_cpu(0);
    for (int i = -rounds / 10; i < rounds; i++) {
        double began = now();
        broken |= write(p[0], b, LEN) != LEN;
        polls_in_place(&pool, b);
        if (i >= 0)
            t[i] = now() - began;
    }
    int status;
    broken |= waitpid(child, &status, 0) != child || status;
    pool_unmap(&pool);
    close2(p);
    return middle(t, rounds);
}

/* ns to come by a message that waits, and to give its room back: in place, without a system call. */
static double receive_waiting(void) {
    int p[2];
    double best = 1e9;
    size_t len;
    dp_pair(p, 0, 0);
    struct pool pool = opened(p[1], 0);
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < WAITING; i++)
            broken |= write(p[0], bulk, LEN) != LEN;
        double began = now();
        for (int i = 0; i < WAITING; i++) {
            broken |= !take(&pool, &len, NULL);
            release(&pool);
        }
        double each = (now() - began) * 1e9 / WAITING;
        best = each < best ? each : best;
    }
    pool_unmap(&pool);
    close2(p);
    return best;
}

/* MiB/s of one process's messages of 64 KiB to another; both descriptors are closed then. */
static double stream(int p[2], int messages, bool place) {
    struct pool pool = {0};
    if (place)
        pool = opened(p[1], BULK_POOL);
    fflush(stdout);
    double began = now();
    pid_t child = fork();
    if (!child) {
        on_cpu(sysconf(_SC_NPROCESSORS_ONLN) > 1);
        close(p[1]);
        for (int i = 0; i < messages; i++)
            broken |= write(p[0], bulk, BULK) != BULK;
        _exit(broken);
    }
    on_cpu(0);
    size_t len;
    for (int i = 0; i < messages && !broken; i++) {
        if (!place) {
            broken |= !all(p[1], (char *)bulk, BULK);
            continue;
        }
        broken |= !take_wait(&pool, &len, NULL) || len != BULK;
        release(&pool);
    }
    double mib = messages / 16.0 / (now() - began);
    int status;
    broken |= waitpid(child, &status, 0) != child || status;
    if (place)
        pool_unmap(&pool);
    close2(p);
    return mib;
}

static void streams(void) {
    enum { MESSAGES = 400 };
    int p[2], size = BULK_POOL;
    double best[4] = {0};
    for (int turn = 0; turn < REPEATS; turn++) {
        for (int k = 0; k < 4; k++) {
            if (k < 2) {
                socketpair(AF_UNIX, k ? SOCK_SEQPACKET : SOCK_STREAM, 0, p);
                setsockopt(p[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
            } else {
                dp_pair(p, BULK_POOL, 0);
            }
            double mib = stream(p, MESSAGES, k == 3);
            best[k] = mib > best[k] ? mib : best[k];
        }
    }
    double unix_best = best[0] > best[1] ? best[0] : best[1];
    printf("# messages of 64 KiB: AF_UNIX stream %.0f MiB/s, seqpacket %.0f; endpoints %.0f, received in place %.0f\n", best[0],
           best[1], best[2], best[3]);
    printf("# which is %.2f of AF_UNIX's bandwidth, and %.2f in place\n", best[2] / unix_best, best[3] / unix_best);
}

/* Free memory, with what lies in the lists of each CPU. */
static long free_kib(void) {
    char line[128];
    long all = 0, n;
    FILE *info = fopen("/proc/meminfo", "r"), *zones = fopen("/proc/zoneinfo", "r");
    while (fgets(line, sizeof line, info))
        all += sscanf(line, "MemFree: %ld", &n) == 1 ? n : 0;
    while (fgets(line, sizeof line, zones))
        all += sscanf(line, " count: %ld", &n) == 1 ? n * 4 : 0;
    fclose(info);
    fclose(zones);
    return all;
}

static void many(int rounds) {
    static int idle[IDLE];
    struct rlimit r = {IDLE + 100, IDLE + 100};
    setrlimit(RLIMIT_NOFILE, &r);
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    double best[2] = {1e9, 1e9};
    long taken = 0;
    for (int turn = 0; turn < REPEATS; turn++) {
        for (int k = 0; k < 2; k++) {
            int p[2];
            long before = free_kib();
            for (int i = 0; k && i < IDLE; i++)
                broken |= (idle[i] = dp_new(0, 1 << 16, 0)) < 0;
            /* The first time nothing is there yet from the time before. */
            if (k && !turn)
                taken = before - free_kib();
            dp_pair(p, 0, 0);
            double m = median(p, LEN, rounds, sysconf(_SC_NPROCESSORS_ONLN) > 1);
            best[k] = m < best[k] ? m : best[k];
            for (int i = 0; k && i < IDLE; i++)
                close(idle[i]);
        }
    }
    printf("# 64 bytes there and back beside %d idle endpoints: %.2f us, alone %.2f us: %+.1f %%\n", IDLE, best[1], best[0],
           100 * (best[1] / best[0] - 1));
    printf("# an idle endpoint with a pool of 64 KiB takes %.1f KiB\n", taken / (double)IDLE);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    printf("# a message that waits is received in place, and its room given back, in %.0f ns\n", receive_waiting());
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
        double best[2] = {1e9, 1e9};
        for (int i = 0; i < REPEATS && !broken; i++) {
            int p[2];
            tcp_pair(p);
            double m = median(p, LEN, rounds, 1);
            best[0] = m < best[0] ? m : best[0];
            m = in_place(rounds);
            best[1] = m < best[1] ? m : best[1];
        }
        printf("# 64 bytes there and back, two CPUs, received in place by looking: %.2f us, TCP %.2f us: %.2f of its time\n",
               best[1], best[0], best[1] / best[0]);
    }
    streams();
    many(rounds);
    if (broken)
        puts("# a message was lost: these are no figures");
    return broken;
}
