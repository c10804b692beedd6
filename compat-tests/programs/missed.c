/*
 * Connections that could easily be left without a channel. The mark `serving` has the process that serves the last one.
 *   closes   the server closes its listener as soon as it has accepted
 *   ports    a control connection that says little, and for each transfer a listener of its own on a new port, closed
 *            as soon as its connection is accepted (arguments: transfers, exchanges in all but the last)
 *   again    all on one port, which is opened again for each; every other transfer is read byte by byte when the server has
 *            no listener and no connection there any more
 *   child    the server only listens; a child accepts and serves
 *   daemon   the same, and the parent ends before anybody connects
 *   handed   the parent accepts, and both close the listener; a child serves
 *   executed the listener is another program's, which this one was started by
 *   hurry    the client has sent before the server accepts, in several calls
 *   upload   the client only sends, the server only receives, and its listener is closed
 *   download the other way round
 */
#include "common.h"

#define TRANSFERS (int)argument(0, 30)
#define LONG 1500
#define BYTE_BY_BYTE 400

static void serve(int fd) {
    echo_until_eof(fd);
    close(fd);
}

static void serve_last(int fd) {
    mark("serving", (uint64_t)getpid());
    serve(fd);
    await_mark("looked");
}

/* On the same port, unless it is 0. */
static int fresh_listener(unsigned *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), yes = 1;
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    MUST(bind(listener, (void *)&address, sizeof address));
    MUST(listen(listener, 1));
    MUST(getsockname(listener, (void *)&address, &length));
    *port = ntohs(address.sin_port);
    return listener;
}

/* In one direction, until the other side has looked; both have done so many calls by then that one must have. */
static void in_one_direction(int fd, bool sends, const char *over) {
    static char data[5000];
    for (int i = 0; i < 4000; i++) {
        if (sends)
            write_all(fd, data, sizeof data);
        else
            read_exact(fd, data, sizeof data);
    }
    mark(over, 1);
}

static void serve_ports(int control) {
    for (int i = 0; i < TRANSFERS; i++) {
        unsigned port = 0;
        int listener = fresh_listener(&port);
        write_all(control, &port, sizeof port);
        int fd = MUST(accept(listener, NULL, NULL));
        close(listener);
        if (i + 1 < TRANSFERS)
            serve(fd);
        else
            serve_last(fd);
    }
}

static void serve_again(int control) {
    unsigned port = 0;
    no_delay(control);
    for (int i = 0; i < TRANSFERS; i++) {
        int listener = fresh_listener(&port);
        write_all(control, &port, sizeof port);
        int fd = MUST(accept(listener, NULL, NULL));
        if (i + 1 == TRANSFERS || i % 2 == 0) {
            close(listener);
            (i + 1 == TRANSFERS ? serve_last : serve)(fd);
        } else {
            char data[BYTE_BY_BYTE];
            fill(data, sizeof data, 2);
            write_all(fd, data, sizeof data);
            close(fd);
            close(listener); /* Nobody is awaited: the door closes. */
            write_all(control, &port, sizeof port);
            read_exact(control, &port, sizeof port);
        }
    }
}

static void by_child(int listener, bool parent_stays) {
    pid_t child = MUST(fork());
    if (child == 0) {
        if (!parent_stays)
            while (getppid() != 1 && !is_marked("gone"))
                sleep_ms(1);
        mark("ready", 1);
        serve_last(MUST(accept(listener, NULL, NULL)));
        say("served");
        exit(0);
    }
    if (!parent_stays) {
        mark("gone", 1);
        _exit(0);
    }
    join_child(child);
}

static void handed(int listener) {
    int fd = MUST(accept(listener, NULL, NULL));
    pid_t child = MUST(fork());
    close(listener);
    if (child == 0) {
        serve_last(fd);
        say("served");
        exit(0);
    }
    close(fd);
    join_child(child);
}

void other_role(const char *role) {
    CHECK(strcmp(role, "executed") == 0);
    mark("ready", 1);
    serve_last(MUST(accept(9, NULL, NULL)));
    say("served");
}

void server(void) {
    int listener = listen_here();
    if (mode_is("child") || mode_is("daemon")) {
        by_child(listener, mode_is("child"));
        return;
    }
    if (mode_is("executed")) {
        MUST(dup2(listener, 9));
        MUST(close(listener));
        MUST(execl("/proc/self/exe", program_argv[0], "executed", program_argv[2], NULL));
    }
    mark("ready", 1);
    if (mode_is("handed")) {
        handed(listener);
        return;
    }
    if (mode_is("hurry"))
        await_mark("sent");
    int fd = MUST(accept(listener, NULL, NULL));
    if (mode_is("closes") || mode_is("upload") || mode_is("download"))
        close(listener);
    if (mode_is("upload") || mode_is("download"))
        in_one_direction(fd, mode_is("download"), "half");
    if (mode_is("ports"))
        serve_ports(fd);
    else if (mode_is("again"))
        serve_again(fd);
    else
        serve_last(fd);
    say("served");
}

static void talk(int fd, int times) {
    for (int i = 0; i < times; i++)
        exchange(fd, 100, (uint64_t)i);
}

static int to_port(unsigned port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(fd, (void *)&address, sizeof address));
    return fd;
}

static void read_what_is_left(int control, int fd) {
    unsigned over;
    char data[BYTE_BY_BYTE], back[sizeof data];
    fill(data, sizeof data, 2);
    read_exact(control, &over, sizeof over);
    for (size_t i = 0; i < sizeof back; i++)
        read_exact(fd, back + i, 1);
    CHECK(memcmp(data, back, sizeof data) == 0);
    write_all(control, &over, sizeof over);
}

static int transfers(int control) {
    for (int i = 0;; i++) {
        unsigned port;
        read_exact(control, &port, sizeof port);
        int fd = to_port(port);
        if (mode_is("again") && i % 2 && i + 1 < TRANSFERS)
            read_what_is_left(control, fd);
        else
            talk(fd, (int)argument(1, 10));
        if (i + 1 == TRANSFERS)
            return fd;
        close(fd);
    }
}

void client(void) {
    await_mark("ready");
    int fd = connect_there();
    if (mode_is("ports") || mode_is("again"))
        fd = transfers(fd);
    if (mode_is("hurry")) {
        char data[12 * 50], back[sizeof data];
        fill(data, sizeof data, 1);
        for (int i = 0; i < 12; i++)
            write_all(fd, data + i * 50, 50);
        mark("sent", 1);
        read_exact(fd, back, sizeof back);
        CHECK(memcmp(data, back, sizeof data) == 0);
    }
    if (mode_is("upload") || mode_is("download")) {
        in_one_direction(fd, mode_is("upload"), "other");
        await_mark("serving");
    } else {
        talk(fd, LONG);
    }
    mark("done", 1);
    await_mark("looked");
    talk(fd, 10);
    close(fd);
    say("fine");
}
