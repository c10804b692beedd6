// Operations that make, copy, set and close descriptors.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "interp.h"

static void say_done(struct line *line, long result) {
    if (result >= 0)
        say(line, "ok");
    else
        say_result(line, result);
}

static void do_listen(struct line *line) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (fd < 0 || bind(fd, (void *)&address, length) || listen(fd, 64) ||
        getsockname(fd, (void *)&address, &length))
        _exit(94);
    bind_name("listener", fd, NULL);
    say(line, "%d", ntohs(address.sin_port));
}

// Nagle's algorithm would make arrival a matter of time.
static void at_once(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// connect NAME PORT [SET EVENTS DATA]
static void do_connect(struct line *line) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)number(line, 2, 0)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    // A program may register a socket before it connects it.
    long result = watch(line, 3, fd) || connect(fd, (void *)&address, sizeof address) ? -1 : 0;
    say_done(line, result);
    at_once(fd);
    bind_name(word(line, 1), fd, new_stream(word(line, 1)));
}

static void do_accept(struct line *line) {
    int fd = accept4(fd_of("listener"), NULL, NULL, SOCK_CLOEXEC);
    say_done(line, fd);
    at_once(fd);
    bind_name(word(line, 1), fd, new_stream(word(line, 1)));
}

// dup OLD NEW; dup2 and dup3 put it where NEW is
static void duplicate(struct line *line) {
    struct name *old = find(word(line, 1));
    if (!old) return say(line, "unnamed");
    struct stream *stream = old->stream;
    int there = fd_of(word(line, 2)), fd;
    if (!strcmp(word(line, 0), "dup") || there < 0)
        fd = !strcmp(word(line, 3), "cloexec") ? fcntl(old->fd, F_DUPFD_CLOEXEC, 3) : dup(old->fd);
    else if (!strcmp(word(line, 0), "dup2"))
        fd = dup2(old->fd, there);
    else
        fd = dup3(old->fd, there, O_CLOEXEC);
    say_done(line, fd);
    if (fd >= 0) bind_name(word(line, 2), fd, stream);
}

static void make_pipe(struct line *line) {
    int ends[2];
    say_done(line, pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    bind_name(word(line, 1), ends[0], NULL);
    bind_name(word(line, 2), ends[1], NULL);
}

static long set_nonblocking(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? flags : fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static void socket_error(struct line *line) {
    int error = 0;
    socklen_t length = sizeof error;
    long result = getsockopt(fd_of(word(line, 1)), SOL_SOCKET, SO_ERROR, &error, &length);
    if (result < 0) return say_result(line, result);
    const char *text = error ? strerrorname_np(error) : "none";
    say(line, "%s", text ? text : "E?");
}

// getopt NAME OPTION: what the program is told of one that it may have set
static const struct {
    const char *text;
    int level, name;
} options[] = {
    {"nodelay", IPPROTO_TCP, TCP_NODELAY}, {"cork", IPPROTO_TCP, TCP_CORK},   {"lowat", SOL_SOCKET, SO_RCVLOWAT},
    {"peekoff", SOL_SOCKET, SO_PEEK_OFF},  {"linger", SOL_SOCKET, SO_LINGER}, {"inline", SOL_SOCKET, SO_OOBINLINE},
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE}, {"quickack", IPPROTO_TCP, TCP_QUICKACK}, {"type", SOL_SOCKET, SO_TYPE},
    {"protocol", SOL_SOCKET, SO_PROTOCOL}, {"accepts", SOL_SOCKET, SO_ACCEPTCONN}, {"busypoll", SOL_SOCKET, SO_BUSY_POLL},
    {"usertime", IPPROTO_TCP, TCP_USER_TIMEOUT}, {"inq", IPPROTO_TCP, TCP_INQ}, {"stamp", SOL_SOCKET, SO_TIMESTAMP},
    {"zerocopy", SOL_SOCKET, SO_ZEROCOPY}, {"sndbuf", SOL_SOCKET, SO_SNDBUF}, {"rcvbuf", SOL_SOCKET, SO_RCVBUF},
    {"notsent", IPPROTO_TCP, TCP_NOTSENT_LOWAT},
};

static void option(struct line *line, int set) {
    int value = (int)number(line, 3, 0);
    socklen_t length = sizeof value;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(options[i].text, word(line, 2))) continue;
        int fd = fd_of(word(line, 1));
        long result = set ? setsockopt(fd, options[i].level, options[i].name, &value, length)
                          : getsockopt(fd, options[i].level, options[i].name, &value, &length);
        if (result < 0) return say_result(line, result);
        return say(line, "%d", set ? 0 : value);
    }
    say(line, "unknown");
}

