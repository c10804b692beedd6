/*
 * select(2) and pselect(2) with one set in several arguments, an old way to wait for a connect: the kernel reads all three sets
 * before it writes any, and writes the one for exceptional conditions last. Argument 1: by pselect.
 */
#include "common.h"

#include <sys/select.h>

static int select_for(int ms, int fd, fd_set *in, fd_set *out, fd_set *except) {
    struct timeval time = {0, ms * 1000};
    struct timespec exact = {0, ms * 1000000L};
    return argument(0, 0) ? pselect(fd + 1, in, out, except, &exact, NULL) : select(fd + 1, in, out, except, &time);
}

/* What it returns, and what is in the set then. */
static void told(const char *when, int fd, fd_set *set, fd_set *except) {
    FD_ZERO(set);
    FD_SET(fd, set);
    int ready = MUST(select_for(900, fd, set, set, except));
    say("%s: %d, %s", when, ready, FD_ISSET(fd, set) ? "there" : "not there");
}

void server(void) {
    int fd = accepted(listen_here());
    serve_asks(fd);
}

void client(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    fd_set set, other;
    char byte;
    int fd = MUST(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int started = connect(fd, (void *)&address, length);
    CHECK(started == 0 || errno == EINPROGRESS);
    told("connecting", fd, &set, NULL);
    MUST(fcntl(fd, F_SETFL, 0));
    warm_up(fd);
    told("connected", fd, &set, NULL);
    told("in all three", fd, &set, &set);
    FD_ZERO(&other);
    FD_SET(fd, &other);
    told("in two, and in another", fd, &set, &other);
    say("%s", FD_ISSET(fd, &other) ? "there" : "not there");
    ask_later(fd, 1, 1);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    CHECK(MUST(poll(&entry, 1, 5000)) == 1);
    told("with a byte", fd, &set, NULL);
    told("with a byte, in all three", fd, &set, &set);
    read_exact(fd, &byte, 1);
    MUST(close(fd));
}
