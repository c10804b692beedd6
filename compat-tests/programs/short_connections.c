/* Connection, one request, one reply, close: 300 times. The mode says who closes first: "client" or "server". */
#include "common.h"

#define CONNECTIONS 300

void server(void) {
    int listener = listen_here();
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = MUST(accept(listener, NULL, NULL));
        char request[100], more;
        read_exact(fd, request, sizeof request);
        write_all(fd, request, sizeof request);
        if (mode_is("client"))
            CHECK(read(fd, &more, 1) == 0);
        MUST(close(fd));
    }
    say("served %d connections", CONNECTIONS);
}

void client(void) {
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = connect_there();
        char more;
        exchange(fd, 100, (uint64_t)i);
        if (mode_is("server"))
            CHECK(read(fd, &more, 1) == 0);
        MUST(close(fd));
    }
    say("made %d connections", CONNECTIONS);
}
