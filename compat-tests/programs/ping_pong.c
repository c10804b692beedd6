/*
 * Many small exchanges on one connection (argument: how many, 3000). Mode "hold" then waits for the mark
 * "looked", so that somebody outside can ask the kernel how many bytes really went through TCP. Second argument
 * 1: a child serves, which closes the listener before it first reads.
 */
#include "common.h"

static void hold(void) {
    if (mode_is("hold")) {
        mark(is_client ? "client-done" : "server-done", 1);
        await_mark("looked");
    }
}

void server(void) {
    int listener = listen_here(), fd;
    if (argument(1, 0)) {
        fd = MUST(accept(listener, NULL, NULL));
        pid_t child = MUST(fork());
        if (child > 0) {
            MUST(close(fd));
            join_child(child);
            return;
        }
        MUST(close(listener));
        warm_up(fd);
    } else {
        fd = accepted(listener);
    }
    long count = argument(0, 3000);
    uint64_t sum = SUM_START;
    char buffer[256];
    for (long i = 0; i < count; i++) {
        size_t length = 1 + (size_t)i * 7 % 200;
        read_exact(fd, buffer, length);
        sum = checksum(sum, buffer, length);
        write_all(fd, buffer, length);
    }
    say("%ld messages, sum %016llx", count, (unsigned long long)sum);
    hold();
    CHECK(read(fd, buffer, 1) == 0);
    close(fd);
}

void client(void) {
    int fd = connected();
    long count = argument(0, 3000);
    for (long i = 0; i < count; i++)
        exchange(fd, 1 + (size_t)i * 7 % 200, (uint64_t)i);
    say("%ld exchanges", count);
    hold();
    close(fd);
}
