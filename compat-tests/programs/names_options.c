/* What the socket says about itself: names, options, TCP_INFO, the file behind the number. */
#include "common.h"

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    MUST(getsockopt(fd, level, name, &value, &length));
    return value;
}

static void set_option(int fd, int level, int name, int value) {
    MUST(setsockopt(fd, level, name, &value, sizeof value));
}

static unsigned tcp_state(int fd) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    return info.tcpi_state;
}

static uint16_t port_of(int (*get)(int, struct sockaddr *, socklen_t *), int fd) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    MUST(get(fd, (void *)&address, &length));
    return ((struct sockaddr_in *)&address)->sin_port;
}

static int get_peer(int fd, struct sockaddr *address, socklen_t *length) {
    return getpeername(fd, address, length);
}

static int get_own(int fd, struct sockaddr *address, socklen_t *length) {
    return getsockname(fd, address, length);
}

/* Each side tells the other both of its ports: mine must be the peer's "peer" and the other way round. */
static void compare_names(int fd) {
    uint16_t mine[2] = {port_of(get_own, fd), port_of(get_peer, fd)}, other[2];
    write_all(fd, mine, sizeof mine);
    read_exact(fd, other, sizeof other);
    say("names agree: %s", mine[0] == other[1] && mine[1] == other[0] ? "yes" : "no");
}

static void show_options(int fd) {
    struct stat status;
    char path[64], target[64] = {0};
    int nonblocking = 1;
    say("type %d domain %d protocol %d accepting %d error %d", option(fd, SOL_SOCKET, SO_TYPE),
        option(fd, SOL_SOCKET, SO_DOMAIN), option(fd, SOL_SOCKET, SO_PROTOCOL),
        option(fd, SOL_SOCKET, SO_ACCEPTCONN), option(fd, SOL_SOCKET, SO_ERROR));
    say("nodelay %d cork %d keepalive %d lowat %d", option(fd, IPPROTO_TCP, TCP_NODELAY),
        option(fd, IPPROTO_TCP, TCP_CORK), option(fd, SOL_SOCKET, SO_KEEPALIVE),
        option(fd, SOL_SOCKET, SO_RCVLOWAT));
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    say("nodelay %d keepalive %d", option(fd, IPPROTO_TCP, TCP_NODELAY), option(fd, SOL_SOCKET, SO_KEEPALIVE));
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    say("flags: %s", (MUST(fcntl(fd, F_GETFL)) & O_ACCMODE) == O_RDWR ? "read and write" : "other");
    MUST(ioctl(fd, FIONBIO, &nonblocking));
    say("nonblocking %d", !!(MUST(fcntl(fd, F_GETFL)) & O_NONBLOCK));
    nonblocking = 0;
    MUST(ioctl(fd, FIONBIO, &nonblocking));
    MUST(fstat(fd, &status));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, target, sizeof target - 1));
    say("a socket: %d %d", !!S_ISSOCK(status.st_mode), strncmp(target, "socket:", 7) == 0);
    outcome("lseek", lseek(fd, 0, SEEK_CUR));
    outcome("pread", pread(fd, target, 1, 0));
    outcome("listen", listen(fd, 1));
    outcome("isatty", isatty(fd));
}

/* Corked bytes arrive at the latest when the cork is drawn. */
static void corked(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_CORK, 1);
    ask(fd, 100);
    set_option(fd, IPPROTO_TCP, TCP_CORK, 0);
    char buffer[100];
    read_exact(fd, buffer, sizeof buffer);
    say("uncorked: %s", is_pattern(buffer, sizeof buffer, 0) ? "same" : "DIFFERENT");
}

void tester(int fd) {
    compare_names(fd);
    show_options(fd);
    corked(fd);
    say("state %u", tcp_state(fd));
    ask_shutdown(fd);
    char byte;
    outcome("EOF", recv(fd, &byte, 1, 0));
    say("state %u, error %d", tcp_state(fd), option(fd, SOL_SOCKET, SO_ERROR));
    MUST(shutdown(fd, SHUT_WR));
}

void helper(int fd) {
    compare_names(fd);
    serve_asks(fd);
}
