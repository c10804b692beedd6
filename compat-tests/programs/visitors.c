/*
 * One process after the other fetches much from a server, and ends. Arguments: how many, and MiB for each. The server prints how
 * much shared memory it has after a tenth of them, and at the end.
 */
#include "common.h"

#define PIECE (1 << 18)

static char bytes[PIECE];

void server(void) {
    int listener = listen_here();
    long count = argument(0, 60), much = argument(1, 32);
    unsigned long before = 0;
    for (long i = 0; i < count; i++) {
        if (i == count / 10)
            before = memory_used("RssShmem:");
        int fd = MUST(accept(listener, NULL, NULL));
        for (int k = 0; k < 20; k++) {
            read_exact(fd, bytes, 100);
            write_all(fd, bytes, 100);
        }
        for (long sent = 0; sent < much << 20; sent += PIECE)
            write_all(fd, bytes, PIECE);
        CHECK(read(fd, bytes, 1) == 0);
        MUST(close(fd));
    }
    say("RssShmem from %lu to %lu", before, memory_used("RssShmem:"));
}

static void visit(void) {
    int fd = connect_there();
    no_delay(fd);
    for (int k = 0; k < 20; k++)
        exchange(fd, 100, (uint64_t)k);
    for (long got = 0; got < argument(1, 32) << 20; got += PIECE)
        read_exact(fd, bytes, PIECE);
    _exit(0);
}

void client(void) {
    for (long i = 0; i < argument(0, 60); i++) {
        pid_t pid = MUST(fork());
        if (pid == 0)
            visit();
        int status;
        MUST(waitpid(pid, &status, 0));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    say("fine");
}
