/*
 * A program driven by SIGIO: its handler reads what has come. Modes, for how it is asked for: fcntl (O_ASYNC),
 * ioctl (FIOASYNC), before (O_ASYNC is set before the connection is made), queued (a real-time signal that names
 * the descriptor), off (asked for and taken back: the program reads as ever).
 */
#include "common.h"

#define ROUNDS 100

static int connection;
static volatile uint64_t taken;
static volatile sig_atomic_t signals;

static void read_all(int number, siginfo_t *info, void *unused) {
    (void)unused;
    char buffer[4096];
    int error = errno;
    signals++;
    if (mode_is("queued") && number != SIGIO && info->si_fd != connection)
        return;
    for (ssize_t n; (n = recv(connection, buffer, sizeof buffer, MSG_DONTWAIT)) > 0; taken += (uint64_t)n)
        if (!is_pattern(buffer, (size_t)n, taken))
            abort();
    errno = error;
}

static void ask_for_signals(int fd, bool on) {
    struct sigaction action = {.sa_sigaction = read_all, .sa_flags = SA_SIGINFO | SA_RESTART};
    MUST(sigaction(SIGIO, &action, NULL));
    MUST(sigaction(SIGRTMIN, &action, NULL));
    if (mode_is("queued"))
        MUST(fcntl(fd, F_SETSIG, SIGRTMIN));
    MUST(fcntl(fd, F_SETOWN, getpid()));
    int yes = on, flags = MUST(fcntl(fd, F_GETFL));
    if (mode_is("ioctl"))
        MUST(ioctl(fd, FIOASYNC, &yes));
    else
        MUST(fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC));
    say("O_ASYNC: %s", MUST(fcntl(fd, F_GETFL)) & O_ASYNC ? "yes" : "no");
}

static void driven(int fd) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    uint64_t start = taken;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        MUST(sigprocmask(SIG_SETMASK, &all, NULL)); /* the answer's signal waits for the suspension */
        ask(fd, 100);
        while (taken < start + round * 100)
            sigsuspend(&none);
        MUST(sigprocmask(SIG_SETMASK, &none, NULL));
    }
    say("%llu bytes by signals", (unsigned long long)(taken - start));
}

static void plain_reads(int fd) {
    char buffer[100];
    for (int i = 0; i < 200; i++) {
        ask(fd, sizeof buffer);
        read_exact(fd, buffer, sizeof buffer);
        CHECK(is_pattern(buffer, sizeof buffer, taken));
        taken += sizeof buffer;
    }
}

void tester(int fd) {
    connection = fd;
    if (!mode_is("before")) {
        plain_reads(fd); /* a receiver that is used to looking at its ring */
        ask_for_signals(fd, true);
    }
    if (mode_is("off")) {
        ask_for_signals(fd, false);
        plain_reads(fd);
    } else {
        driven(fd);
    }
    say("signals: %s", signals > 0 ? "yes" : "no");
    signal(SIGIO, SIG_IGN); /* the end of the connection is one too */
    signal(SIGRTMIN, SIG_IGN);
}

static bool tests(void) { return is_client == (getenv("COMPAT_SWAP") && *getenv("COMPAT_SWAP") == '1'); }

/* Blocked for now: the handler would take the first exchanges' bytes. */
static void early(int fd) {
    sigset_t all;
    sigfillset(&all);
    if (mode_is("before") && tests()) {
        MUST(sigprocmask(SIG_SETMASK, &all, NULL));
        ask_for_signals(fd, true);
    }
}

static void use(int fd) {
    connection = fd;
    warm_up(fd);
    if (tests())
        tester(fd);
    else
        serve_asks(fd);
    close(fd);
}

void server(void) {
    int fd = MUST(accept(listen_here(), NULL, NULL));
    early(fd);
    use(fd);
}

void client(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    early(fd);
    MUST(connect(fd, (void *)&address, length));
    use(fd);
}
