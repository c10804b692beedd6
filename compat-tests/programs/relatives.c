/*
 * A client that is many processes at once: one with a connection, and as many children of it as the argument says, each with
 * another, until the mark "looked". The server is that of crowd.c.
 */
#include "common.h"

#define BYTES 64

static int in_use(void) {
    int fd = connect_there();
    no_delay(fd);
    for (uint64_t i = 0; i < 100; i++)
        exchange(fd, BYTES, i);
    return fd;
}

static void child(int told, int held) {
    int fd = in_use();
    CHECK(write(told, "", 1) == 1);
    char over;
    CHECK(read(held, &over, 1) == 0);
    exchange(fd, BYTES, 100);
    exit(0);
}

void server(void) {
    CHECK(!"the server is that of crowd.c");
}

void client(void) {
    long count = argument(0, 10);
    pid_t *children = calloc((size_t)count, sizeof *children);
    CHECK(children);
    int first = in_use(), told[2], held[2];
    MUST(pipe(told));
    MUST(pipe(held));
    for (long k = 0; k < count; k++) {
        children[k] = MUST(fork());
        if (children[k] == 0) {
            close(held[1]);
            child(told[1], held[0]);
        }
    }
    char byte;
    for (long k = 0; k < count; k++)
        CHECK(read(told[0], &byte, 1) == 1);
    mark("done", 1);
    await_mark("looked");
    close(held[1]);
    for (long k = 0; k < count; k++)
        join_child(children[k]);
    exchange(first, BYTES, 100);
    say("fine");
}
