/*
 * Signals that come just after a call began, while the shim may still look in user space; and what a program is told of
 * its own handlers.
 *   look    a handler ends a receive with EINTR, also one with SA_RESTART, where there is a time limit
 *   poll, select, epoll   any handler ends a wait, with SA_RESTART or without
 *   masks   what a wait's own mask lets through ends it, also what came before
 *   asked   sigaction, signal and siginterrupt tell of the program's own handlers, which get what the kernel gives
 */
#include "common.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

/* Programs call siginterrupt and sigset all the same. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int connection;
static volatile sig_atomic_t ran, number, value;
static volatile uint64_t when;

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note(int signal) {
    number = signal;
    when = nanoseconds();
    ran++;
}

static void note_more(int signal, siginfo_t *info, void *context) {
    value = context ? info->si_value.sival_int : -1;
    note(signal);
}

static void another(int signal) { (void)signal; }

static void set(int flags, void *handler) {
    struct sigaction action = {.sa_flags = flags};
    if (flags & SA_SIGINFO)
        action.sa_sigaction = (void (*)(int, siginfo_t *, void *))handler;
    else
        action.sa_handler = (void (*)(int))handler;
    MUST(sigaction(SIGUSR1, &action, NULL));
}

/* One call that waits for a byte, 30 ms at most. */
static int receive(void) {
    char byte;
    return (int)recv(connection, &byte, 1, 0);
}

static int poll_it(void) {
    struct pollfd one = {connection, POLLIN, 0};
    int n = poll(&one, 1, 30);
    if (n == 0) errno = EAGAIN;
    return n == 0 ? -1 : n;
}

static int select_it(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(connection, &set);
    struct timeval limit = {0, 30000};
    int n = select(connection + 1, &set, NULL, NULL, &limit);
    if (n == 0) errno = EAGAIN;
    return n == 0 ? -1 : n;
}

static int set_of_one = -1;

static int epoll_it(void) {
    struct epoll_event event = {.events = EPOLLIN};
    int n = epoll_wait(set_of_one, &event, 1, 30);
    if (n == 0) errno = EAGAIN;
    return n == 0 ? -1 : n;
}

/*
 * How many of a hundred signals that came during a call did not end it. One that came before it does not count. Less are enough
 * where many ended one, and none was slept through.
 */
static void look(const char *what, int (*call)(void)) {
    enum { TURNS = 100, ENOUGH = 20 };
    char bytes[64];
    int slept_through = 0, interrupted = 0, early = 0;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct timeval limit = {0, 30000};
    for (int i = 0; i < TURNS && (interrupted < ENOUGH || slept_through > 0); i++) {
        /* What looking is worth is learned from these. */
        MUST(setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 0}, sizeof limit));
        for (int k = 0; k < 20; k++) {
            write_all(connection, "0123456789", 10);
            for (int tries = 0; call != receive && call() != 1; tries++) CHECK(tries < 100);
            CHECK(recv(connection, bytes, 10, MSG_WAITALL) == 10);
        }
        MUST(setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
        struct itimerspec soon = {.it_value = {0, 60000}};
        int before = ran;
        MUST(timer_settime(timer, 0, &soon, NULL));
        for (uint64_t start = nanoseconds(); nanoseconds() - start < 40000;)
            ;
        uint64_t start = nanoseconds();
        int n = call();
        int error = errno;
        uint64_t end = nanoseconds();
        CHECK(n == -1 && (error == EINTR || error == EAGAIN));
        interrupted += error == EINTR;
        /* One who is woken by the signal and gets no processor before the limit is told of that first, and runs the handler then. */
        slept_through += error == EAGAIN && ran != before && when > start + 3000 && (int64_t)(end - when) > 10000000;
        early += ran != before && when <= start + 3000;
    }
    MUST(timer_delete(timer));
    /*
     * A processor that was taken away between the clock and the call makes a few. How often it is taken away, those tell that came
     * before the call, as the 40 us that were waited were longer.
     */
    say("%s: %s", what, slept_through <= TURNS / 10 + early / 4 ? "none is slept through" : "slept through");
    fprintf(stderr, "%d interrupted, %d slept through, %d early\n", interrupted, slept_through, early);
}

static void tell(const char *what, const void *handler) {
    const char *name = handler == (void *)note         ? "note"
                       : handler == (void *)note_more  ? "note_more"
                       : handler == (void *)another    ? "another"
                       : handler == (void *)SIG_DFL    ? "default"
                       : handler == (void *)SIG_IGN    ? "ignored"
                                                       : "unknown";
    say("%s: %s", what, name);
}

static void tell_action(const char *what, const struct sigaction *action) {
    tell(what, action->sa_flags & SA_SIGINFO ? (void *)action->sa_sigaction : (void *)action->sa_handler);
    say("%s: flags %x, SIGUSR2 masked %d", what, (unsigned)action->sa_flags & ~0x04000000u,
        sigismember(&action->sa_mask, SIGUSR2));
}

