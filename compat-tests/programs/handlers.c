/*
 * A signal handler receives on the socket whose receive it interrupts; everything is received once.
 *   dontwait   the program receives with MSG_DONTWAIT, and waits in poll
 *   blocking   the program's receives block
 *   peek       it peeks before each receive
 */
#include "common.h"

#define TOTAL (6u << 20)

static int connection;
/* Order-independent, because a handler runs in the middle of everything. */
static volatile uint64_t taken, sum;

static void count(const uint8_t *at, ssize_t n) {
    uint64_t s = 0;
    for (ssize_t i = 0; i < n; i++)
        s += at[i] * 257u + 1;
    taken += (uint64_t)n;
    sum += s;
}

static void receive_too(int number) {
    (void)number;
    static uint64_t state = 5;
    uint8_t buffer[3000];
    int error = errno;
    ssize_t n = recv(connection, buffer, 1 + next_random(&state) % sizeof buffer, MSG_DONTWAIT);
    CHECK(n >= 0 || errno == EAGAIN);
    if (n > 0)
        count(buffer, n);
    errno = error;
}

/* Counted with the handler held off, or what it counts meanwhile would be lost. */
static void counted(const sigset_t *alarms, const uint8_t *at, ssize_t n) {
    MUST(sigprocmask(SIG_BLOCK, alarms, NULL));
    count(at, n);
    MUST(sigprocmask(SIG_UNBLOCK, alarms, NULL));
}

void tester(int fd) {
    static uint8_t buffer[20000];
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    uint64_t state = 9;
    sigset_t alarms;
    connection = fd;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGUSR2);
    struct sigaction action = {.sa_handler = receive_too, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR2, &action, NULL));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct itimerspec often = {.it_interval = {0, 150000}, .it_value = {0, 150000}};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(timer_settime(timer, 0, &often, NULL));
    for (;;) {
        size_t room = 1 + next_random(&state) % sizeof buffer;
        if (mode_is("peek") && recv(fd, buffer, room, MSG_PEEK | MSG_DONTWAIT) < 0)
            CHECK(errno == EAGAIN);
        ssize_t n = recv(fd, buffer, room, mode_is("dontwait") ? MSG_DONTWAIT : 0);
        if (n > 0) {
            counted(&alarms, buffer, n);
        } else if (n == 0) {
            break;
        } else {
            /* a blocking one never says EAGAIN: it is not inside a handler */
            CHECK(errno == EINTR || (mode_is("dontwait") && errno == EAGAIN));
            CHECK(poll(&entry, 1, -1) == 1 || errno == EINTR);
        }
    }
    timer_delete(timer);
    say("received %llu bytes, sum %llu", (unsigned long long)taken, (unsigned long long)sum);
}

void helper(int fd) {
    static uint8_t chunk[40000];
    uint64_t state = 7, sent = 0;
    while (sent < TOTAL) {
        size_t n = 1 + next_random(&state) % (next_random(&state) % 4 ? 500 : sizeof chunk);
        for (size_t i = 0; i < n; i++)
            chunk[i] = pattern(sent + i);
        write_all(fd, chunk, n);
        sent += n;
    }
    MUST(shutdown(fd, SHUT_WR));
    CHECK(read(fd, chunk, 1) == 0);
}
