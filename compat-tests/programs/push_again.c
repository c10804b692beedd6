/*
 * Threads send on a connection whose receiver has just given it to stdio, with more unread than the kernel's buffers
 * hold: one of them finds that out, and the others come in the middle of it. Connection after connection,
 * because what a process knows of an earlier one must not be taken for this one's: in the first round it has a child,
 * and processes that are started get other numbers later.
 *   threads   as above
 *   edges     one thread sends when an edge says that there is room; it has one processor together with whoever fills
 *             that room, who may be through by the time that it has found none
 */
#include "common.h"

#include <sched.h>
#include <stdatomic.h>

#define ROUNDS (mode_is("edges") ? 5 : 3)
#define BYTES 120000
#define BUSY 150
#define THREADS 24
#define EACH 10

static void numbered(char *name, size_t size, const char *what, int round) { snprintf(name, size, "%s-%d", what, round); }

void server(void) {
    int listener = listen_here();
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        int fd = accepted(listener);
        small_buffer(fd, SO_RCVBUF);
        numbered(name, sizeof name, "small", round);
        mark(name, 1);
        numbered(name, sizeof name, "sent", round);
        await_mark(name);
        FILE *f = fdopen(fd, "r");
        CHECK(f);
        numbered(name, sizeof name, "given", round);
        mark(name, 1);
        sleep_ms(BUSY);
        uint64_t sum = SUM_START;
        size_t n = stream_to_eof(f, &sum);
        char *all = malloc(BYTES + THREADS * EACH);
        fill(all, BYTES, 9);
        memset(all + BYTES, 'x', THREADS * EACH);
        say("%zu bytes, %s", n, sum == checksum(SUM_START, all, BYTES + THREADS * EACH) ? "as sent" : "NOT as sent");
        free(all);
        fclose(f);
    }
}

static char given[32];

static void *send_some(void *fd) {
    await_mark(given);
    static atomic_uint turn;
    struct timespec rest = {0, 400000 * (atomic_fetch_add(&turn, 1) % THREADS)};
    nanosleep(&rest, NULL);
    for (int i = 0; i < EACH;) {
        ssize_t n = send(*(int *)fd, "x", 1, MSG_DONTWAIT);
        CHECK(n == 1 || errno == EAGAIN);
        i += n == 1;
    }
    return NULL;
}

static void send_by_edges(int fd) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    char some[THREADS * EACH];
    memset(some, 'x', sizeof some);
    for (size_t n = 0; n < sizeof some; n += write_some(fd, some + n, sizeof some - n))
        CHECK(epoll_wait(set, &event, 1, 5000) == 1);
    close(set);
}

void client(void) {
    pid_t child = 0;
    if (mode_is("edges")) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        MUST(sched_setaffinity(0, sizeof one, &one));
    }
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        int fd = connected();
        if (round == 0) {
            child = MUST(fork());
            if (child == 0) {
                MUST(close(fd));
                pause();
                _exit(0);
            }
        }
        small_buffer(fd, SO_SNDBUF);
        numbered(name, sizeof name, "small", round);
        await_mark(name);
        char *all = malloc(BYTES);
        fill(all, BYTES, 9);
        size_t n = write_some(fd, all, BYTES);
        numbered(name, sizeof name, "sent", round);
        mark(name, n == BYTES);
        numbered(given, sizeof given, "given", round);
        if (n < BYTES) {
            await_mark(given);
            write_all(fd, all + n, BYTES - n);
        }
        free(all);
        struct pollfd waiting = {fd, POLLIN, 0};
        if (mode_is("edges")) {
            while (!is_marked(given))
                CHECK(poll(&waiting, 1, 1) == 0);
            send_by_edges(fd);
        } else {
            pthread_t threads[THREADS];
            for (int i = 0; i < THREADS; i++)
                threads[i] = start_thread(send_some, &fd);
            /* The one that finds out. */
            CHECK(poll(&waiting, 1, BUSY) == 0);
            for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        }
        MUST(shutdown(fd, SHUT_WR));
        char byte;
        outcome("at the end", read(fd, &byte, 1));
        MUST(close(fd));
        if (round == 0) {
            MUST(kill(child, SIGKILL));
            MUST(waitpid(child, NULL, 0));
        }
    }
}
