/*
 * A receiver that believes epoll(7): after a short receive, or one of all that FIONREAD told, nothing is left, so it
 * waits for the next edge. The helper sends as fast as it can, so that the stream goes over borders of ring and TCP.
 *   edge       edge-triggered, buffers of 100 000
 *   large      the same with pauses, so that far more waits than a ring holds
 *   scattered  the same, into 40 pieces of 2500
 *   counted    FIONREAD after each wait, and just that many
 *   alone      nobody receives: the process that has the other end is killed, and the tester sends on
 */
#include "common.h"

#define TOTAL (32u << 20)
#define WANT 100000
#define PIECES 40

static char buffer[16 << 20];

static size_t receive(int fd) {
    if (mode_is("scattered")) {
        struct iovec list[PIECES];
        for (int i = 0; i < PIECES; i++)
            list[i] = (struct iovec){buffer + i * (WANT / PIECES), WANT / PIECES};
        ssize_t n = readv(fd, list, PIECES);
        return n < 0 && errno == EAGAIN ? 0 : (size_t)MUST(n);
    }
    ssize_t n = recv(fd, buffer, WANT, 0);
    return n < 0 && errno == EAGAIN ? 0 : (size_t)MUST(n);
}

/* All that is counted, and not once more. */
static size_t receive_counted(int fd) {
    int there = 0;
    MUST(ioctl(fd, FIONREAD, &there));
    CHECK((size_t)there <= sizeof buffer);
    size_t sum = 0;
    while (sum < (size_t)there)
        sum += (size_t)MUST(recv(fd, buffer, (size_t)there - sum, 0));
    return sum;
}

static void send_until_it_fails(int fd) {
    await_mark("gone");
    sleep_ms(20);
    outcome("first", send(fd, "x", 1, MSG_NOSIGNAL));
    /* At once, without a pause; TCP takes one, and a ring as many as it doubts nothing. */
    int sent = 0;
    while (sent < 1000 && send(fd, "x", 1, MSG_NOSIGNAL) == 1)
        sent++;
    say("and soon: %s", sent < 1000 ? strerrorname_np(errno) : "nothing");
}

void tester(int fd) {
    if (mode_is("alone")) {
        send_until_it_fails(fd);
        return;
    }
    set_nonblocking(fd, true);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    uint64_t sum = 0, pauses = 0;
    while (sum < TOTAL) {
        if (MUST(epoll_wait(set, &event, 1, 5000)) == 0) {
            int there = 0;
            MUST(ioctl(fd, FIONREAD, &there));
            say("stuck: %s", there ? "something is there, and no edge told" : "nothing is there");
            _exit(1);
        }
        if (mode_is("counted")) {
            sum += receive_counted(fd);
            continue;
        }
        for (size_t n = WANT; n == WANT && sum < TOTAL; sum += n) {
            /* As a busy loop does, which looks for other things in between. An edge told here counts. */
            for (int i = 0; mode_is("large") && pauses % 4 == 0 && i < 4; i++) {
                MUST(epoll_wait(set, &event, 1, 0));
                usleep(100);
            }
            pauses++;
            n = receive(fd);
        }
    }
    say("received all of it");
    write_all(fd, "d", 1);
}

void helper(int fd) {
    if (mode_is("alone")) {
        pid_t child = MUST(fork());
        if (child == 0) {
            sleep_ms(50);
            raise(SIGKILL);
        }
        MUST(close(fd)); /* it is the child's alone */
        MUST(waitpid(child, NULL, 0));
        mark("gone", 1);
        return;
    }
    static char data[65536];
    set_nonblocking(fd, true);
    for (uint64_t sent = 0; sent < TOTAL; sent += sizeof data)
        write_all(fd, data, sizeof data);
    char byte;
    read_exact(fd, &byte, 1);
}
