/*
 * A process for each connection, made in ways that run no handlers of pthread_atfork, or made more often than the
 * shim can count. The parent has used the connection, closes its copy, and goes on.
 *   _Fork  clone  number     the call; `number` is clone by syscall(2)
 *   __clone                  clone by its second name
 *   fork                     with more children at a time than a family has members
 * First argument: connections at a time.
 */
#include "common.h"

#include <sched.h>
#include <sys/syscall.h>

int __clone(int (*run)(void *), void *stack, int flags, void *with, ...);

#define BEFORE 20
#define AFTER 30

static int serving;

static int serve(void *unused) {
    (void)unused;
    echo_until_eof(serving);
    _exit(0);
}

static char stack[1 << 18];

static pid_t child(void) {
    if (mode_is("_Fork"))
        return _Fork();
    if (mode_is("clone"))
        return clone(serve, stack + sizeof stack, SIGCHLD, NULL);
    if (mode_is("__clone"))
        return __clone(serve, stack + sizeof stack, SIGCHLD, NULL);
    if (mode_is("number"))
        return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    return fork();
}

void server(void) {
    int listener = listen_here();
    long count = argument(0, 6);
    for (long i = 0; i < count; i++) {
        serving = MUST(accept(listener, NULL, NULL));
        char message[64];
        for (int k = 0; k < BEFORE; k++) {
            read_exact(serving, message, sizeof message);
            write_all(serving, message, sizeof message);
        }
        pid_t pid = MUST(child());
        if (pid == 0)
            serve(NULL);
        MUST(close(serving));
    }
    for (long i = 0; i < count; i++) {
        int status;
        MUST(wait(&status));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    say("%ld children", count);
}

void client(void) {
    long count = argument(0, 6);
    int *fds = calloc((size_t)count, sizeof *fds);
    for (long i = 0; i < count; i++) {
        fds[i] = MUST(connect_there());
        for (int k = 0; k < BEFORE; k++)
            exchange(fds[i], 64, (uint64_t)(i * 1000 + k));
    }
    for (int k = 0; k < AFTER; k++)
        for (long i = 0; i < count; i++)
            exchange(fds[i], 64, (uint64_t)(i * 1000 + k + BEFORE));
    for (long i = 0; i < count; i++) {
        char byte;
        MUST(shutdown(fds[i], SHUT_WR));
        CHECK(read(fds[i], &byte, 1) == 0);
    }
    say("%ld connections", count);
}
