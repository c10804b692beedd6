/*
 * One thread makes a copy of a connection's only number while another one closes that. Where the copy was made, it is a sound descriptor;
 * else the connection ends as any other does.
 *   dup      dup(2)
 *   fcntl    F_DUPFD
 *   dup2     to a number of its own
 */
#include "common.h"

#include <sched.h>
#include <stdatomic.h>

#define ROUNDS 80
#define APART 600

static int number;
static atomic_int begun, closed;

static void rest_a_little(uint64_t *random) {
    for (volatile uint64_t n = (next_random(random) >> 20) % 20000; n > 0; n--)
        ;
}

static void *closes(void *unused) {
    (void)unused;
    uint64_t random = 1;
    for (int i = 1; i <= ROUNDS; i++) {
        while (begun < i)
            sched_yield();
        rest_a_little(&random);
        MUST(close(number));
        closed = i;
    }
    return NULL;
}

static int copy_of(int fd) {
    if (mode_is("dup"))
        return dup(fd);
    return mode_is("fcntl") ? fcntl(fd, F_DUPFD, 0) : dup2(fd, APART);
}

void server(void) {
    int listener = listen_here();
    uint64_t random = 2;
    pthread_t thread = start_thread(closes, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        number = accepted(listener);
        begun = i;
        rest_a_little(&random);
        int copy = copy_of(number), error = errno;
        while (closed < i)
            sched_yield();
        if (copy < 0) {
            CHECK(error == EBADF);
            continue;
        }
        for (int n = 0; n < 20; n++)
            exchange(copy, 100, (uint64_t)n);
        MUST(close(copy));
    }
    pthread_join(thread, NULL);
    say("%s: done", program_argv[3]);
}

void client(void) {
    for (int i = 0; i < ROUNDS; i++) {
        int fd = connected();
        echo_until_eof(fd);
        MUST(close(fd));
    }
    say("every connection saw EOF");
}
