// Operations that few programs make: disconnecting, signals for input, odd lists of buffers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "interp.h"

static void say_done(struct line *line, long result) {
    if (result >= 0)
        say(line, "ok");
    else
        say_result(line, result);
}

static struct name named(struct line *line) {
    struct name *name = find(word(line, 1));
    return name ? *name : (struct name){.fd = -1};
}

// preadv2|recvfrom NAME N [nowait|peek|dontwait]
static void odd_receive(struct line *line) {
    struct name name = named(line);
    size_t length = (size_t)number(line, 2, 1);
    const char *how = word(line, 3);
    char *bytes = malloc(length + 1), from[64];
    socklen_t room = sizeof from;
    // A list may have pieces of nothing.
    struct iovec parts[4] = {{NULL, 0}, {bytes, length / 2}, {bytes, 0}, {bytes + length / 2, length - length / 2}};
    int peeks = !strcmp(how, "peek");
    ssize_t n;
    if (!strcmp(word(line, 0), "preadv2"))
        n = preadv2(name.fd, parts, 4, -1, !strcmp(how, "nowait") ? RWF_NOWAIT : !strcmp(how, "hipri") ? RWF_HIPRI : 0);
    else
        n = recvfrom(name.fd, bytes, length, peeks ? MSG_PEEK : !strcmp(how, "dontwait") ? MSG_DONTWAIT : 0, (void *)from, &room);
    say_result(line, n);
    if (n >= 0) say(line, " from %u", room);
    if (n > 0) check(line, name.stream, bytes, (size_t)n, !peeks);
    free(bytes);
}

// pwritev2|sendto NAME N [nowait|dsync|append]
static void odd_send(struct line *line) {
    struct name name = named(line);
    size_t length = (size_t)number(line, 2, 1);
    const char *how = word(line, 3);
    char *bytes = malloc(length + 1);
    fill(name.stream, bytes, length, 0);
    struct iovec parts[4] = {{bytes, length / 2}, {NULL, 0}, {bytes + length / 2, length - length / 2}, {bytes, 0}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int flags = !strcmp(how, "nowait") ? RWF_NOWAIT : !strcmp(how, "dsync") ? RWF_DSYNC : !strcmp(how, "hipri") ? RWF_HIPRI : 0;
    ssize_t n = !strcmp(word(line, 0), "pwritev2") ? pwritev2(name.fd, parts, 4, -1, flags)
                                                   : sendto(name.fd, bytes, length, 0, (void *)&to, sizeof to);
    say_result(line, n);
    if (n > 0 && name.stream) atomic_fetch_add(&name.stream->sent, (uint64_t)n);
    free(bytes);
}

// sendfilefrom NAME N: sendfile(2) out of a socket into a pipe, which Linux has since 5.12
static void file_from_socket(struct line *line) {
    struct name name = named(line);
    int ends[2];
    size_t length = (size_t)number(line, 2, 1);
    char *bytes = malloc(length + 1);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return say(line, "failed");
    ssize_t n = sendfile(ends[1], name.fd, NULL, length);
    say_result(line, n);
    if (n > 0) n = read(ends[0], bytes, (size_t)n);
    if (n > 0) check(line, name.stream, bytes, (size_t)n, 1);
    close(ends[0]);
    close(ends[1]);
    free(bytes);
}

// bad NAME CALL: arguments that no call takes
static void bad_arguments(struct line *line) {
    int fd = named(line).fd;
    const char *call = word(line, 2);
    void *nowhere = (void *)8;
    struct iovec parts[1] = {{nowhere, 10}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
    static struct iovec many[1025];
    char byte;
    long n = -1;
    errno = EINVAL;
    if (!strcmp(call, "recv")) n = recv(fd, nowhere, 10, MSG_DONTWAIT);
    if (!strcmp(call, "send")) n = send(fd, nowhere, 10, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!strcmp(call, "recvmsg")) n = recvmsg(fd, &message, MSG_DONTWAIT);
    if (!strcmp(call, "sendmsg")) n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!strcmp(call, "readv")) n = readv(fd, many, 1025);
    if (!strcmp(call, "writev")) n = writev(fd, many, 1025);
    if (!strcmp(call, "writev0")) n = writev(fd, many, 3);
    if (!strcmp(call, "pread")) n = pread(fd, &byte, 1, 0);
    if (!strcmp(call, "lseek")) n = lseek(fd, 0, SEEK_CUR);
    if (!strcmp(call, "shutdown")) n = shutdown(fd, 7);
    if (!strcmp(call, "fionread")) n = ioctl(fd, FIONREAD, nowhere);
    if (!strcmp(call, "getsockopt")) n = getsockopt(fd, SOL_SOCKET, SO_ERROR, &byte, nowhere);
    if (!strcmp(call, "setsockopt")) n = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, nowhere, 4);
    if (!strcmp(call, "shortopt")) n = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &byte, 1);
    if (!strcmp(call, "dup3")) n = dup3(fd, fd, O_CLOEXEC);
    if (!strcmp(call, "listen")) n = listen(fd, 5);
    if (!strcmp(call, "accept")) n = accept(fd, NULL, NULL);
    say_result(line, n);
}

