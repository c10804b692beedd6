/*
 * A receiver that believes epoll(7): after a short receive, or one of all that FIONREAD told, nothing is left, so it
 * waits for the next edge. The helper sends as fast as it can, so that the stream goes over borders of ring and TCP.
 *   edge       edge-triggered, buffers of 100 000
 *   large      the same with pauses, so that far more waits than a ring holds
 *   scattered  the same, into 40 pieces of 2500
 *   counted    FIONREAD after each wait, and just that many
 *   bursts     FIONREAD after each receive of a whole buffer, and the next edge after as many (as nginx does); the
 *              sender waits for an answer after each burst, so that what the last edge of one does not tell is lost
 *   early      the same where the client receives, which has registered its socket before it connected it, as nginx does
 *   alone      nobody receives: the process that has the other end is killed, and the tester sends on
 */
#include "common.h"

#define TOTAL (32u << 20)
#define WANT 100000
#define PIECES 40

static char buffer[16 << 20];
static int set = -1;

static bool in_bursts(void) { return mode_is("bursts") || mode_is("early"); }

static void watch(int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

void unconnected(int fd) {
    if (mode_is("early"))
        watch(fd);
}

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

/* Less than that; each side has its own. */
static size_t next_below(size_t n) {
    static uint64_t state = SUM_START;
    return (size_t)(next_random(&state) >> 20) % n;
}

/* Where a burst that begins here ends, for both sides: as much as a ring, or TCP, or both, have room for. */
static uint64_t burst_end(uint64_t begin) {
    uint64_t state = SUM_START + begin;
    next_random(&state);
    return begin + (65536 << next_random(&state) % 7) + next_random(&state) % 65536;
}

/* Until an edge is needed for more. */
static size_t receive_by_count(int fd) {
    const size_t size = 4096 << next_below(5);
    size_t sum = 0;
    int left = -1;
    while (left != 0) {
        ssize_t n = recv(fd, buffer, size, 0);
        if (n < 0 && errno == EAGAIN)
            break;
        CHECK(MUST(n) > 0);
        sum += (size_t)n;
        if (left >= 0)
            left = n < left ? left - (int)n : 0;
        else if ((size_t)n == size)
            MUST(ioctl(fd, FIONREAD, &left));
        if ((size_t)n < size)
            break;
        /* As one that passes it on to somebody slower. */
        if (next_below(16) == 0)
            usleep((useconds_t)next_below(400));
    }
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
    struct epoll_event event;
    if (set < 0)
        watch(fd);
    uint64_t sum = 0, pauses = 0, burst = burst_end(0), total = in_bursts() ? 0 : TOTAL;
    while (total < TOTAL)
        total = burst_end(total);
    while (sum < total) {
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
        if (in_bursts()) {
            sum += receive_by_count(fd);
            if (sum == burst) {
                write_all(fd, "d", 1);
                burst = burst_end(sum);
            }
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
    if (!in_bursts())
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
    char byte;
    set_nonblocking(fd, true);
    for (uint64_t sent = 0; sent < TOTAL;) {
        for (uint64_t end = in_bursts() ? burst_end(sent) : TOTAL, n; sent < end; sent += n)
            write_all(fd, data, n = end - sent < sizeof data ? end - sent : sizeof data);
        read_exact(fd, &byte, 1);
    }
}
