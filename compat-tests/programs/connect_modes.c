/*
 * Ways to connect, and to fail. Modes: nonblocking, refused, nonblocking_refused, reconnect (AF_UNSPEC and
 * again on the same socket), twice (EISCONN), late (a connect that waited is asked for again when the connection was used).
 */
#include "common.h"

static int so_error(int fd) {
    int error = -1;
    socklen_t length = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    return error;
}

void server(void) {
    int listener = listen_here();
    if (mode_is("refused") || mode_is("nonblocking_refused")) {
        await_mark("done");
        return;
    }
    for (int i = 0; i < (mode_is("reconnect") ? 3 : 1); i++) {
        int fd = accepted(listener);
        echo_until_eof(fd);
        close(fd);
        say("connection %d ended", i);
    }
}

static void nonblocking(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int started = connect(fd, (void *)&address, length);
    CHECK(started == 0 || errno == EINPROGRESS);
    struct pollfd entry = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(MUST(poll(&entry, 1, 5000)) == 1);
    say("writable: %s, so_error %d", entry.revents == POLLOUT ? "yes" : "no", so_error(fd));
    warm_up(fd);
    char byte;
    outcome("recv with nothing there", recv(fd, &byte, 1, 0));
    for (int i = 0; i < 100; i++)
        exchange(fd, 1000, (uint64_t)i);
    close(fd);
}

static void refused(bool blocking) {
    /* Bound but not listening: nobody else can get the port, and nobody answers there. */
    int holder = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    MUST(bind(holder, (void *)&address, length));
    MUST(getsockname(holder, (void *)&address, &length));
    int fd = MUST(socket(AF_INET, SOCK_STREAM | (blocking ? 0 : SOCK_NONBLOCK), 0));
    int result = connect(fd, (void *)&address, length);
    if (blocking) {
        outcome("connect", result);
    } else {
        CHECK(result < 0 && (errno == EINPROGRESS || errno == ECONNREFUSED));
        struct pollfd entry = {.fd = fd, .events = POLLOUT};
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
        say("events: out %d err %d hup %d", !!(entry.revents & POLLOUT), !!(entry.revents & POLLERR),
            !!(entry.revents & POLLHUP));
        int error = so_error(fd);
        say("so_error: %s", strerrorname_np(error));
    }
    say("so_error afterwards: %d", so_error(fd));
    outcome("send", send(fd, "x", 1, MSG_NOSIGNAL));
    close(fd);
    close(holder);
    mark("done", 1);
}

static void show_options(int fd) {
    int delay = -1, cork = -1;
    unsigned long rate = 0;
    struct linger linger;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &delay, &(socklen_t){sizeof delay}));
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, &(socklen_t){sizeof cork}));
    MUST(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &(socklen_t){sizeof rate}));
    MUST(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &(socklen_t){sizeof linger}));
    say("no delay %d, cork %d, rate %lx, linger %d", delay, cork, rate, linger.l_onoff);
}

static void reconnect(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    for (int i = 0; i < 3; i++) {
        MUST(connect(fd, (void *)&address, length));
        warm_up(fd);
        for (int k = 0; k < 50; k++)
            exchange(fd, 100, (uint64_t)(i * 50 + k));
        /* Without the shutdown AF_UNSPEC would reset the peer instead of ending it. */
        char byte;
        MUST(shutdown(fd, SHUT_WR));
        CHECK(read(fd, &byte, 1) == 0);
        struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
        outcome("disconnect", connect(fd, &nowhere, sizeof nowhere));
        outcome("getpeername", getpeername(fd, (void *)&(struct sockaddr_storage){0}, &(socklen_t){128}));
        show_options(fd);
        /* What the next connection has from its beginning. */
        MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){i == 0}, sizeof(int)));
    }
    close(fd);
}

static void twice(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = connected();
    outcome("connect again", connect(fd, (void *)&address, length));
    exchange(fd, 1000, 1);
    close(fd);
}

static void late(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int started = connect(fd, (void *)&address, length);
    CHECK(started == 0 || errno == EINPROGRESS);
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    CHECK(MUST(poll(&entry, 1, 5000)) == 1);
    MUST(fcntl(fd, F_SETFL, 0));
    warm_up(fd);
    char sent[100], got[100];
    fill(sent, sizeof sent, 7);
    write_all(fd, sent, sizeof sent);
    entry.events = POLLIN;
    for (int there = 0; there < (int)sizeof sent;) {
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
        MUST(ioctl(fd, FIONREAD, &there));
    }
    /* Once it says so, and from then on that it is one. */
    outcome("connect again", connect(fd, (void *)&address, length));
    outcome("connect once more", connect(fd, (void *)&address, length));
    read_exact(fd, got, sizeof got);
    CHECK(memcmp(sent, got, sizeof sent) == 0);
    for (int i = 0; i < 100; i++)
        exchange(fd, 1000, (uint64_t)i);
    close(fd);
}

void client(void) {
    if (mode_is("nonblocking"))
        nonblocking();
    else if (mode_is("late"))
        late();
    else if (mode_is("reconnect"))
        reconnect();
    else if (mode_is("twice"))
        twice();
    else
        refused(mode_is("refused"));
}
