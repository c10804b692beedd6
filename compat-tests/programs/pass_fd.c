/*
 * The connection is handed to another process by SCM_RIGHTS after many exchanges.
 *   fork   to a child forked long before
 *   exec   to a program started separately
 *   bare   the same without LD_PRELOAD: a stranger that knows nothing of channels
 * The giver closes its copy. The argument "keep" makes it keep it, unused, until the taker has ended.
 */
#include "common.h"

#define LINES 300

static void serve_taken(int door) {
    int fd = take_descriptor(door);
    echo_until_eof(fd);
    close(fd);
}

void other_role(const char *role) {
    CHECK(strcmp(role, "taker") == 0);
    serve_taken(0);
}

/* The taker is started before the connection exists. */
static pid_t start_taker(int door[2]) {
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, door));
    pid_t child = MUST(fork());
    if (child > 0) {
        MUST(close(door[1]));
        return child;
    }
    MUST(close(door[0]));
    if (mode_is("fork")) {
        serve_taken(door[1]);
        exit(0);
    }
    MUST(dup2(door[1], 0));
    if (mode_is("bare"))
        unsetenv("LD_PRELOAD");
    execl("/proc/self/exe", program_argv[0], "taker", program_argv[2], (char *)NULL);
    CHECK(!"exec");
    return -1;
}

void server(void) {
    int door[2];
    pid_t taker = start_taker(door);
    int fd = accepted(listen_here());
    send_with(door[0], "f", 1, &fd, 1);
    if (!argument(0, 0))
        MUST(close(fd));
    join_child(taker);
    close(fd);
    say("handed over and served");
}

void client(void) {
    int fd = connected();
    static char out[100000], in[100000];
    /* A good deal is under way while the connection changes hands. */
    fill(out, sizeof out, 1);
    write_all(fd, out, sizeof out);
    read_exact(fd, in, sizeof in);
    CHECK(memcmp(in, out, sizeof in) == 0);
    for (int i = 0; i < LINES; i++)
        exchange(fd, 1 + (size_t)i * 17 % 1000, (uint64_t)i);
    char byte;
    MUST(shutdown(fd, SHUT_WR));
    outcome("at the end", read(fd, &byte, 1));
    close(fd);
    say("%d exchanges", LINES);
}