// unconnect NAME: connect(2) to AF_UNSPEC, which ends the connection by a reset
static void unconnect(struct line *line) {
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    say_done(line, connect(named(line).fd, &none, sizeof none));
}

static void peer(struct line *line) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    say_done(line, getpeername(named(line).fd, (void *)&address, &length));
}

// state NAME: TCP's. Which of the two FIN_WAITs it is depends on when the other side acknowledges.
static void tcp_state(struct line *line) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    long result = getsockopt(named(line).fd, IPPROTO_TCP, TCP_INFO, &info, &length);
    if (result < 0) return say_result(line, result);
    say(line, "%d", info.tcpi_state == 5 ? 4 : info.tcpi_state);
}

static _Atomic int inputs;
static void input(int signal) {
    (void)signal;
    atomic_fetch_add(&inputs, 1);
}

// async NAME 0|1: a signal tells of input
static void ask_for_signals(struct line *line) {
    int fd = named(line).fd;
    struct sigaction action = {.sa_handler = input, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    fcntl(fd, F_SETOWN, getpid());
    fcntl(fd, F_SETSIG, SIGRTMIN);
    int flags = fcntl(fd, F_GETFL);
    say_done(line, flags < 0 ? flags : fcntl(fd, F_SETFL, number(line, 2, 1) ? flags | O_ASYNC : flags & ~O_ASYNC));
}

// told: whether a signal has come since the last time
static void told(struct line *line) {
    for (int waited = 0; waited < 15 && !atomic_load(&inputs); waited++) usleep(1000);
    say(line, "%s", atomic_exchange(&inputs, 0) ? "yes" : "no");
}

// timerfd NAME MS
static void timer(struct line *line) {
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec when = {.it_value = {0, number(line, 2, 1) * 1000000}};
    timerfd_settime(fd, 0, &when, NULL);
    bind_name(word(line, 1), fd, NULL);
    say_done(line, fd);
}

// dupmin OLD NEW LEAST: F_DUPFD from a number on
static void duplicate_from(struct line *line) {
    struct name old = named(line);
    int fd = fcntl(old.fd, F_DUPFD, number(line, 3, 300));
    say_done(line, fd);
    if (fd >= 0) bind_name(word(line, 2), fd, old.stream);
}

int run_rare(struct line *line) {
    const char *what = word(line, 0);
    int sends = !strcmp(what, "pwritev2") || !strcmp(what, "sendto");
    if (sends || !strcmp(what, "preadv2") || !strcmp(what, "recvfrom") || !strcmp(what, "sendfilefrom")) {
        if (!line->patient) impatient(1);
        if (sends)
            odd_send(line);
        else if (!strcmp(what, "sendfilefrom"))
            file_from_socket(line);
        else
            odd_receive(line);
        if (!line->patient) impatient(0);
        return 1;
    }
    if (!strcmp(what, "bad")) return bad_arguments(line), 1;
    if (!strcmp(what, "unconnect")) return unconnect(line), 1;
    if (!strcmp(what, "peer")) return peer(line), 1;
    if (!strcmp(what, "state")) return tcp_state(line), 1;
    if (!strcmp(what, "async")) return ask_for_signals(line), 1;
    if (!strcmp(what, "told")) return told(line), 1;
    if (!strcmp(what, "timerfd")) return timer(line), 1;
    if (!strcmp(what, "dupmin")) return duplicate_from(line), 1;
    return 0;
}
