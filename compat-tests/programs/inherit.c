/*
 * A program that is started reads and writes a connection that it only inherited, under its number 9.
 * Modes: system, popen, spawn (posix_spawn without file actions), vfork, number (execve through syscall(2)).
 * Mode vfork_number: in the parent, it is at another number, and close-on-exec; a child of vfork puts it there by dup2,
 * or by fcntl (vfork_copy).
 * With close-on-exec (argument 1) the program finds nothing there, and the parent goes on.
 * Modes close and half: the peer says something, does nothing more with the connection, and closes it or shuts down
 * sending; before that, or after it (argument 1), a program is started. Mode stream: it says more than fits anywhere,
 * and programs are started while that is read.
 */
#include "common.h"

#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;

#define BYTES 20000
#define STREAM 3000000

static char data[BYTES];

/* In the parent, where that is another number. */
static int original = -1;

static bool copies(void) { return mode_is("vfork_number") || mode_is("vfork_copy"); }

static void copy_in_child(void) {
    if (mode_is("vfork_number"))
        dup2(original, 9);
    else
        fcntl(original, F_DUPFD, 9);
}

static void run(const char *script) {
    char *words[] = {"sh", "-c", (char *)script, NULL};
    pid_t child;
    if (mode_is("system")) {
        CHECK(system(script) == 0);
    } else if (mode_is("popen")) {
        FILE *to = popen(script, "w");
        CHECK(to && pclose(to) == 0);
    } else if (mode_is("spawn")) {
        errno = posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ);
        CHECK(errno == 0);
        join_child(child);
    } else {
        child = mode_is("vfork") || copies() ? vfork() : fork();
        if (child == 0) {
            if (copies())
                copy_in_child();
            if (mode_is("number"))
                syscall(SYS_execve, "/bin/sh", words, environ);
            else
                execv("/bin/sh", words);
            _exit(1);
        }
        CHECK(child > 0);
        join_child(child);
    }
}

/* The peer is asked by us, and answers to the child. */
static void child_reads(int fd, uint64_t *position) {
    char path[512], script[1200];
    path_beside(path, sizeof path, "got");
    snprintf(script, sizeof script, "head -c %d <&9 >'%s'", BYTES, path);
    ask(fd, BYTES);
    run(script);
    int file = MUST(open(path, O_RDONLY));
    read_exact(file, data, BYTES);
    close(file);
    say("the child read: %s", is_pattern(data, BYTES, *position) ? "all" : "SOMETHING ELSE");
    *position += BYTES;
}

/* The child asks, and the peer answers to us. */
static void child_writes(int fd, uint64_t *position) {
    run("printf '\\020\\047\\000\\000\\000\\000\\000\\000' >&9"); /* 10000 bytes, without delay */
    read_exact(fd, data, 10000);
    say("the child asked: %s", is_pattern(data, 10000, *position) ? "answered" : "SOMETHING ELSE");
    *position += 10000;
}

static bool ends(void) { return mode_is("close") || mode_is("half"); }

static void last_words(int fd) {
    await_mark(argument(0, 0) == 1 ? "over" : "said");
    CHECK(system("true") == 0);
    mark("started", 0);
    await_mark("over");
    say("last words: %llu bytes", (unsigned long long)read_to_eof(fd, NULL));
    if (mode_is("half"))
        write_all(fd, "heard", 5);
}

static void stream(int fd) {
    ask(fd, STREAM);
    for (uint64_t position = 0; position < STREAM;) {
        if (position > 0 && position < STREAM / 2)
            CHECK(system("true") == 0);
        for (int i = 0; i < 50 && position < STREAM; i++) {
            ssize_t n = MUST(read(fd, data, 1000));
            CHECK(n > 0 && is_pattern(data, (size_t)n, position));
            position += (uint64_t)n;
        }
    }
    say("%d bytes in order", STREAM);
}

void helper(int fd) {
    if (!ends()) {
        serve_asks(fd);
        return;
    }
    write_all(fd, data, 5000);
    mark("said", 0);
    if (argument(0, 0) == 0)
        await_mark("started");
    if (mode_is("close"))
        MUST(close(fd));
    if (mode_is("half"))
        MUST(shutdown(fd, SHUT_WR));
    mark("over", 0);
    if (mode_is("half")) {
        read_exact(fd, data, 5);
        say("%.5s", data);
    }
    exit(0);
}

void tester(int fd) {
    uint64_t position = 0;
    if (ends()) {
        last_words(fd);
        return;
    }
    if (mode_is("stream")) {
        stream(fd);
        return;
    }
    if (argument(0, 0) == 1 || copies()) {
        MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
        original = fd;
    } else {
        MUST(dup2(fd, 9));
        MUST(close(fd));
        fd = 9;
    }
    for (int i = 0; i < 3; i++) {
        if (argument(0, 0) == 1) {
            run("test ! -e /proc/self/fd/9");
        } else {
            child_reads(fd, &position);
            child_writes(fd, &position);
        }
        for (int k = 0; k < 50; k++) {
            ask(fd, 100);
            read_exact(fd, data, 100);
            CHECK(is_pattern(data, 100, position));
            position += 100;
        }
    }
    if (argument(1, 0) == 1) { /* what came before is forgotten in many more */
        for (int k = 0; k < 3000; k++) {
            ask(fd, 100);
            read_exact(fd, data, 100);
        }
        mark("server-done", 1);
        mark("client-done", 1);
        await_mark("looked");
    }
    say("%llu bytes", (unsigned long long)position);
    shutdown(fd, SHUT_WR);
}