// timeo NAME rcv|snd MS
static void time_limit(struct line *line) {
    long limit = number(line, 3, 0);
    struct timeval time = {limit / 1000, limit % 1000 * 1000};
    int name = !strcmp(word(line, 2), "rcv") ? SO_RCVTIMEO : SO_SNDTIMEO;
    say_done(line, setsockopt(fd_of(word(line, 1)), SOL_SOCKET, name, &time, sizeof time));
}

// tcp NAME: bytes that came over TCP; where a channel is, they are few. Not compared.
static void over_tcp(struct line *line) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    getsockopt(fd_of(word(line, 1)), IPPROTO_TCP, TCP_INFO, &info, &length);
    say(line, "%llu", (unsigned long long)info.tcpi_bytes_received);
}

// TCP_FIN_WAIT1; netinet/tcp.h, which has it, and linux/tcp.h do not go together.
enum { FIN_WAIT1 = 4 };

// shutdown NAME RD|WR|RDWR: the other end acknowledges a FIN up to 40 ms later, which is an edge of its own for whoever
// waits here. So that this is no race, it is waited for, but for threads, whose time limits would be over; with bytes before
// it for which there is no room, it does not come.
static void shut_down(struct line *line, int fd) {
    const char *how = word(line, 2);
    say_done(line, shutdown(fd, !strcmp(how, "RD") ? SHUT_RD : !strcmp(how, "WR") ? SHUT_WR : SHUT_RDWR));
    for (int waited = 0; waited < 120 && !is_threaded(); waited++) {
        struct tcp_info info = {0};
        socklen_t length = sizeof info;
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || info.tcpi_state != FIN_WAIT1) return;
        usleep(500);
    }
}

int run_descriptor(struct line *line) {
    const char *what = word(line, 0);
    int fd = fd_of(word(line, 1));
    if (!strcmp(what, "listen")) return do_listen(line), 1;
    if (!strcmp(what, "connect")) return do_connect(line), 1;
    if (!strcmp(what, "accept")) return do_accept(line), 1;
    if (!strncmp(what, "dup", 3)) return duplicate(line), 1;
    if (!strcmp(what, "pipe")) return make_pipe(line), 1;
    if (!strcmp(what, "soerror")) return socket_error(line), 1;
    if (!strcmp(what, "tcp")) return over_tcp(line), 1;
    if (!strcmp(what, "getopt")) return option(line, 0), 1;
    if (!strcmp(what, "setopt")) return option(line, 1), 1;
    if (!strcmp(what, "timeo")) return time_limit(line), 1;
    if (!strcmp(what, "atmark")) {
        int value = 0;
        long result = ioctl(fd, SIOCATMARK, &value);
        return say_result(line, result < 0 ? result : value), 1;
    }
    if (!strcmp(what, "again")) {
        struct sockaddr_in address;
        socklen_t length = sizeof address;
        if (getpeername(fd, (void *)&address, &length)) return say_result(line, -1), 1;
        return say_done(line, connect(fd, (void *)&address, length)), 1;
    }
    if (!strcmp(what, "closerange")) return say_done(line, close_range((unsigned)fd, (unsigned)fd, 0)), 1;
    if (!strcmp(what, "close")) return say_done(line, close(fd)), 1;
    if (!strcmp(what, "nonblock")) return say_done(line, set_nonblocking(fd, (int)number(line, 2, 1))), 1;
    if (!strcmp(what, "eventfd")) {
        int made = eventfd((unsigned)number(line, 2, 1), EFD_NONBLOCK | EFD_CLOEXEC);
        bind_name(word(line, 1), made, NULL);
        return say_done(line, made), 1;
    }
    if (!strcmp(what, "evwrite")) return say_done(line, eventfd_write(fd, 1)), 1;
    if (!strcmp(what, "evread")) {
        eventfd_t value;
        return say_done(line, eventfd_read(fd, &value)), 1;
    }
    if (!strcmp(what, "shutdown")) return shut_down(line, fd), 1;
    if (!strcmp(what, "linger")) {
        struct linger linger = {1, (int)number(line, 2, 0)};
        return say_done(line, setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger)), 1;
    }
    if (!strcmp(what, "lowat")) {
        int value = (int)number(line, 2, 1);
        return say_done(line, setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value)), 1;
    }
    if (!strcmp(what, "fionread")) {
        int value = 0;
        long result = ioctl(fd, FIONREAD, &value);
        return say_result(line, result < 0 ? result : value), 1;
    }
    return 0;
}
