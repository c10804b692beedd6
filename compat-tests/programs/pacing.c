/*
 * SO_MAX_PACING_RATE is the program's own at any moment of a connection's life, by each way of asking.
 *   none   nobody has set it
 *   own    both sides set it, before their first bytes
 *   late   both sides set it anew again and again
 *   back   nobody sets it before the connection has gone back to TCP
 */
#include "common.h"

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

#define ROUNDS 300
#define OWN (1ull << 40)

static uint64_t expected = ~0ull;

static void set(int fd, uint64_t rate) {
    MUST(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
    expected = rate;
}

static void look(int fd) {
    uint64_t rate = 0;
    socklen_t length = sizeof rate;
    MUST(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &length));
    CHECK(length == sizeof rate && rate == expected);
    uint32_t low[2] = {0, 77};
    length = 7;
    MUST(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, low, &length));
    CHECK(length == 4 && low[0] == (expected > UINT32_MAX ? UINT32_MAX : expected) && low[1] == 77);
    uint64_t info[40] = {0}; /* tcpi_max_pacing_rate is its fifteenth word */
    length = sizeof info;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length));
    CHECK(length > 120 && info[14] == expected);
    length = 116;
    memset(info, 0, sizeof info);
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length));
    CHECK(length == 116 && info[14] == (expected & UINT32_MAX));
}

static void talk(int fd) {
    char byte = 1;
    if (mode_is("own"))
        set(fd, OWN);
    for (int i = 0; i < ROUNDS; i++) {
        look(fd);
        if (mode_is("late") && i % 3 == 0)
            set(fd, i % 2 ? OWN : 4000000000u + (unsigned)i);
        if (is_client) {
            CHECK(write(fd, &byte, 1) == 1);
            look(fd);
            CHECK(read(fd, &byte, 1) == 1);
        } else {
            CHECK(read(fd, &byte, 1) == 1);
            look(fd);
            CHECK(write(fd, &byte, 1) == 1);
        }
    }
    look(fd);
    if (mode_is("back")) {
        /* The kernel alone can wait for two bytes. */
        int two = 2;
        MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof two));
        look(fd);
        set(fd, OWN);
        look(fd);
        set(fd, 0);
        look(fd);
        set(fd, ~0ull);
        look(fd);
    }
    say("the same in %d rounds", ROUNDS);
}

void server(void) {
    int fd = MUST(accept(listen_here(), NULL, NULL));
    talk(fd);
    MUST(shutdown(fd, SHUT_WR));
    char byte;
    outcome("end", read(fd, &byte, 1));
}

void client(void) {
    struct sockaddr_storage address;
    socklen_t size = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    MUST(connect(fd, (struct sockaddr *)&address, size));
    talk(fd);
    char byte;
    outcome("end", read(fd, &byte, 1));
}
