/*
 * A server at many addresses, or for long at one, and a client that comes to several of them one after the other. Arguments: the
 * mode, and for the server at how many addresses it listens until it is killed: at COMPAT_LISTEN, and at 127.0.1.1 and on. In the
 * mode "all" the client comes to as many. In the mode "steps" its arguments are addresses: it waits for the mark "go-N" before
 * the N-th, and marks "done-N" behind it (1, 2 ...); where one is ".", it makes exchanges on all connections that it has instead.
 * At the end it marks "done", waits for "looked", makes exchanges once more and closes all.
 */
#include "common.h"

#define MOST 256

static void *take(void *listener) {
    for (;;) {
        int fd = accept((int)(intptr_t)listener, NULL, NULL);
        if (fd >= 0)
            pthread_detach(start_thread(echo_and_close, (void *)(intptr_t)fd));
    }
    return NULL;
}

void server(void) {
    long count = argument(0, 1);
    int first = listen_here();
    if (count > 1) {
        struct sockaddr_in address;
        socklen_t length = sizeof address;
        MUST(getsockname(first, (void *)&address, &length));
        for (long i = 1; i < count; i++) {
            int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
            address.sin_addr.s_addr = htonl(0x7f000100 + (uint32_t)i);
            MUST(bind(listener, (void *)&address, sizeof address));
            MUST(listen(listener, 64));
            pthread_detach(start_thread(take, (void *)(intptr_t)listener));
        }
    }
    mark("listens", 1);
    take((void *)(intptr_t)first);
}

static int connections[MOST], open_now;

static void exchange_on_all(void) {
    for (int i = 0; i < open_now; i++)
        for (uint64_t k = 0; k < 40; k++)
            exchange(connections[i], 200, k);
}

static void come_to(const char *text) {
    struct sockaddr_storage address;
    there(&address);
    uint16_t port = address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port)
                                                  : ntohs(((struct sockaddr_in *)&address)->sin_port);
    socklen_t length = address_of(text, port, &address);
    CHECK(open_now < MOST);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    MUST(connect(fd, (void *)&address, length));
    connections[open_now++] = fd;
    for (uint64_t k = 0; k < 40; k++)
        exchange(fd, 200, k);
}

void client(void) {
    await_mark("listens");
    char text[32];
    if (mode_is("all")) {
        come_to("127.0.0.1");
        for (long i = 1; i < argument(0, 1); i++) {
            snprintf(text, sizeof text, "127.0.1.%ld", i);
            come_to(text);
        }
    } else {
        /* PROGRAM client PORTFILE MODE ADDRESS... */
        for (int i = 1; program_argv[3 + i]; i++) {
            snprintf(text, sizeof text, "go-%d", i);
            await_mark(text);
            if (strcmp(program_argv[3 + i], ".") == 0)
                exchange_on_all();
            else
                come_to(program_argv[3 + i]);
            snprintf(text, sizeof text, "done-%d", i);
            mark(text, 1);
        }
    }
    mark("done", 1);
    await_mark("looked");
    exchange_on_all();
    for (int i = 0; i < open_now; i++)
        close(connections[i]);
    say("fine");
}
