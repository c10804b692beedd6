// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that mean no good: random calls with random arguments, and more endpoints than there are. Errors are
// welcome; what must not be is a word in the kernel's log, which is looked at afterwards.
#define _GNU_SOURCE
#include "tap.h"

#include <sys/resource.h>
#include <sys/uio.h>

enum { FDS = 12, CALLS = 20000 };

static int fds[FDS];
static char *area;
static unsigned seed;

static uint64_t r(void) {
    return (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed) << 11 ^ rand_r(&seed);
}

/* A number that is likely to mean something. */
static uint64_t odd(void) {
    static const uint64_t v[] = {0, 1, 7, 63, 64, 4095, 4096, 65535, 65536, 1 << 20, 16 << 20, (16 << 20) + 1,
                                 1u << 31, ~0u, 1ull << 63, ~0ull};
    switch (r() % 4) {
    case 0: return v[r() % (sizeof v / sizeof *v)];
    case 1: return r();
    case 2: return r() % 70000;
    default: return 7000 + r() % FDS;
    }
}

static void *somewhere(void) {
    switch (r() % 5) {
    case 0: return (void *)odd();
    case 1: return area + 8192 - r() % 200;
    default: return area + r() % 4096;
    }
}

static void *attack(void *arg) {
    (void)arg;
    unsigned commands[] = {DP_IOC_OPEN, DP_IOC_TARGET, DP_IOC_SENDTO, DP_IOC_PEER, DP_IOC_POOL, DP_IOC_FSYNC, DP_IOC_STAT,
                           FIONREAD, 0, DP_IOC_OPEN ^ 0x10000};
    for (int i = 0; i < CALLS; i++) {
        int k = r() % FDS, fd = fds[k];
        uint64_t *words = (uint64_t *)(area + 1024);
        for (int w = 0; w < 4; w++)
            words[w] = odd();
        switch (r() % 10) {
        case 0: case 1: case 2:
            ioctl(fd, commands[r() % (sizeof commands / sizeof *commands)], r() % 3 ? words : somewhere());
            break;
        case 3: ioctl(fd, DP_IOC_TARGET, &(struct dp_ioc_addr){0, 7000 + r() % FDS}); break;
        case 4: write(fd, somewhere(), odd() % 20000); break;
        case 5: read(fd, somewhere(), odd() % 20000); break;
        case 6: ready(fd, r(), 0); break;
        case 7: {
            struct iovec v[3] = {{somewhere(), odd() % 5000}, {somewhere(), odd() % 5000}, {somewhere(), odd()}};
            if (r() % 2)
                writev(fd, v, r() % 4);
            else
                readv(fd, v, r() % 4);
            break;
        }
        case 8: {
            size_t len = r() % 3 ? 8192 : (odd() & 0xfffff) + 1;
            char *m = mmap(NULL, len, r() % 8, MAP_SHARED, fd, r() % 2 ? DP_MAP_RING : r() % 2 ? 0 : (long)odd());
            if (m != MAP_FAILED) {
                mprotect(m, 4096, r() % 8);
                if (r() % 2)
                    munmap(m, 4096);
                munmap(m, len);
            }
            break;
        }
        case 9:
            if (r() % 8 == 0) {
                /* Others may be in a call on it. */
                int fresh = open(DP_DEVICE, O_RDWR | O_NONBLOCK);
                if (fresh >= 0) {
                    if (r() % 8)
                        ioctl(fresh, DP_IOC_OPEN, &(struct dp_ioc_open){7000 + k, 0, r() % 2 ? 0 : 4096 + r() % 70000});
                    dup2(fresh, fd);
                    close(fresh);
                }
            }
            break;
        }
    }
    return NULL;
}

static void random_calls(unsigned start) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        area = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(area + 8192, 4096);
        /* Own memory is not what is to be attacked: descriptors and areas only, no stack, no code. */
        seed = start;
        if (!become_nobody())
            _exit(2);
        for (int i = 0; i < FDS; i++) {
            fds[i] = open(DP_DEVICE, O_RDWR | O_NONBLOCK);
            if (i % 4)
                ioctl(fds[i], DP_IOC_OPEN, &(struct dp_ioc_open){7000 + i, 0, i % 2 ? 0 : 8192});
        }
        alarm(600);
        pthread_t t;
        pthread_create(&t, NULL, attack, NULL);
        attack(NULL);
        pthread_join(t, NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    /* A read into a random address may hit the attacker's own memory; the kernel is what is asked about. */
    OK(WIFEXITED(status) || WTERMSIG(status) == SIGSEGV, "random calls, seed %u (status %x)", start, status);
    int fd = dp_new(7001, 0, O_NONBLOCK);
    OK(fd >= 0, "all numbers are free afterwards");
    close(fd);
}

static void bomb(void) {
    struct rlimit l = {20000, 20000};
    setrlimit(RLIMIT_NOFILE, &l);
    static int all[20000];
    int n = 0;
    while (n < 3000 && (all[n] = dp_new(0, 4096, 0)) >= 0)
        n++;
    OK(n == 3000, "3000 endpoints");
    bool good = true;
    for (int i = 0; i < n; i += 100)
        good &= dp_send_to(all[i], "x", 1, 0, dp_number(all[n - 1 - i])) == 1;
    OK(good, "messages between them");
    for (int i = 0; i < n; i++)
        close(all[i]);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        l.rlim_cur = 100;
        setrlimit(RLIMIT_NOFILE, &l);
        while (dp_new(0, 4096, 0) >= 0)
            ;
        _exit(errno != EMFILE);
    }
    int status;
    waitpid(child, &status, 0);
    OK(status == 0, "up to the limit of descriptors");
}

/* A user without privilege does not get the machine's memory. */
static void memory(void) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        struct rlimit l = {8 << 20, 8 << 20};
        if (setrlimit(RLIMIT_MEMLOCK, &l) || !become_nobody())
            _exit(2);
        int n = 0, first = dp_new(0, 1 << 20, 0);
        while (dp_new(0, 1 << 20, 0) >= 0)
            n++;
        bool good = errno == ENOMEM && n > 60 && n < 72;
        close(first);
        _exit(!(good && dp_new(0, 1 << 20, 0) >= 0));
    }
    int status;
    waitpid(child, &status, 0);
    OK(status == 0, "a user's pools have a limit, and what is closed comes back");
}

static volatile bool stop;

static void *closes(void *arg) {
    int *fd = arg;
    for (int i = 0; i < 3000; i++) {
        int fresh = dp_new(0, 4096, O_NONBLOCK);
        dp_aim(fresh, 7100);
        dup2(fresh, *fd);
        close(fresh);
    }
    stop = true;
    return NULL;
}

static void races(void) {
    int to = dp_new(7100, 65536, O_NONBLOCK), fd = dp_new(0, 4096, O_NONBLOCK);
    dp_aim(fd, 7100);
    pthread_t t;
    char b[600];
    pthread_create(&t, NULL, closes, &fd);
    long sent = 0, got = 0;
    while (!stop) {
        sent += write(fd, b, 500) == 500;
        ready(fd, POLLOUT, 0);
        while (read(to, b, 600) == 500)
            got++;
    }
    pthread_join(t, NULL);
    while (read(to, b, 600) == 500)
        got++;
    OK(sent == got && sent > 0, "writes while their descriptor is replaced: %ld sent, %ld arrived", sent, got);
    close(fd);
    close(to);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    random_calls(1);
    random_calls(2);
    random_calls(time(NULL));
    bomb();
    memory();
    races();
    return tap_end();
}
