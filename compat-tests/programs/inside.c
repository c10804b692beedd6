/*
 * A signal handler asks for SIGIO on the socket on which the program is sending just then. So the connection leaves its
 * channel in the middle of a send that waits for room, or copies. Connection after connection, at other moments.
 */
#include "common.h"

#define ROUNDS 40
#define BYTES 600000

static volatile int socket_of_round;

static void ask_for_sigio(int signal) {
    (void)signal;
    int flags = fcntl(socket_of_round, F_GETFL), before = errno;
    fcntl(socket_of_round, F_SETFL, flags | O_ASYNC);
    fcntl(socket_of_round, F_SETFL, flags);
    errno = before;
}

static void *disturb(void *sender) {
    static unsigned round;
    struct timespec rest = {0, 100000 + 70000 * (long)(round++ % ROUNDS)};
    nanosleep(&rest, NULL);
    pthread_kill(*(pthread_t *)sender, SIGUSR1);
    return NULL;
}

void client(void) {
    struct sigaction action = {.sa_handler = ask_for_sigio, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    char *all = malloc(BYTES);
    fill(all, BYTES, 3);
    for (int round = 0; round < ROUNDS; round++) {
        int fd = connected();
        socket_of_round = fd;
        pthread_t sender = pthread_self(), other = start_thread(disturb, &sender);
        write_all(fd, all, BYTES);
        pthread_join(other, NULL);
        exchange(fd, 100, 1);
        MUST(close(fd));
    }
    say("%d times", ROUNDS);
}

void server(void) {
    int listener = listen_here(), wrong = 0;
    char *all = malloc(BYTES), *got = malloc(BYTES);
    fill(all, BYTES, 3);
    for (int round = 0; round < ROUNDS; round++) {
        int fd = accepted(listener);
        for (size_t n = 0; n < BYTES;) {
            ssize_t k = MUST(read(fd, got + n, BYTES - n < 40000 ? BYTES - n : 40000));
            CHECK(k > 0);
            n += (size_t)k;
            if (n < BYTES / 2)
                sleep_ms(1);
        }
        wrong += memcmp(got, all, BYTES) != 0;
        echo_until_eof(fd);
        MUST(close(fd));
    }
    say("%d times, wrong: %d", ROUNDS, wrong);
}
