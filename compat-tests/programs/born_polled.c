/*
 * Two threads wait in poll for one connection from its first byte on, while it becomes a channel: both are woken by each
 * message, which one of them takes. Argument: how many connections, one after the other.
 */
#include "common.h"

#define ROUNDS 12

static pthread_barrier_t all_awake, taken_out;
static int connection;

static void await_byte(void) {
    struct pollfd entry = {.fd = connection, .events = POLLIN};
    CHECK(poll(&entry, 1, 5000) == 1);
    pthread_barrier_wait(&all_awake);
}

static void *second(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        await_byte();
        pthread_barrier_wait(&taken_out);
    }
    return NULL;
}

static void first(void) {
    for (int i = 0; i < ROUNDS; i++) {
        char byte;
        ask(connection, 1);
        await_byte();
        CHECK(read(connection, &byte, 1) == 1);
        pthread_barrier_wait(&taken_out);
    }
}

void server(void) {
    int listener = listen_here();
    for (long k = argument(-1, 100); k > 0; k--) {
        int fd = MUST(accept(listener, NULL, NULL));
        serve_asks(fd);
        close(fd);
    }
}

void client(void) {
    pthread_barrier_init(&all_awake, NULL, 2);
    pthread_barrier_init(&taken_out, NULL, 2);
    for (long k = argument(-1, 100); k > 0; k--) {
        connection = connect_there();
        pthread_t other = start_thread(second, NULL);
        first();
        pthread_join(other, NULL);
        close(connection);
    }
    say("all were woken");
}
