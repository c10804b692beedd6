/* SO_RCVTIMEO and SO_SNDTIMEO. Modes: receive, trickle, send. */
#include "common.h"

static void set_timeout(int fd, int option, int milliseconds) {
    struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
    MUST(setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit));
}

static void receive(int fd) {
    char buffer[100];
    set_timeout(fd, SO_RCVTIMEO, 100);
    for (int i = 0; i < 3; i++) {
        uint64_t start = now_ms();
        ssize_t n = i == 0 ? recv(fd, buffer, sizeof buffer, 0)
                    : i == 1 ? read(fd, buffer, sizeof buffer)
                             : recv(fd, buffer, 1, MSG_PEEK);
        outcome("nothing came", n);
        say("waited: %s", now_ms() - start >= 90 ? "yes" : "no");
    }
    set_timeout(fd, SO_RCVTIMEO, 1300);
    uint64_t start = now_ms();
    outcome("nothing came for longer", recv(fd, buffer, sizeof buffer, 0));
    say("waited: %s", now_ms() - start >= 1290 ? "yes" : "no");
    set_timeout(fd, SO_RCVTIMEO, 5000);
    ask_later(fd, 10, 50);
    outcome("came in time", recv(fd, buffer, 10, MSG_WAITALL));
    set_timeout(fd, SO_RCVTIMEO, 150);
    ask(fd, 10);
    for (int waiting = 0; waiting < 10;)
        MUST(ioctl(fd, FIONREAD, &waiting));
    outcome("waitall of 20, 10 came", recv(fd, buffer, 20, MSG_WAITALL));
    set_timeout(fd, SO_RCVTIMEO, 0);
    ask_later(fd, 7, 200);
    outcome("no limit", recv(fd, buffer, 7, MSG_WAITALL));
}

enum { DROPS = 40 };

/* The limit is the whole call's, however many bytes come one by one meanwhile. */
static void wait_for_drops(int fd) {
    char buffer[DROPS];
    set_timeout(fd, SO_RCVTIMEO, 500);
    for (int i = 0; i < DROPS; i++)
        ask_later(fd, 1, 50);
    for (int peek = 1; peek >= 0; peek--) {
        ssize_t n = recv(fd, buffer, DROPS, MSG_WAITALL | (peek ? MSG_PEEK : 0));
        say("%s: %s", peek ? "peek" : "recv", n > 0 && n < DROPS ? "a part" : "all, or nothing");
        if (!peek && n > 0 && n < DROPS)
            read_exact(fd, buffer, DROPS - (size_t)n);
    }
}

static void drain_when_full(int fd) {
    uint64_t sum = SUM_START;
    uint64_t sent = await_mark("full");
    uint64_t total = read_to_eof(fd, &sum);
    say("all arrived: %s", total == sent ? "yes" : "no");
}

static void send_until_timeout(int fd) {
    static char block[65536];
    uint64_t sent = 0;
    set_timeout(fd, SO_SNDTIMEO, 200);
    ssize_t n;
    uint64_t start = now_ms();
    for (; (n = send(fd, block, sizeof block, 0)) > 0; start = now_ms())
        sent += (uint64_t)n;
    outcome("send to someone who does not read", n);
    say("waited: %s; more than 64 KiB went first: %s", now_ms() - start >= 180 ? "yes" : "no",
        sent > 65536 ? "yes" : "no");
    set_timeout(fd, SO_SNDTIMEO, 0);
    mark("full", sent + sizeof block);
    write_all(fd, block, sizeof block);
    MUST(shutdown(fd, SHUT_WR));
    char byte;
    CHECK(read(fd, &byte, 1) == 0);
}

void tester(int fd) {
    if (mode_is("receive"))
        receive(fd);
    else if (mode_is("trickle"))
        wait_for_drops(fd);
    else
        send_until_timeout(fd);
}

void helper(int fd) {
    if (!mode_is("send"))
        serve_asks(fd);
    else
        drain_when_full(fd);
}
