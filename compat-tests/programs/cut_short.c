/*
 * The other end closes with bytes unread while a send has gone out in part: the next call is told of the reset, and
 * the one behind it of a broken pipe.
 *   send      the next call is a send
 *   receive   it is a receive
 *   error     it asks for SO_ERROR
 * On so many connections, one after the other, as it takes luck to be in the middle of a send.
 */
#include "common.h"

#define CONNECTIONS 12
#define LOOKS 100000

static int queued(int fd) {
    int bytes;
    MUST(ioctl(fd, FIONREAD, &bytes));
    return bytes;
}

/* Closes as soon as no more comes: then the sender waits for room. */
void helper(int fd) {
    for (int looks = 0, before = -1; looks < LOOKS; looks++) {
        int now = queued(fd);
        if (now > 0 && now == before)
            break;
        before = now;
        usleep(100);
    }
    MUST(close(fd));
}

static const char *name_of(ssize_t result, int error) { return result < 0 ? strerrorname_np(error) : "none"; }

void tester(int fd) {
    static char data[3000];
    ssize_t n = sizeof data;
    const char *told[2];
    /* One that went out in part is the last. */
    while (n == sizeof data)
        n = send(fd, data, sizeof data, MSG_NOSIGNAL);
    int error = errno;
    if (n < 0) {
        told[0] = name_of(n, error);
    } else if (mode_is("error")) {
        socklen_t length = sizeof error;
        struct pollfd entry = {.fd = fd, .events = POLLRDHUP};
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
        MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
        told[0] = name_of(error ? -1 : 0, error);
    } else {
        n = mode_is("receive") ? recv(fd, data, sizeof data, 0) : send(fd, data, 1, MSG_NOSIGNAL);
        told[0] = name_of(n, errno);
    }
    n = send(fd, data, 1, MSG_NOSIGNAL);
    told[1] = name_of(n, errno);
    say("%s, then %s", told[0], told[1]);
    MUST(close(fd));
}

static void each(int listener) {
    const char *swap = getenv("COMPAT_SWAP");
    bool client_tries = swap && *swap == '1';
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = is_client ? connected() : accepted(listener);
        if (is_client == client_tries)
            tester(fd);
        else
            helper(fd);
    }
}

void server(void) { each(listen_here()); }

void client(void) { each(-1); }
