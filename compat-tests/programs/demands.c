/*
 * What becomes of connections that rules refuse, or of which they demand a channel; the rules are in the environment.
 *   blocking      one connect that waits
 *   nonblocking   one that does not
 *   named         as blocking, and the server wants the addresses of its clients
 *   nobody        nobody listens there any more
 *   again         a socket whose connect failed is connected once more
 *   elsewhere     a socket whose connect to 127.0.0.9 failed is connected here
 *   many          one connection after the other, 300 exchanges on each, until the mark "enough"
 * The client makes as many exchanges as the first argument says (300), or until they fail; with a second argument it rests
 * between them, and makes them for so many seconds. A third: it waits for the mark "looked" then. The server serves until the mark "over" is there, and tells how many came in.
 */
#include "common.h"

static void echo(int fd) {
    char buffer[4096];
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 20) == 0 && is_marked("over"))
            return;
        ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return;
        if (n > 0 && send(fd, buffer, (size_t)n, MSG_NOSIGNAL) < 0)
            return;
    }
}

void server(void) {
    int listener = listen_here();
    if (mode_is("nobody")) {
        MUST(close(listener));
        mark("closed", 1);
        return;
    }
    set_nonblocking(listener, true);
    int served = 0;
    while (!is_marked("over")) {
        struct pollfd p = {listener, POLLIN, 0};
        poll(&p, 1, 20);
        struct sockaddr_storage from = {0};
        socklen_t length = sizeof from;
        bool named = mode_is("named");
        int fd = named ? accept(listener, (struct sockaddr *)&from, &length) : accept(listener, NULL, NULL);
        if (fd < 0) {
            CHECK(errno == EAGAIN);
            continue;
        }
        CHECK(!named || (from.ss_family == AF_INET && length == sizeof(struct sockaddr_in)));
        served++;
        echo(fd);
        MUST(close(fd));
    }
    mark("served", (uint64_t)served);
}

/* The error of one exchange; 0: none. */
static int exchanged(int fd) {
    char out[64], in[64];
    memset(out, 'x', sizeof out);
    if (send(fd, out, sizeof out, MSG_NOSIGNAL) < 0)
        return errno;
    size_t got = 0;
    while (got < sizeof in) {
        ssize_t n = recv(fd, in + got, sizeof in - got, 0);
        if (n < 0)
            return errno;
        if (n == 0)
            return ENODATA;
        got += (size_t)n;
    }
    return memcmp(in, out, sizeof in) == 0 ? 0 : EBADMSG;
}

static int reach(int fd) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int rc = connect(fd, (struct sockaddr *)&address, length);
    if (rc == 0 || errno != EINPROGRESS)
        return rc;
    struct pollfd p = {fd, POLLOUT, 0};
    MUST(poll(&p, 1, 5000));
    int error = 0;
    socklen_t size = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    set_nonblocking(fd, false);
    errno = error;
    return error ? -1 : 0;
}

static void use(int fd) {
    long count = argument(0, 300);
    long seconds = argument(1, 0);
    uint64_t end = now_ms() + 1000 * (uint64_t)(seconds ? seconds : 10);
    int error = 0;
    long done = 0;
    for (; done < count && !error && now_ms() < end; done++) {
        error = exchanged(fd);
        if (seconds)
            sleep_ms(10);
    }
    errno = error;
    outcome("exchanges", error ? -1 : 0);
}

/* A connect that does not wait, to where nobody listens; and another one, by which the kernel tells of that. */
static void fail_elsewhere(int fd) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    address.sin_addr.s_addr = htonl(0x7f000009);
    set_nonblocking(fd, true);
    for (int i = 0; i < 2; i++) {
        connect(fd, (struct sockaddr *)&address, sizeof address);
        struct pollfd p = {fd, POLLOUT, 0};
        MUST(poll(&p, 1, 5000));
    }
    set_nonblocking(fd, false);
}

void client(void) {
    struct sockaddr_storage address;
    there(&address);
    if (mode_is("nobody"))
        await_mark("closed");
    while (mode_is("many") && !is_marked("enough")) {
        int fd = MUST(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        MUST(reach(fd));
        for (int i = 0; i < 300; i++)
            CHECK(exchanged(fd) == 0);
        MUST(close(fd));
        if (!is_marked("begun"))
            mark("begun", 1);
        sleep_ms(20);
    }
    if (!mode_is("many")) {
        int kind = SOCK_STREAM | SOCK_CLOEXEC | (mode_is("nonblocking") ? SOCK_NONBLOCK : 0);
        int fd = MUST(socket(address.ss_family, kind, 0));
        if (mode_is("elsewhere"))
            fail_elsewhere(fd);
        int rc = reach(fd);
        outcome("connect", rc);
        if (mode_is("again")) {
            rc = reach(fd);
            outcome("once more", rc);
        }
        if (rc == 0)
            use(fd);
        if (argument(2, 0)) {
            mark("client-done", 1);
            await_mark("looked");
        }
        MUST(close(fd));
    }
    mark("over", 1);
}
