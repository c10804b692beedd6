/*
 * A connection by another address of this host than those of the loopback. Both sides go on until they are told that somebody
 * has looked at them. COMPAT_BIND: the client's own end has this address.
 */
#include "common.h"

void unconnected(int fd) {
    const char *text = getenv("COMPAT_BIND");
    if (!text)
        return;
    struct sockaddr_storage address;
    socklen_t length = address_of(text, 0, &address);
    MUST(bind(fd, (void *)&address, length));
}

void client(void) {
    int fd = connected();
    exchange(fd, 4096, 1);
    mark("exchanged", 1);
    await_mark("looked");
    exchange(fd, 4096, 2);
    MUST(shutdown(fd, SHUT_WR));
    char byte;
    CHECK(MUST(read(fd, &byte, 1)) == 0);
    say("fine");
}

void server(void) {
    int fd = accepted(listen_here());
    echo_until_eof(fd);
    say("the end came");
}
