/*
 * A child of vfork has descriptors of its own and its parent's memory. What it does with the number of a connection of its
 * parent's is nobody else's business when it executes something.
 *   closed    it closes the number; the helper has started a program, and not read what was sent before that
 *   replaced  it has a socket of another kind at the number, and the helper has not read either
 *   another   it has another connection of its parent's at the number
 */
#include "common.h"

static int second;

static void become_true(void) {
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
}

static void run(int fd, int instead) {
    pid_t child = vfork();
    if (child == 0) {
        if (instead < 0)
            close(fd);
        else
            dup2(instead, fd);
        fcntl(fd, F_SETFD, 0);
        become_true();
    }
    join_child(child);
}

static void say_what_came(int fd) {
    char bytes[200];
    outcome("what the child's file got", recv(fd, bytes, sizeof bytes, MSG_DONTWAIT));
}

void tester(int fd) {
    char bytes[100];
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    exchange(fd, 100, 1);
    fill(bytes, sizeof bytes, 2);
    write_all(fd, bytes, sizeof bytes);
    mark("sent", 1);
    if (mode_is("closed"))
        await_mark("started");
    run(fd, mode_is("closed") ? -1 : mode_is("another") ? second : pair[1]);
    say_what_came(pair[0]);
    mark("executed", 1);
    read_exact(fd, bytes, sizeof bytes); /* it comes back */
    for (int i = 0; i < 50; i++)
        exchange(fd, 100, (uint64_t)i);
    MUST(shutdown(fd, SHUT_WR));
    say("all came");
}

void helper(int fd) {
    char bytes[100];
    read_exact(fd, bytes, sizeof bytes);
    write_all(fd, bytes, sizeof bytes);
    await_mark("sent");
    if (mode_is("closed")) {
        CHECK(system("true") == 0);
        mark("started", 1);
    }
    await_mark("executed");
    echo_until_eof(fd);
}

/* The second connection, where there is one, is from the same side to the same side. */
static void with_another(int fd, int other) {
    second = other;
    const char *swap = getenv("COMPAT_SWAP");
    if (is_client == (swap && *swap == '1')) {
        exchange(second, 100, 9);
        tester(fd);
        exchange(second, 100, 10);
        MUST(shutdown(second, SHUT_WR));
    } else {
        char bytes[100];
        read_exact(second, bytes, sizeof bytes);
        write_all(second, bytes, sizeof bytes);
        helper(fd);
        echo_until_eof(second);
    }
}

void server(void) {
    int listener = listen_here(), fd = accepted(listener);
    with_another(fd, accepted(listener));
}

void client(void) {
    int fd = connected();
    with_another(fd, connected());
}
