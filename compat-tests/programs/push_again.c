/*
 * Threads send on a connection whose receiver has just given it to stdio, with more unread than the kernel's buffers
 * hold: one of them finds that out, and the others come in the middle of it. Connection after connection,
 * because what a process knows of an earlier one must not be taken for this one's: in the first round it has a child,
 * and processes that are started get other numbers later.
 */
#include "common.h"

#include <stdatomic.h>

#define ROUNDS 3
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

void client(void) {
    pid_t child = 0;
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
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            threads[i] = start_thread(send_some, &fd);
        /* The one that finds out. */
        struct pollfd waiting = {fd, POLLIN, 0};
        CHECK(poll(&waiting, 1, BUSY) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
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
