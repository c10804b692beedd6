/*
 * A client that has one connection to each of many servers at once, each a program of its own. First argument: servers; second: how
 * many connections it ends after the mark "looked", before it connects anew to as many servers, the last ones, and marks "again".
 * It says `fine` when every byte came back, and ends the servers.
 */
#include "common.h"

#include <spawn.h>

#define BYTES 100

extern char **environ;

struct backend {
    pid_t pid;
    in_port_t port;
    int fd;
};

/* A server of one connection after the other: its port goes to standard output. */
void other_role(const char *role) {
    CHECK(strcmp(role, "host") == 0);
    int listener = listen_for_starter();
    for (;;) {
        int fd = MUST(accept(listener, NULL, NULL));
        echo_until_eof(fd);
        close(fd);
    }
}

static void start(struct backend *backend) {
    int out[2];
    MUST(pipe2(out, O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, out[1], 1) == 0);
    char *arguments[] = {program_argv[0], "host", program_argv[2], NULL};
    CHECK(posix_spawn(&backend->pid, "/proc/self/exe", &actions, NULL, arguments, environ) == 0);
    CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
    close(out[1]);
    CHECK(read(out[0], &backend->port, sizeof backend->port) == sizeof backend->port);
    close(out[0]);
}

/* Long enough that it becomes a channel, if it can. */
static void use(struct backend *backend) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    there.sin_port = backend->port;
    backend->fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(connect(backend->fd, (struct sockaddr *)&there, sizeof there));
    no_delay(backend->fd);
    for (uint64_t i = 0; i < 100; i++)
        exchange(backend->fd, BYTES, i);
}

static void end(struct backend *backend) {
    char byte;
    MUST(shutdown(backend->fd, SHUT_WR));
    CHECK(read(backend->fd, &byte, 1) == 0);
    MUST(close(backend->fd));
    backend->fd = -1;
}

void client(void) {
    long count = argument(0, 10), anew = argument(1, 1);
    struct backend *all = calloc((size_t)count, sizeof *all);
    CHECK(all && anew < count);
    for (long i = 0; i < count; i++) {
        start(&all[i]);
        use(&all[i]);
    }
    mark("done", 1);
    await_mark("looked");
    for (long i = 0; i < anew; i++)
        end(&all[i]);
    for (long i = count - anew; i < count; i++) {
        end(&all[i]);
        use(&all[i]);
    }
    mark("again", 1);
    await_mark("looked-again");
    for (long i = anew; i < count; i++)
        exchange(all[i].fd, BYTES, 1);
    for (long i = 0; i < count; i++) {
        MUST(kill(all[i].pid, SIGKILL));
        MUST(waitpid(all[i].pid, NULL, 0));
    }
    say("fine");
}

void server(void) {}
