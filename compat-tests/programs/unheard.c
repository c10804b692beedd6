/*
 * A server that passes each connection on as soon as it has it (SCM_RIGHTS), to a program that it executes, and so never looks for
 * an offer. Its client has many connections at once (arguments: connections, exchanges on each), and goes on with the
 * first of them until the mark `looked`.
 */
#include "common.h"

enum { MOST = 100 };

void other_role(const char *role) {
    CHECK(strcmp(role, "taker") == 0);
    for (;;)
        start_thread(echo_and_close, (void *)(intptr_t)take_descriptor(0));
}

void server(void) {
    int door[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, door));
    if (MUST(fork()) == 0) {
        MUST(dup2(door[1], 0));
        execl("/proc/self/exe", program_argv[0], "taker", program_argv[2], (char *)NULL);
        CHECK(!"exec");
    }
    for (int listener = listen_here();;) {
        int fd = MUST(accept(listener, NULL, NULL));
        send_with(door[0], "f", 1, &fd, 1);
        MUST(close(fd));
    }
}

void client(void) {
    int fds[MOST];
    long count = argument(0, 1), exchanges = argument(1, 100);
    CHECK(count <= MOST);
    for (long i = 0; i < count; i++)
        fds[i] = connect_there();
    for (long k = 0; k < exchanges; k++)
        for (long i = 0; i < count; i++)
            exchange(fds[i], 100, (uint64_t)k);
    mark("done", 1);
    while (!is_marked("looked")) {
        exchange(fds[0], 100, 0);
        sleep_ms(1);
    }
    for (long i = 0; i < count; i++)
        MUST(close(fds[i]));
    say("fine");
}
