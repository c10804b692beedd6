/*
 * Programs are started while a connection lives: system, popen, posix_spawn, vfork, a daemon's double fork.
 * One of them gets the connection as its standard output.
 */
#include "common.h"

#include <spawn.h>

extern char **environ;

static void some_exchanges(int fd) {
    for (int i = 0; i < 50; i++)
        exchange(fd, 100, (uint64_t)i);
}

static void with_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    CHECK(child > 0);
    join_child(child);
}

static void with_posix_spawn(int out, char *const *command) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&actions, out, 1);
    errno = posix_spawn(&child, command[0], &actions, NULL, command, environ);
    CHECK(errno == 0);
    posix_spawn_file_actions_destroy(&actions);
    join_child(child);
}

static void with_popen(void) {
    char line[32] = {0};
    FILE *from = popen("echo from a pipe", "r");
    CHECK(from && fgets(line, sizeof line, from));
    CHECK(pclose(from) == 0);
    say("popen: %.11s", line);
}

static void double_fork(void) {
    pid_t child = MUST(fork());
    if (child == 0) {
        if (MUST(fork()) == 0) {
            setsid();
            sleep_ms(2);
            _exit(0);
        }
        _exit(0);
    }
    join_child(child);
}

void tester(int fd) {
    char *truth[] = {"/bin/true", NULL};
    char *words[] = {"/bin/echo", "spoken by a child", NULL};
    for (int i = 0; i < 3; i++) {
        char line[18];
        say("system: %d", system("/bin/true"));
        some_exchanges(fd);
        with_popen();
        some_exchanges(fd);
        with_vfork();
        some_exchanges(fd);
        with_posix_spawn(-1, truth);
        some_exchanges(fd);
        double_fork();
        some_exchanges(fd);
        with_posix_spawn(fd, words); /* the peer echoes it back to us */
        read_exact(fd, line, sizeof line);
        say("through the connection: %.17s", line);
        some_exchanges(fd);
    }
}

void helper(int fd) { echo_until_eof(fd); }
