/*
 * A server that forks for each connection, as PostgreSQL does (arguments: connections, and how its children end): the
 * parent closes its copy, the child serves and ends without closing anything.
 *   0  _exit   1  exit   2  killed   3  each in turn
 * One after the other, so that what each had can be had again. The answer is longer than a short ring. The parent and the
 * client print how much shared memory they have at the beginning and at the end; the parent says "done" by a mark, and both wait
 * for "looked".
 */
#include "common.h"

static void serve_and_end(int fd, long how) {
    char buffer[10000];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
        write_all(fd, buffer, (size_t)n);
    if (how == 1)
        exit(0);
    if (how == 2)
        kill(getpid(), SIGKILL);
    _exit(0);
}

void server(void) {
    int listener = listen_here();
    long count = argument(0, 200), how = argument(1, 3);
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    unsigned long before = 0;
    for (long i = 0; i < count; i++) {
        int fd = MUST(accept(listener, NULL, NULL));
        if (i == count / 10)
            before = memory_used("RssShmem:");
        if (MUST(fork()) == 0)
            serve_and_end(fd, how == 3 ? i % 3 : how);
        MUST(close(fd));
    }
    say("RssShmem from %lu to %lu", before, memory_used("RssShmem:"));
    mark("done", 1);
    await_mark("looked");
}

void client(void) {
    long count = argument(0, 200);
    unsigned long before = 0;
    for (long i = 0; i < count; i++) {
        if (i == count / 10)
            before = memory_used("RssShmem:");
        int fd = connect_there();
        no_delay(fd);
        for (int k = 0; k < 20; k++)
            exchange(fd, 100, (uint64_t)(i + k));
        exchange(fd, 10000, (uint64_t)i);
        MUST(close(fd));
    }
    say("RssShmem from %lu to %lu", before, memory_used("RssShmem:"));
    await_mark("looked");
}
