/*
 * A client leaves its channel with much unread, and reads nothing for a while. The server has one thread, goes on sending
 * to it as far as that goes, and serves another connection meanwhile. What the client does costs the server no process (it
 * would be the server's child) and no sleep (the kernel counts them), and nothing is lost when the client reads on.
 *   stdio    the client gives the connection to fdopen
 *   signals  it asks for signals
 *   stranger it passes it to a program that was started before, without the shim
 *   inherit  a child executes such a program, with the connection's number, and the client keeps it, too
 *   answer   the same, and the server has nothing more to send, and waits for an answer
 *   close    as stdio, and the server closes at once
 * Arguments: bytes; 1: the client reads on after the mark "looked", so that somebody outside can see who is there.
 */
#include "common.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#define ROUNDS 20

static size_t bytes(void) { return (size_t)argument(0, 120000); }

static size_t whole(void) { return bytes() + (mode_is("answer") ? 0 : 3); }

static uint64_t expected(void) {
    char *all = malloc(bytes());
    fill(all, bytes(), 9);
    uint64_t sum = checksum(checksum(SUM_START, all, bytes()), "END", whole() - bytes());
    free(all);
    return sum;
}

static long sleeps(void) {
    struct rusage usage;
    MUST(getrusage(RUSAGE_THREAD, &usage));
    return usage.ru_nvcsw;
}

void server(void) {
    MUST(prctl(PR_SET_CHILD_SUBREAPER, 1));
    int listener = listen_here(), fd = accepted(listener), other = accepted(listener);
    small_buffer(fd, SO_SNDBUF);
    await_mark("small");
    char *all = malloc(bytes() + 3);
    fill(all, bytes(), 9);
    memcpy(all + bytes(), "END", 3);
    size_t n = write_some(fd, all, bytes());
    bool ringed = n == bytes();
    mark("sent", ringed);
    await_mark("left");
    long before = sleeps();
    ssize_t k = n < whole() ? send(fd, all + n, whole() - n, MSG_DONTWAIT) : 0;
    n += k > 0 ? (size_t)k : 0;
    bool closed = mode_is("close") && n == whole();
    if (closed)
        MUST(close(fd));
    for (int i = 0; i < ROUNDS; i++) {
        if (!closed && n < whole()) {
            k = send(fd, all + n, whole() - n, MSG_DONTWAIT);
            CHECK(k > 0 || errno == EAGAIN);
            n += k > 0 ? (size_t)k : 0;
        }
        struct pollfd none = {fd, POLLIN, 0};
        CHECK(closed || poll(&none, 1, 0) == 0);
    }
    CHECK(sleeps() == before);
    for (int i = 0; i < ROUNDS; i++) {
        char asked[100];
        read_exact(other, asked, sizeof asked);
        write_all(other, asked, sizeof asked);
    }
    if (!closed) {
        write_all(fd, all + n, whole() - n);
        char byte;
        if (mode_is("answer"))
            CHECK(read(fd, &byte, 1) == 1 && byte == 'y');
        MUST(shutdown(fd, SHUT_WR));
        outcome("at the end", read(fd, &byte, 1));
        MUST(close(fd));
    } else {
        say("at the end: 0");
    }
    CHECK(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD);
    say("no process");
    free(all);
}

void other_role(const char *role) {
    alarm(25);
    int fd = strncmp(role, "fd", 2) == 0 ? atoi(role + 2) : take_descriptor(0);
    if (fd > 2 && role[0] == 'f')
        mark("left", 1);
    await_mark("read");
    uint64_t sum = SUM_START, n = 0;
    char some[5000];
    while (n < whole()) {
        ssize_t got = MUST(read(fd, some, sizeof some));
        CHECK(got > 0);
        sum = checksum(sum, some, (size_t)got);
        n += (uint64_t)got;
    }
    if (mode_is("answer"))
        CHECK(write(fd, "y", 1) == 1);
    CHECK(read(fd, some, 1) == 0);
    say("%llu bytes, %s", (unsigned long long)n, sum == expected() ? "as sent" : "NOT as sent");
}

static void become(char *role) {
    unsetenv("LD_PRELOAD");
    char *arguments[] = {program_argv[0], role, program_argv[2], program_argv[3], program_argv[4], NULL};
    execv("/proc/self/exe", arguments);
    CHECK(!"exec");
}

static pid_t start_taker(int door[2]) {
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, door));
    pid_t child = MUST(fork());
    if (child > 0)
        return child;
    MUST(dup2(door[1], 0));
    become("taker");
    return -1;
}

void client(void) {
    int door[2];
    pid_t taker = mode_is("stranger") ? start_taker(door) : 0;
    signal(SIGIO, SIG_IGN);
    int fd = connected(), other = connected();
    small_buffer(fd, SO_RCVBUF);
    mark("small", 1);
    await_mark("sent");
    FILE *f = NULL;
    if (mode_is("inherit") || mode_is("answer")) {
        taker = MUST(fork());
        if (taker == 0) {
            char role[16];
            snprintf(role, sizeof role, "fd%d", fd);
            MUST(fcntl(fd, F_SETFD, 0));
            become(role);
        }
        await_mark("left");
    } else if (mode_is("stranger")) {
        send_with(door[0], "f", 1, &fd, 1);
        MUST(close(fd));
    } else if (mode_is("signals")) {
        MUST(fcntl(fd, F_SETFL, MUST(fcntl(fd, F_GETFL)) | O_ASYNC));
    } else {
        f = fdopen(fd, "r");
        CHECK(f);
    }
    if (!is_marked("left"))
        mark("left", 1);
    for (int i = 0; i < ROUNDS; i++)
        exchange(other, 100, (uint64_t)i);
    if (argument(1, 0))
        await_mark("looked");
    mark("read", 1);
    if (taker) {
        join_child(taker);
        return;
    }
    uint64_t sum = SUM_START;
    uint64_t n = f ? stream_to_eof(f, &sum) : read_to_eof(fd, &sum);
    say("%llu bytes, %s", (unsigned long long)n, sum == expected() ? "as sent" : "NOT as sent");
    if (f)
        fclose(f);
}