static void asked(void) {
    struct sigaction action = {.sa_handler = note}, former;
    sigaddset(&action.sa_mask, SIGUSR2);
    MUST(sigaction(SIGUSR1, &action, &former));
    tell_action("at first", &former);
    MUST(sigaction(SIGUSR1, NULL, &former));
    tell_action("set", &former);
    raise(SIGUSR1);
    say("ran %d with %d", (int)ran, (int)number == SIGUSR1);

    action = (struct sigaction){.sa_sigaction = note_more, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    MUST(sigaction(SIGUSR1, &action, &former));
    tell_action("replaced", &former);
    sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 47});
    say("ran %d with %d", (int)ran, (int)value);
    MUST(sigaction(SIGUSR1, NULL, &former));
    tell_action("reset by its one run", &former);

    set(0, note);
    tell("signal tells", (void *)signal(SIGUSR1, another));
    tell("signal tells", (void *)signal(SIGUSR1, SIG_IGN));
    set(0, note);
    tell("sysv_signal tells", (void *)sysv_signal(SIGUSR1, SIG_DFL));
    set(0, note);
    tell("sigset tells", (void *)sigset(SIGUSR1, another));

    /* One that hands on to the former one. */
    set(0, note);
    MUST(sigaction(SIGUSR1, NULL, &former));
    set(0, another);
    MUST(sigaction(SIGUSR1, &former, NULL));
    raise(SIGUSR1);
    say("restored, ran %d", (int)ran);
    MUST(siginterrupt(SIGUSR1, 0));
    MUST(sigaction(SIGUSR1, NULL, &former));
    tell_action("siginterrupt", &former);
    say("refused: %d", sigaction(SIGKILL, &action, NULL));

    pid_t child = MUST(fork());
    if (child == 0) {
        raise(SIGUSR1);
        _exit(ran);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("in a child: %d", WEXITSTATUS(status));
}

static void make_set(void) {
    set_of_one = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set_of_one, EPOLL_CTL_ADD, connection, &event));
}

/* A signal that is blocked but while a call waits, and was there before. */
static void masks(void) {
    sigset_t blocked, open;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &blocked, &open));
    make_set();
    char bytes[10];
    for (int flags = 0, round = 0; round < 2; flags = SA_RESTART, round++) {
        set(flags, note);
        int answers[6], n = 0;
        for (int call = 0; call < 3; call++)
            for (int there = 0; there < 2; there++) {
                for (int k = 0; k < 50; k++) {
                    write_all(connection, "0123456789", 10);
                    struct epoll_event event;
                    CHECK(epoll_wait(set_of_one, &event, 1, 1000) == 1);
                    if (there && k == 49) break;
                    CHECK(recv(connection, bytes, 10, MSG_WAITALL) == 10);
                }
                raise(SIGUSR1);
                struct pollfd one = {connection, POLLIN, 0};
                struct timespec limit = {1, 0};
                struct epoll_event event;
                fd_set set;
                FD_ZERO(&set);
                FD_SET(connection, &set);
                int got = call == 0   ? ppoll(&one, 1, &limit, &open)
                          : call == 1 ? pselect(connection + 1, &set, NULL, NULL, &limit, &open)
                                      : epoll_pwait(set_of_one, &event, 1, 1000, &open);
                answers[n++] = got < 0 ? -errno : got;
                if (there) CHECK(recv(connection, bytes, 10, MSG_WAITALL) == 10);
                /* What is ready comes first, and the signal waits. */
                sigset_t pending;
                MUST(sigpending(&pending));
                answers[n - 1] += sigismember(&pending, SIGUSR1) ? 100 : 0;
                MUST(sigprocmask(SIG_SETMASK, &open, NULL));
                MUST(sigprocmask(SIG_SETMASK, &blocked, NULL));
            }
        for (int i = 0; i < n; i += 2)
            say("nothing there: %s, bytes there: %d", answers[i] == -EINTR ? "EINTR" : "another", answers[i + 1]);
    }
}

/* The shim looks where the other end runs on another processor. */
static void go_apart(void) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    MUST(sched_getaffinity(0, sizeof all, &all));
    int skip = is_client ? 0 : CPU_COUNT(&all) - 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && skip-- == 0)
            CPU_SET(cpu, &one);
    MUST(sched_setaffinity(0, sizeof one, &one));
}

void tester(int fd) {
    connection = fd;
    go_apart();
    if (mode_is("asked")) {
        asked();
        return;
    }
    if (mode_is("masks")) {
        masks();
        return;
    }
    int (*call)(void) = mode_is("poll") ? poll_it : mode_is("select") ? select_it : mode_is("epoll") ? epoll_it : receive;
    if (call == epoll_it) make_set();
    set(0, note);
    look("plain", call);
    set(SA_SIGINFO | SA_NODEFER, note_more);
    look("with information", call);
    set(SA_RESTART, note);
    look("restarting", call);
    MUST(signal(SIGUSR1, note) == SIG_ERR ? -1 : 0);
    look("by signal", call);
}

void helper(int fd) {
    char bytes[16];
    go_apart();
    for (ssize_t n; (n = MUST(read(fd, bytes, sizeof bytes))) > 0;) write_all(fd, bytes, (size_t)n);
}
