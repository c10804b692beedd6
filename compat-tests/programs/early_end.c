/*
 * An end of the sending side at every moment of a connection's youth: after no exchange, after one, and so on. The other
 * end sends more before it, which is not taken yet, and ends too: what it then reads is an end, and no reset. Between two
 * calls of either side the other one's offer may be taken, or confirmed.
 */
#include "common.h"

#define YOUTH 40
#define PIECE 64

static void say_to(int k, const char *what) {
    char name[32];
    snprintf(name, sizeof name, "%s-%d", what, k);
    mark(name, 1);
}

static void hear(int k, const char *what) {
    char name[32];
    snprintf(name, sizeof name, "%s-%d", what, k);
    await_mark(name);
}

void server(void) {
    int listener = listen_here();
    for (int k = 0; k < YOUTH; k++) {
        int fd = MUST(accept(listener, NULL, NULL));
        no_delay(fd);
        char piece[PIECE];
        for (int i = 0; i < k; i++) {
            read_exact(fd, piece, sizeof piece);
            write_all(fd, piece, 1);
        }
        hear(k, "sent");
        MUST(shutdown(fd, SHUT_WR));
        say_to(k, "ended");
        hear(k, "asked");
        uint64_t sum = SUM_START, total = read_to_eof(fd, &sum);
        say("%d: %llu more bytes, sum %016llx", k, (unsigned long long)total, (unsigned long long)sum);
        close(fd);
    }
}

void client(void) {
    for (int k = 0; k < YOUTH; k++) {
        int fd = connect_there();
        no_delay(fd);
        char piece[10 * PIECE], byte;
        for (int i = 0; i < k; i++) {
            fill(piece, PIECE, (uint64_t)i);
            write_all(fd, piece, PIECE);
            read_exact(fd, &byte, 1);
        }
        fill(piece, sizeof piece, (uint64_t)k);
        write_all(fd, piece, sizeof piece);
        say_to(k, "sent");
        hear(k, "ended");
        MUST(shutdown(fd, SHUT_WR));
        outcome("recv behind both ends", recv(fd, &byte, 1, 0));
        say_to(k, "asked");
        close(fd);
    }
}
