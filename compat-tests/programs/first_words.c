/*
 * Who speaks when. Modes: server_first (a banner before anything else), late_open (the client writes long
 * before accept), late_closed (it has written and closed before accept), silent (closed without a byte).
 */
#include "common.h"

void server(void) {
    int listener = listen_here();
    if (!mode_is("server_first"))
        await_mark("client-ready");
    int fd = MUST(accept(listener, NULL, NULL));
    if (mode_is("server_first"))
        write_all(fd, "220 ready\r\n", 11);
    if (mode_is("late_closed") || mode_is("silent")) {
        uint64_t sum = SUM_START, total = read_to_eof(fd, &sum);
        say("%llu bytes, sum %016llx", (unsigned long long)total, (unsigned long long)sum);
    } else {
        echo_until_eof(fd);
        say("EOF");
    }
    close(fd);
}

void client(void) {
    char early[10000], back[sizeof early];
    int fd = connect_there();
    if (mode_is("server_first")) {
        read_exact(fd, back, 11);
        say("banner: %.9s", back);
    } else if (!mode_is("silent")) {
        fill(early, sizeof early, 9);
        for (size_t at = 0; at < sizeof early; at += 1000)
            write_all(fd, early + at, 1000);
    }
    if (mode_is("late_closed") || mode_is("silent"))
        MUST(close(fd));
    mark("client-ready", 1);
    if (mode_is("late_open")) {
        read_exact(fd, back, sizeof back);
        CHECK(memcmp(early, back, sizeof back) == 0);
    }
    if (mode_is("late_open") || mode_is("server_first")) {
        warm_up(fd);
        for (int i = 0; i < 200; i++)
            exchange(fd, 100, (uint64_t)i);
        close(fd);
    }
    say("%s: done", program_argv[3]);
}
