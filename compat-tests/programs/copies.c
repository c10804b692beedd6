/*
 * Several servers that know nothing of each other listen at one address, by SO_REUSEPORT; or one, by several sockets. Arguments:
 * the mode "-", the port, for the client how many connections it makes and how many exchanges on each, and for a server by how
 * many sockets it listens. It marks "listens" and echoes until it is
 * killed; the client marks "done" and waits for the mark "looked".
 */
#include "common.h"

static struct sockaddr_in address_here(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)argument(0, 0))};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return here;
}

#define MOST 64

static bool is_one_of(int fd, const int *all, long count) {
    for (long i = 0; i < count; i++)
        if (all[i] == fd)
            return true;
    return false;
}

void server(void) {
    struct sockaddr_in here = address_here();
    long count = argument(3, 1);
    int listeners[MOST], one = 1, set = MUST(epoll_create1(0));
    CHECK(count <= MOST);
    struct epoll_event event, ready[16];
    for (long i = 0; i < count; i++) {
        listeners[i] = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(setsockopt(listeners[i], SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
        MUST(bind(listeners[i], (void *)&here, sizeof here));
        MUST(listen(listeners[i], 128));
        event = (struct epoll_event){.events = EPOLLIN, .data.fd = listeners[i]};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, listeners[i], &event));
    }
    mark("listens", 1);
    for (;;) {
        int n = MUST(epoll_wait(set, ready, 16, -1));
        for (int i = 0; i < n; i++) {
            char bytes[64];
            int fd = ready[i].data.fd;
            if (is_one_of(fd, listeners, count)) {
                event.data.fd = MUST(accept(fd, NULL, NULL));
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event));
                continue;
            }
            ssize_t got = MUST(read(fd, bytes, sizeof bytes));
            if (got == 0)
                MUST(close(fd));
            else
                write_all(fd, bytes, (size_t)got);
        }
    }
}

void client(void) {
    struct sockaddr_in here = address_here();
    for (long i = 0, count = argument(1, 16); i < count; i++) {
        int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(fd, (void *)&here, sizeof here));
        for (long k = 0, exchanges = argument(2, 1000); k < exchanges; k++) {
            char bytes[32] = "";
            write_all(fd, bytes, sizeof bytes);
            read_exact(fd, bytes, sizeof bytes);
        }
    }
    mark("done", 1);
    await_mark("looked");
    say("fine");
}
