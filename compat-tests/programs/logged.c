/*
 * What a log of the shim's must not touch (tests/endurance/log.rs). Modes:
 *   reused     the program closes descriptor 2 and opens a file of its own, which gets that number; then it waits for the
 *              mark "seen" when it is through
 *   secure     whether it has more rights than its caller, and nothing else
 *   errno      calls that succeed leave errno alone
 *   forks      children of forks, while threads make connections, have no copy of standard error (arguments: threads,
 *              connections of each, forks)
 *   many       threads and children make connections of some exchanges each (arguments: threads, connections of each)
 */
#include "common.h"

#include <sys/auxv.h>

#define EXCHANGES 30

static void echo_here(int listener) {
    int fd = MUST(accept(listener, NULL, NULL));
    echo_until_eof(fd);
    MUST(close(fd));
}

static void one_connection(void) {
    int fd = connect_there();
    no_delay(fd);
    for (uint64_t i = 0; i < EXCHANGES; i++)
        exchange(fd, 1 + i * 5 % 100, i);
    MUST(close(fd));
}

static int own_file(void) {
    char path[4096];
    path_beside(path, sizeof path, is_client ? "client-own" : "server-own");
    MUST(close(2));
    return MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
}

static void *serve(void *listener) {
    long wanted = argument(1, 10);
    for (long i = 0; i < wanted; i++)
        echo_here((int)(intptr_t)listener);
    return NULL;
}

static void *call(void *unused) {
    long wanted = argument(1, 10);
    for (long i = 0; i < wanted; i++)
        one_connection();
    return unused;
}

/* Threads, and as many again in a child. */
static void many(void *(*what)(void *), void *with) {
    pthread_t threads[64];
    long count = argument(0, 4);
    CHECK(count > 0 && count <= 64);
    pid_t child = MUST(fork());
    for (long i = 0; i < count; i++)
        threads[i] = start_thread(what, with);
    for (long i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    if (child == 0)
        _exit(0);
    join_child(child);
}

/* In a child: only descriptor 2 stands for the file that it does. */
static void find_copies(void) {
    struct stat errors, other;
    CHECK(fstat(2, &errors) == 0);
    for (int fd = 3; fd < 4096; fd++) {
        if (fstat(fd, &other) == 0 && other.st_dev == errors.st_dev && other.st_ino == errors.st_ino)
            _exit(1);
    }
    _exit(0);
}

static void fork_meanwhile(void *(*what)(void *), void *with) {
    pthread_t threads[64];
    long count = argument(0, 4), forks = argument(2, 100);
    CHECK(count > 0 && count <= 64);
    for (long i = 0; i < count; i++)
        threads[i] = start_thread(what, with);
    for (long i = 0; i < forks; i++) {
        pid_t child = MUST(fork());
        if (child == 0)
            find_copies();
        join_child(child);
    }
    for (long i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void keep_errno(int fd) {
    char byte = 'x';
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < EXCHANGES; i++) {
        errno = 77;
        if (is_client)
            CHECK(send(fd, &byte, 1, 0) == 1 && errno == 77);
        CHECK(poll(&entry, 1, 10000) == 1 && errno == 77);
        CHECK(recv(fd, &byte, 1, 0) == 1 && errno == 77);
        if (!is_client)
            CHECK(send(fd, &byte, 1, 0) == 1 && errno == 77);
    }
    CHECK(close(fd) == 0 && errno == 77);
}

void server(void) {
    if (mode_is("secure")) {
        say("secure %lu", getauxval(AT_SECURE));
        return;
    }
    int listener = listen_here();
    if (mode_is("many")) {
        many(serve, (void *)(intptr_t)listener);
    } else if (mode_is("forks")) {
        fork_meanwhile(serve, (void *)(intptr_t)listener);
    } else if (mode_is("errno")) {
        keep_errno(MUST(accept(listener, NULL, NULL)));
    } else {
        CHECK(own_file() == 2);
        echo_here(listener);
        CHECK(lseek(2, 0, SEEK_END) == 0);
        mark("server-through", 1);
        await_mark("seen");
    }
    say("fine");
}

void client(void) {
    if (mode_is("many")) {
        many(call, NULL);
    } else if (mode_is("forks")) {
        fork_meanwhile(call, NULL);
    } else if (mode_is("errno")) {
        keep_errno(connect_there());
    } else {
        CHECK(own_file() == 2);
        one_connection();
        CHECK(lseek(2, 0, SEEK_END) == 0);
        mark("client-through", 1);
        await_mark("seen");
    }
    say("fine");
}
