/*
 * A connection is over in both directions, so that the kernel has forgotten it, and the server has not read its last bytes
 * yet. The client makes as many further connections as an arena has slots: each end reads what was sent to it. Its files
 * must not be long, so an arena has 1024.
 */
#include "common.h"

#include <sys/resource.h>

#define MANY 1024
#define TURNS 16

static int fds[MANY];

static void many_descriptors(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = MANY + 512;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void answer(int fd) {
    char piece[WARM_BYTES];
    for (int i = 0; i < TURNS; i++) {
        read_exact(fd, piece, sizeof piece);
        write_all(fd, piece, sizeof piece);
    }
}

static void ask_turns(int fd) {
    for (int i = 0; i < TURNS; i++)
        exchange(fd, WARM_BYTES, (uint64_t)i);
}

static void say_what_comes(const char *who, int fd) {
    char text[8] = "";
    size_t size = 0;
    for (ssize_t n; size < 4 && (n = recv(fd, text + size, 4 - size, 0)) > 0;)
        size += (size_t)n;
    say("%s: '%s'", who, text);
}

void server(void) {
    many_descriptors();
    int listener = listen_here();
    int first = MUST(accept(listener, NULL, NULL));
    answer(first);
    MUST(shutdown(first, SHUT_WR));
    for (int i = 0; i < MANY; i++) {
        fds[i] = MUST(accept(listener, NULL, NULL));
        answer(fds[i]);
    }
    await_mark("spoken");
    say_what_comes("the first", first);
    for (int i = MANY - 3; i < MANY; i++)
        say_what_comes("a late one", fds[i]);
}

void client(void) {
    struct rlimit longest = {1u << 30, 1u << 30};
    MUST(setrlimit(RLIMIT_FSIZE, &longest));
    many_descriptors();
    int first = connect_there();
    no_delay(first);
    ask_turns(first);
    char byte;
    say("the end: %zd", read(first, &byte, 1));
    write_all(first, "AAAA", 4);
    close(first);
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_there();
        no_delay(fds[i]);
        ask_turns(fds[i]);
    }
    for (int i = 0; i < MANY; i++)
        write_all(fds[i], "BBBB", 4);
    mark("spoken", 1);
    for (int i = MANY - 3; i < MANY; i++)
        shutdown(fds[i], SHUT_WR);
    say("spoken");
    while (read(fds[0], &byte, 1) > 0)
        ;
}
