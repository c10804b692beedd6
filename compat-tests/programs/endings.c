/*
 * How a connection can end badly, and what the other side is told.
 *   linger            the helper closes with SO_LINGER 0
 *   unread            the helper closes with bytes it has not read; the tester reads next
 *   unread_write      the same; the tester writes next
 *   answer_then_reset the helper has answered before closing with unread bytes: the answer still arrives
 *   epipe             the helper has closed cleanly; the tester goes on writing (MSG_NOSIGNAL)
 *   sigpipe           the same with write() and a handler for SIGPIPE
 *   killed            the helper dies by SIGKILL after writing a lot: all of it still arrives
 *   exits             the helper ends without close
 */
#include "common.h"

#define ANSWER 300000

static volatile sig_atomic_t pipe_signals;

static void count_signal(int number) {
    (void)number;
    pipe_signals++;
}

static void send_answer(int fd, size_t length) {
    static char data[ANSWER];
    fill(data, length, 8);
    write_all(fd, data, length);
}

/* Runs the end in a child, so that this process can still say that all went well. */
static void end_in_child(int fd) {
    pid_t child = MUST(fork());
    if (child == 0) {
        char byte;
        send_answer(fd, ANSWER);
        read_exact(fd, &byte, 1); /* the tester knows that we are about to go */
        if (mode_is("killed"))
            raise(SIGKILL);
        _exit(0);
    }
    MUST(close(fd));
    int status;
    MUST(waitpid(child, &status, 0));
    say("child: signal %d, status %d", WTERMSIG(status), WEXITSTATUS(status));
    mark("helper-closed", 1);
}

void helper(int fd) {
    char byte;
    if (mode_is("killed") || mode_is("exits")) {
        end_in_child(fd);
        return;
    }
    read_exact(fd, &byte, 1);
    if (mode_is("linger")) {
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    } else if (mode_is("answer_then_reset")) {
        send_answer(fd, 5000);
    }
    if (mode_is("unread") || mode_is("unread_write") || mode_is("answer_then_reset")) {
        /* Wait until there is something to leave unread. */
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
    }
    MUST(close(fd));
    mark("helper-closed", 1);
}

static void write_until_error(int fd) {
    ssize_t n;
    int tries = 0;
    do {
        n = mode_is("sigpipe") ? write(fd, "more", 4) : send(fd, "more", 4, MSG_NOSIGNAL);
        sleep_ms(1);
    } while (n > 0 && ++tries < 1000);
    outcome("writing on", n);
    outcome("and again", mode_is("sigpipe") ? write(fd, "more", 4) : send(fd, "more", 4, MSG_NOSIGNAL));
    say("SIGPIPE: %d", (int)pipe_signals);
}

static void read_answer(int fd, size_t length) {
    static char want[ANSWER], got[ANSWER];
    fill(want, length, 8);
    read_exact(fd, got, length);
    say("answer of %zu bytes: %s", length, memcmp(want, got, length) == 0 ? "same" : "DIFFERENT");
}

void tester(int fd) {
    char byte;
    struct sigaction action = {.sa_handler = count_signal};
    MUST(sigaction(SIGPIPE, &action, NULL));
    if (mode_is("killed") || mode_is("exits")) {
        write_all(fd, "k", 1);
        await_mark("helper-closed");
        read_answer(fd, ANSWER);
        outcome("then", recv(fd, &byte, 1, 0));
        return;
    }
    bool leaves_unread = !mode_is("linger") && !mode_is("epipe") && !mode_is("sigpipe");
    write_all(fd, "go and more", leaves_unread ? 11 : 1);
    await_mark("helper-closed");
    if (mode_is("epipe") || mode_is("sigpipe")) {
        outcome("clean end", recv(fd, &byte, 1, 0));
        write_until_error(fd);
        return;
    }
    if (mode_is("answer_then_reset"))
        read_answer(fd, 5000);
    if (mode_is("unread_write")) {
        outcome("send", send(fd, "x", 1, MSG_NOSIGNAL));
    } else {
        struct pollfd entry = {.fd = fd, .events = POLLIN | POLLOUT};
        MUST(poll(&entry, 1, 5000));
        say("events: in %d out %d err %d hup %d", !!(entry.revents & POLLIN), !!(entry.revents & POLLOUT),
            !!(entry.revents & POLLERR), !!(entry.revents & POLLHUP));
        outcome("recv", recv(fd, &byte, 1, 0));
    }
    outcome("recv again", recv(fd, &byte, 1, 0));
    outcome("send again", send(fd, "x", 1, MSG_NOSIGNAL));
}
