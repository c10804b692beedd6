/*
 * Descriptor numbers come and go while the connection lives.
 *   chain    dup, dup2, dup3, F_DUPFD, F_DUPFD_CLOEXEC, each time closing the one before
 *   alias    two numbers for one connection; closing one ends nothing
 *   onto     dup2 of one live connection onto another: the other ends, the first goes on under both numbers
 *   reuse    the number of a closed connection serves a file, then another connection
 *   range    close_range and closefrom, in a child and then here
 */
#include "common.h"

static void some_exchanges(int fd) {
    for (int i = 0; i < 100; i++)
        exchange(fd, 100, (uint64_t)i);
}

static void show_flags(const char *what, int fd) {
    say("%s: close-on-exec %d", what, !!(MUST(fcntl(fd, F_GETFD)) & FD_CLOEXEC));
    some_exchanges(fd);
}

static void chain(int fd) {
    int copy = MUST(dup(fd));
    MUST(close(fd));
    show_flags("dup", copy);
    CHECK(MUST(dup2(copy, 50)) == 50);
    MUST(close(copy));
    show_flags("dup2", 50);
    CHECK(MUST(dup3(50, 51, O_CLOEXEC)) == 51);
    MUST(close(50));
    show_flags("dup3", 51);
    CHECK(MUST(fcntl(51, F_DUPFD_CLOEXEC, 60)) == 60);
    MUST(close(51));
    show_flags("F_DUPFD_CLOEXEC", 60);
    CHECK(MUST(fcntl(60, F_DUPFD, 700)) == 700);
    MUST(close(60));
    show_flags("F_DUPFD", 700);
    outcome("the first number", write(fd, "x", 1));
    MUST(dup2(700, 700)); /* a no-op that must stay one */
    show_flags("dup2 onto itself", 700);
    MUST(close(700));
}

static void alias(int fd) {
    int other = MUST(dup(fd));
    for (int i = 0; i < 200; i++) {
        char out[64], in[64];
        fill(out, sizeof out, (uint64_t)i);
        write_all(i % 2 ? fd : other, out, sizeof out);
        read_exact(i % 3 ? fd : other, in, sizeof in);
        CHECK(memcmp(out, in, sizeof in) == 0);
    }
    set_nonblocking(other, true); /* belongs to the connection, so fd sees it too */
    char byte;
    outcome("recv on the other number", recv(fd, &byte, 1, 0));
    set_nonblocking(fd, false);
    MUST(close(fd));
    some_exchanges(other);
    MUST(close(other));
}

static void onto(int fd, int second) {
    some_exchanges(second);
    CHECK(MUST(dup2(fd, second)) == second);
    await_mark("second-ended");
    some_exchanges(second);
    MUST(close(fd));
    some_exchanges(second);
    MUST(close(second));
}

static void reuse(int fd, int second) {
    char path[512], text[32] = {0};
    path_beside(path, sizeof path, "reuse");
    MUST(close(fd));
    int file = MUST(open(path, O_RDWR | O_CREAT, 0600));
    CHECK(file == fd);
    write_all(fd, "into the file", 13);
    CHECK(pread(fd, text, sizeof text, 0) == 13);
    say("read back: %s", text);
    MUST(close(fd));
    CHECK(MUST(dup2(second, fd)) == fd);
    MUST(close(second));
    some_exchanges(fd);
    MUST(close(fd));
}

static void range(int fd, int second) {
    for (int i = 0; i < 4; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            if (i % 2)
                closefrom(3);
            else
                MUST(close_range(3, ~0u, 0));
            _exit(0);
        }
        some_exchanges(fd);
        join_child(child);
        some_exchanges(second);
    }
    MUST(close_range((unsigned)second, (unsigned)second, 0));
    await_mark("second-ended");
    some_exchanges(fd);
    MUST(close(fd));
}

void server(void) {
    int listener = listen_here();
    int fd = accepted(listener);
    if (mode_is("chain")) {
        chain(fd);
    } else if (mode_is("alias")) {
        alias(fd);
    } else {
        int second = accepted(listener);
        if (mode_is("onto"))
            onto(fd, second);
        else if (mode_is("reuse"))
            reuse(fd, second);
        else
            range(fd, second);
    }
    say("%s: done", program_argv[3]);
}

static void *echo_second(void *fd) {
    echo_until_eof(*(int *)fd);
    mark("second-ended", 1);
    return NULL;
}

void client(void) {
    int fd = connected(), second = -1;
    pthread_t thread;
    bool two = !mode_is("chain") && !mode_is("alias");
    if (two) {
        second = connected();
        thread = start_thread(echo_second, &second);
    }
    echo_until_eof(fd);
    if (two)
        pthread_join(thread, NULL);
    say("every connection saw EOF");
}
