/*
 * A server for any number of clients, good and bad, until it is killed (threads, or one thread and epoll), and an
 * honest client of it (arguments: exchanges, a number for its marks, and for how long it rests, ms, after 20): it says
 * `fine` when every byte came back. COMPAT_PORT is the port to listen on, 0 for any.
 */
#include "common.h"

static int listen_on(unsigned port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), yes = 1;
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    MUST(bind(listener, (void *)&address, sizeof address));
    MUST(listen(listener, 512));
    MUST(getsockname(listener, (void *)&address, &length));
    char temporary[512];
    snprintf(temporary, sizeof temporary, "%s.tmp", program_argv[2]);
    FILE *file = fopen(temporary, "w");
    CHECK(file);
    fprintf(file, "127.0.0.1 %u\n", ntohs(address.sin_port));
    CHECK(fclose(file) == 0);
    MUST(rename(temporary, program_argv[2]));
    return listener;
}

/* Whatever a client does, it costs only its own connection. */
static void in_threads(int listener) {
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            pthread_detach(start_thread(echo_and_close, (void *)(intptr_t)fd));
    }
}

/* One thread: what cannot be sent at once is dropped with its connection; honest clients take turns. */
static void in_one_loop(int listener) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[16];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    for (;;) {
        int ready = epoll_wait(set, events, 16, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                if ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    event.data.fd = fd;
                    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
                }
                continue;
            }
            char buffer[65536];
            ssize_t n = recv(fd, buffer, sizeof buffer, 0);
            if (n < 0 && errno == EAGAIN)
                continue;
            if (n <= 0 || send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n)
                close(fd);
        }
    }
}

void server(void) {
    const char *port = getenv("COMPAT_PORT");
    int listener = listen_on(port ? (unsigned)atoi(port) : 0);
    if (mode_is("epoll"))
        in_one_loop(listener);
    in_threads(listener);
}

void client(void) {
    char done[40], looked[40];
    snprintf(done, sizeof done, "done-%ld", argument(1, 0));
    snprintf(looked, sizeof looked, "looked-%ld", argument(1, 0));
    int fd = connect_there();
    uint64_t state = (uint64_t)argument(1, 0) * 7919 + 13;
    for (long i = 0, count = argument(0, 1000); i < count; i++) {
        if (i == 20)
            sleep_ms((int)argument(2, 0));
        exchange(fd, 1 + next_random(&state) % (state % 20 ? 200 : 20000), (uint64_t)i);
    }
    mark(done, 1);
    await_mark(looked);
    exchange(fd, 100, 1);
    close(fd);
    say("fine");
}
