/*
 * Calls that the kernel refuses leave the connection, and what was said of it before, as they were.
 *   close_range, dup3   with flags that do not exist, over the connection
 *   shutdown            a way that does not exist, after one that does
 *   limited             a server that may write no files, since its connection is there, is not killed
 */
#include "common.h"

#include <sys/resource.h>

static void refused(void) {
    int fd = accepted(listen_here());
    signal(SIGPIPE, SIG_IGN);
    if (mode_is("close_range"))
        outcome("close_range", close_range((unsigned)fd, (unsigned)fd, 64));
    else if (mode_is("dup3"))
        outcome("dup3", dup3(1, fd, 0x1234));
    else
        outcome("shutdown", (shutdown(fd, SHUT_WR), shutdown(fd, 99)));
    mark("refused", 1);
    char word[8] = "";
    outcome("write", write(fd, "more", 4));
    outcome("read", recv(fd, word, 4, MSG_WAITALL));
    say("'%s'", word);
    close(fd);
}

static void limited(void) {
    int fd = MUST(accept(listen_here(), NULL, NULL));
    struct rlimit none = {0, 0};
    MUST(setrlimit(RLIMIT_FSIZE, &none));
    /* The transcript may be a file. */
    echo_until_eof(fd);
    _exit(0);
}

void server(void) {
    if (mode_is("limited"))
        limited();
    else
        refused();
}

void client(void) {
    int fd = mode_is("limited") ? connect_there() : connected();
    if (mode_is("limited")) {
        for (int i = 0; i < 300; i++)
            exchange(fd, 64, (uint64_t)i);
        say("answered");
        return;
    }
    await_mark("refused");
    write_all(fd, "ping", 4);
    char word[8] = "";
    outcome("read", recv(fd, word, 4, MSG_WAITALL));
    say("'%s'", word);
    outcome("end", recv(fd, word, 1, 0));
}
