/*
 * What each side sees of the other's end: every row of docs/ENDS.md. The mode is the end:
 *   close          nothing unread, nothing sent
 *   answer         100 bytes sent, then closed
 *   unread         closed with bytes unread; "answer_unread" sends 100 bytes before that
 *   much_unread    the same with 300 000 bytes sent, more than a ring holds
 *   linger         SO_LINGER of nothing
 *   shut_wr, shut_rd, shut_rdwr   and the descriptor stays open
 *   killed, exited a process that has it, by SIGKILL or _exit, after nothing was left unread
 *   killed_unread  the same, with something unread
 * For each, every sequence below is tried on a connection of its own; after each step there is time for the
 * other side to hear of it.
 *   s  send 10 bytes          r  receive up to 100        R  receive up to 1 000 000
 *   p  poll                   e  SO_ERROR                 w  the other end receives, up to 100
 *   n  getpeername            i  the state in TCP_INFO    c  connect again
 *   d  shutdown(SHUT_WR)      u  connect(AF_UNSPEC)
 */
#include "settled.h"

static const char *const SEQUENCES[] = {
    "sss",  "rss",   "srr",  "srs",  "rsr",  "rrr",  "pspsp", "prprp", "ssrr", "ses",
    "sese", "rsesr", "Rrss", "sRrr", "RRR",  "swsw", "wsws",  "spr",   "ere",  "rrse",
    "nrn",  "ini",   "cerc", "ccn",  "dnre", "din",  "rnci",  "encd",  "snci", "uner", "ruie",
};
#define SEQUENCE_COUNT (sizeof SEQUENCES / sizeof *SEQUENCES)

static char data[1000000];
static int control;
static const char *sequence;

static void control_send(char c) { write_all(control, &c, 1); }

static char control_receive(void) {
    char c;
    read_exact(control, &c, 1);
    return c;
}

static bool leaves_unread(void) {
    return mode_is("unread") || mode_is("answer_unread") || mode_is("much_unread") || mode_is("killed_unread");
}

static bool stays_open(void) { return mode_is("shut_wr") || mode_is("shut_rd") || mode_is("shut_rdwr"); }

static void end(int fd) {
    if (mode_is("answer") || mode_is("answer_unread"))
        write_all(fd, data, 100);
    if (mode_is("much_unread")) {
        set_nonblocking(fd, true);
        MUST(send(fd, data, 300000, MSG_NOSIGNAL));
        settle_loopback();
    }
    if (mode_is("linger")) {
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    }
    if (stays_open())
        MUST(shutdown(fd, mode_is("shut_wr") ? SHUT_WR : mode_is("shut_rd") ? SHUT_RD : SHUT_RDWR));
    else if (!mode_is("killed") && !mode_is("killed_unread") && !mode_is("exited"))
        MUST(close(fd));
}

/* FIN_WAIT1 to FIN_WAIT2 is a matter of the other end's delayed acknowledgement. */
static const char *state_name(int state) {
    static const char *const names[] = {"?",    "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT", "FIN_WAIT", "TIME_WAIT",
                                        "CLOSE", "CLOSE_WAIT",  "LAST_ACK", "LISTEN",   "CLOSING"};
    return names[state > 0 && state < 12 ? state : 0];
}

/* The one that ends, on one connection; orders come by the control connection. */
void helper(int fd) {
    CHECK(control_receive() == 'g');
    bool dies = mode_is("killed") || mode_is("killed_unread") || mode_is("exited");
    if (leaves_unread()) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        control_send('u');
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
    }
    if (dies) {
        pid_t child = MUST(fork());
        if (child == 0) {
            char byte;
            CHECK(recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == (leaves_unread() ? 1 : -1));
            if (mode_is("exited"))
                _exit(0);
            raise(SIGKILL);
        }
        MUST(close(fd));
        MUST(waitpid(child, NULL, 0));
    } else {
        end(fd);
    }
    settle_loopback();
    control_send('e');
    for (char order; (order = control_receive()) != '.';) {
        char line[64] = "closed";
        if (stays_open()) {
            ssize_t n = recv(fd, data, 100, MSG_DONTWAIT);
            if (n < 0)
                snprintf(line, sizeof line, "%s", strerrorname_np(errno));
            else
                snprintf(line, sizeof line, "%zd", n);
        }
        write_all(control, line, sizeof line);
    }
    if (stays_open())
        MUST(close(fd));
}

static void show(const char *what, ssize_t result) {
    char line[64];
    snprintf(line, sizeof line, "   %s", what);
    outcome(line, result);
}

void tester(int fd) {
    struct sockaddr_storage peer, name;
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    socklen_t peer_length = sizeof peer;
    say("%s", sequence);
    MUST(getpeername(fd, (void *)&peer, &peer_length));
    control_send('g');
    if (leaves_unread()) {
        CHECK(control_receive() == 'u');
        write_all(fd, "something", 9);
    }
    CHECK(control_receive() == 'e');
    settle_loopback();
    for (const char *at = sequence; *at; at++) {
        struct pollfd entry = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
        char line[64];
        int error = 0;
        socklen_t length = sizeof error;
        switch (*at) {
        case 's':
            show("send", send(fd, "0123456789", 10, MSG_NOSIGNAL | MSG_DONTWAIT));
            break;
        case 'r':
            show("receive", recv(fd, data, 100, MSG_DONTWAIT));
            break;
        case 'R': {
            ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
            /* How much of it arrived before the reset, is the system's affair. */
            show("receive much", mode_is("much_unread") && n > 0 ? 1 : n);
            break;
        }
        case 'p':
            MUST(poll(&entry, 1, 0));
            say("   poll: %s%s%s%s%s", entry.revents & POLLIN ? "in " : "", entry.revents & POLLOUT ? "out " : "",
                entry.revents & POLLRDHUP ? "rdhup " : "", entry.revents & POLLHUP ? "hup " : "",
                entry.revents & POLLERR ? "err" : "");
            break;
        case 'e':
            MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
            say("   SO_ERROR: %s", error ? strerrorname_np(error) : "none");
            break;
        case 'n':
            length = sizeof name;
            show("getpeername", getpeername(fd, (void *)&name, &length));
            break;
        case 'i': {
            struct tcp_info info = {0};
            length = sizeof info;
            MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
            say("   state: %s", state_name(info.tcpi_state));
            break;
        }
        case 'c':
            show("connect", connect(fd, (void *)&peer, peer_length));
            break;
        case 'd':
            show("shutdown", shutdown(fd, SHUT_WR));
            break;
        case 'u':
            show("disconnect", connect(fd, &nobody, sizeof nobody));
            break;
        case 'w':
            control_send('w');
            read_exact(control, line, sizeof line);
            say("   the other end receives: %s", line);
            break;
        }
        settle_loopback();
    }
    control_send('.');
    MUST(close(fd));
}

static void every_sequence(int (*next)(int), int listener) {
    const char *swap = getenv("COMPAT_SWAP");
    bool client_watches = swap && *swap == '1';
    no_delay(control);
    for (size_t i = 0; i < SEQUENCE_COUNT; i++) {
        int fd = next(listener);
        no_delay(fd); /* or a second step would be late */
        sequence = SEQUENCES[i];
        if (is_client == client_watches)
            tester(fd);
        else
            helper(fd);
    }
    close(control);
}

static int another(int unused) {
    (void)unused;
    return connected();
}

void server(void) {
    int listener = listen_here();
    control = accepted(listener);
    every_sequence(accepted, listener);
}

void client(void) {
    control = connected();
    every_sequence(another, -1);
}
