/*
 * Calls on a channel, many of one kind; how often the shim then called the C library, if libcounter.so is loaded
 * behind it, is the value of the mark `counted`.
 *   poll       for a channel and a pipe, until an answer that takes a millisecond, calls of ppoll
 *   sendfile   of more than a page, calls of mmap
 *   select     on more than 64 descriptors, calls of mmap
 */
#include "common.h"

#include <dlfcn.h>
#include <sys/select.h>
#include <sys/sendfile.h>

#define PIECE 5000

static void one_poll(int fd, int other) {
    ask_later(fd, 1, 1);
    struct pollfd both[2] = {{fd, POLLIN, 0}, {other, POLLIN, 0}};
    CHECK(poll(both, 2, -1) == 1 && both[0].revents == POLLIN);
    char byte;
    read_exact(fd, &byte, 1);
}

static void one_sendfile(int fd, int file) {
    off_t at = 0;
    char back[PIECE];
    CHECK(sendfile(fd, file, &at, PIECE) == PIECE);
    read_exact(fd, back, sizeof back);
}

static void one_select(int fd, const fd_set *all, int highest) {
    fd_set some = *all;
    FD_SET(fd, &some);
    write_all(fd, "x", 1);
    CHECK(select(highest + 1, &some, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &some));
    char byte;
    read_exact(fd, &byte, 1);
}

void tester(int fd) {
    int ends[2], highest = fd, file = fileno(tmpfile());
    char zeros[PIECE] = {0};
    fd_set idle;
    FD_ZERO(&idle);
    MUST(pipe(ends));
    CHECK(write(file, zeros, PIECE) == PIECE);
    for (int i = 0; i < 100; i++) {
        int copy = MUST(dup(ends[0]));
        FD_SET(copy, &idle);
        highest = copy > highest ? copy : highest;
    }
    unsigned none = 0, *counter = dlsym(RTLD_DEFAULT, mode_is("poll") ? "counted_ppoll" : "counted_mmap");
    if (!counter)
        counter = &none;
    unsigned before = *counter;
    for (int i = 0; i < argument(0, 1000); i++)
        if (mode_is("poll"))
            one_poll(fd, ends[0]);
        else if (mode_is("sendfile"))
            one_sendfile(fd, file);
        else
            one_select(fd, &idle, highest);
    mark("counted", *counter - before);
    MUST(shutdown(fd, SHUT_WR));
    char byte;
    outcome("at the end", read(fd, &byte, 1));
}

void helper(int fd) {
    if (mode_is("poll"))
        serve_asks(fd);
    else
        echo_until_eof(fd);
}
