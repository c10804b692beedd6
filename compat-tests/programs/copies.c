/*
 * Several servers that know nothing of each other listen at one address, by SO_REUSEPORT. Arguments: the mode "-", the port, and
 * for the client how many connections it makes and how many exchanges on each. A server marks "listens" and echoes until it is
 * killed; the client marks "done" and waits for the mark "looked".
 */
#include "common.h"

static struct sockaddr_in address_here(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)argument(0, 0))};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return here;
}

void server(void) {
    struct sockaddr_in here = address_here();
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), one = 1, set = MUST(epoll_create1(0));
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
    MUST(bind(listener, (void *)&here, sizeof here));
    MUST(listen(listener, 128));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[16];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    mark("listens", 1);
    for (;;) {
        int n = MUST(epoll_wait(set, ready, 16, -1));
        for (int i = 0; i < n; i++) {
            char bytes[64];
            int fd = ready[i].data.fd;
            if (fd == listener) {
                event.data.fd = MUST(accept(listener, NULL, NULL));
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
