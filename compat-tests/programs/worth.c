/* One connection after another: SHORT of 8 exchanges, a mark, LONG of 400, a mark; each mark waits for the test's answer.
   Arguments: SHORT LONG. */
#include "common.h"

static void serve(int fd) {
    char request[64];
    while (read(fd, request, sizeof request) == sizeof request)
        write_all(fd, request, sizeof request);
    MUST(close(fd));
}

void server(void) {
    int listener = listen_here();
    long connections = argument(-1, 0) + argument(0, 0);
    for (long i = 0; i < connections; i++)
        serve(MUST(accept(listener, NULL, NULL)));
    say("served %ld connections", connections);
}

static void use(long connections, int exchanges) {
    for (long i = 0; i < connections; i++) {
        int fd = connect_there();
        for (int k = 0; k < exchanges; k++)
            exchange(fd, 64, (uint64_t)k);
        MUST(close(fd));
    }
}

void client(void) {
    use(argument(-1, 0), 8);
    mark("short", 1);
    await_mark("go");
    use(argument(0, 0), 400);
    mark("long", 1);
    await_mark("over");
    say("done");
}
