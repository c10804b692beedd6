/*
 * shutdown() and what each side still can do. Modes: tester_first, helper_first, both, read_side.
 */
#include "common.h"

static void send_pattern(int fd, size_t length, uint64_t seed) {
    char *data = malloc(length);
    fill(data, length, seed);
    write_all(fd, data, length);
    free(data);
}

static void receive_all(int fd) {
    uint64_t sum = SUM_START, total = read_to_eof(fd, &sum);
    char byte;
    say("received %llu bytes to EOF, sum %016llx", (unsigned long long)total, (unsigned long long)sum);
    outcome("recv after EOF", recv(fd, &byte, 1, 0));
}

static void show_events(int fd, const char *when) {
    struct pollfd entry = {.fd = fd, .events = POLLIN | POLLRDHUP};
    MUST(poll(&entry, 1, 5000));
    say("%s: in %d rdhup %d hup %d", when, !!(entry.revents & POLLIN), !!(entry.revents & POLLRDHUP),
        !!(entry.revents & POLLHUP));
}

/* Ends sending first, then reads a long answer. */
static void ask_then_read(int fd) {
    send_pattern(fd, 100000, 1);
    MUST(shutdown(fd, SHUT_WR));
    outcome("send after shutdown", send(fd, "x", 1, MSG_NOSIGNAL));
    receive_all(fd);
    show_events(fd, "both directions ended");
}

/* Reads to EOF, then still answers. */
static void read_then_answer(int fd) {
    receive_all(fd);
    show_events(fd, "peer ended");
    send_pattern(fd, 300000, 2);
    MUST(shutdown(fd, SHUT_WR));
    /* The last byte has arrived once the peer closes or not; either way both directions are shut here. */
    show_events(fd, "both directions ended");
}

static void both_at_once(int fd, uint64_t seed) {
    send_pattern(fd, 50000, seed);
    MUST(shutdown(fd, SHUT_WR));
    receive_all(fd);
}

static void read_side(int fd) {
    char byte;
    MUST(shutdown(fd, SHUT_RD));
    outcome("recv after SHUT_RD", recv(fd, &byte, 1, 0));
    send_pattern(fd, 100000, 3);
}

void tester(int fd) {
    if (mode_is("tester_first"))
        ask_then_read(fd);
    else if (mode_is("helper_first"))
        read_then_answer(fd);
    else if (mode_is("both"))
        both_at_once(fd, 4);
    else
        read_side(fd);
}

void helper(int fd) {
    if (mode_is("tester_first"))
        read_then_answer(fd);
    else if (mode_is("helper_first"))
        ask_then_read(fd);
    else if (mode_is("both"))
        both_at_once(fd, 5);
    else
        receive_all(fd);
}
