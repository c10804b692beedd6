/*
 * Signals and cancellation meet a blocked call.
 *   eintr       a handler without SA_RESTART: recv, poll, epoll_wait and select return EINTR
 *   restart     with SA_RESTART recv goes on and gets its data
 *   eintr_fault, restart_fault   the same by the signal of a fault that somebody sends
 *   restart_long   for longer than a wait sleeps before it looks again
 *   alone_...   the same of a program that has one thread: the signals are a timer's
 *   part        with a part of what MSG_WAITALL asks for it does not
 *   send        a blocked send with something already taken returns that, else EINTR
 *   slow, slow_restart, slow_limit   so does one whose receiver takes a little all the time, by a handler without
 *               SA_RESTART, by one with it, or when SO_SNDTIMEO is over
 *   slow_shutdown, slow_other    another thread shuts down beside such a send, or sends what is not to wait
 *   cancel      pthread_cancel of a thread blocked in recv; the connection stays usable
 *   busy        pthread_cancel of a thread that only sends, and need not wait
 *   sendfile    no point of cancellation: a thread that is to be cancelled sends its file first
 *   sendfile_jump   a handler jumps out of one that waits for room: the thread can be cancelled as before
 *   nothing     a blocked receive of no bytes ends by whatever wakes it
 */
#include "common.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/time.h>

static volatile sig_atomic_t signals;
static volatile bool returned;
static pthread_t main_thread;
static int connection;
static int the_signal = SIGUSR1;
static bool alone;
static pthread_t signaller;

static void count_signal(int number) {
    (void)number;
    signals++;
}

static void handle(int flags) {
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};
    MUST(sigaction(the_signal, &action, NULL));
}

/* One signal could come before the call blocks, so they go on until it has returned. */
static void *signal_until_returned(void *unused) {
    while (!returned) {
        sleep_ms(20);
        if (!returned)
            pthread_kill(main_thread, the_signal);
    }
    return unused;
}

static void set_timer(suseconds_t us) {
    struct itimerval every = {{0, us}, {0, us}};
    MUST(setitimer(ITIMER_REAL, &every, NULL));
}

static void begin_signals(void) {
    returned = false;
    if (alone)
        set_timer(20000);
    else
        signaller = start_thread(signal_until_returned, NULL);
}

static void end_signals(void) {
    int error = errno;
    returned = true;
    if (alone)
        set_timer(0);
    else
        pthread_join(signaller, NULL);
    errno = error;
}

static ssize_t block_in(int call) {
    char buffer[10];
    struct pollfd entry = {.fd = connection, .events = POLLIN};
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(connection, &readable);
    if (call == 0)
        return recv(connection, buffer, sizeof buffer, 0);
    if (call == 1)
        return read(connection, buffer, sizeof buffer);
    if (call == 2)
        return poll(&entry, 1, -1);
    if (call == 3)
        return select(connection + 1, &readable, NULL, NULL, NULL);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, connection, &event));
    ssize_t n = epoll_wait(set, &event, 1, -1);
    int error = errno;
    close(set);
    errno = error;
    return n;
}

static void eintr(void) {
    static const char *const calls[] = {"recv", "read", "poll", "select", "epoll_wait"};
    for (int call = 0; call < 5; call++) {
        handle(call < 2 ? 0 : SA_RESTART); /* waiting for readiness is never restarted */
        begin_signals();
        ssize_t n = block_in(call);
        end_signals();
        outcome(calls[call], n);
    }
    char buffer[10];
    ask(connection, 10);
    outcome("afterwards", recv(connection, buffer, sizeof buffer, MSG_WAITALL));
}

static void restart(void) {
    char buffer[10];
    for (int i = 0; i < (mode_is("restart_long") ? 1 : 3); i++) {
        handle(SA_RESTART);
        signals = 0;
        ask_later(connection, 10, mode_is("restart_long") ? 2500 : 400);
        begin_signals();
        ssize_t n = recv(connection, buffer, sizeof buffer, MSG_WAITALL);
        end_signals();
        outcome("recv", n);
        say("interrupted meanwhile: %s", signals > 0 ? "yes" : "no");
    }
}

static void part(void) {
    char buffer[10];
    handle(SA_RESTART);
    ask(connection, 5);
    for (int waiting = 0; waiting < 5;)
        MUST(ioctl(connection, FIONREAD, &waiting));
    for (int peek = 1; peek >= 0; peek--) {
        begin_signals();
        ssize_t n = recv(connection, buffer, sizeof buffer, MSG_WAITALL | (peek ? MSG_PEEK : 0));
        end_signals();
        outcome(peek ? "peek" : "recv", n);
    }
}

static void blocked_send(void) {
    static char block[65536];
    uint64_t sent = 0;
    handle(0);
    begin_signals();
    ssize_t n;
    while ((n = send(connection, block, sizeof block, 0)) > 0)
        sent += (uint64_t)n;
    end_signals();
    say("send: %s", n < 0 ? strerrorname_np(errno) : "0");
    mark("sent", sent);
    MUST(shutdown(connection, SHUT_WR));
    CHECK(read(connection, block, 1) == 0);
}

enum { MANY = 64 << 20, LITTLE = 1000 };

static uint64_t sent_beside;

/* On TCP a send that waits for room keeps nobody out. The receiver takes seven seconds for all of it. */
static void *act_beside(void *unused) {
    sleep_ms(50);
    uint64_t start = now_ms();
    if (mode_is("slow_shutdown"))
        MUST(shutdown(connection, SHUT_WR));
    else
        sent_beside = write_some(connection, "", 1);
    say("at once: %s", now_ms() - start < 3000 ? "yes" : "no");
    return mode_is("slow_other") ? signal_until_returned(unused) : unused;
}

/* On TCP a signal ends it where it waits for room, and what went out until then is its result. */
static void send_to_a_slow_one(void) {
    char *block = calloc(1, MANY);
    CHECK(block);
    handle(mode_is("slow_restart") || mode_is("slow_other") ? SA_RESTART : 0);
    if (mode_is("slow_limit")) {
        struct timeval limit = {0, 50000};
        MUST(setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    } else {
        bool beside = mode_is("slow_shutdown") || mode_is("slow_other");
        signaller = start_thread(beside ? act_beside : signal_until_returned, NULL);
    }
    mark("begun", 1);
    ssize_t n = send(connection, block, MANY, 0);
    returned = true;
    if (signaller)
        pthread_join(signaller, NULL);
    say("a part of it: %s", n > 0 && n < MANY ? "yes" : "no");
    mark("sent", (n > 0 ? (uint64_t)n : 0) + sent_beside);
    if (!mode_is("slow_shutdown"))
        MUST(shutdown(connection, SHUT_WR));
    CHECK(read(connection, block, 1) == 0);
    free(block);
}

/* Takes a little, rests, and takes all when the sender is done. */
static void take_slowly(void) {
    static char some[LITTLE];
    uint64_t sum = 0;
    await_mark("begun");
    for (ssize_t n; !is_marked("sent");) {
        struct pollfd entry = {.fd = connection, .events = POLLIN};
        MUST(poll(&entry, 1, 10));
        if ((n = recv(connection, some, sizeof some, MSG_DONTWAIT)) > 0)
            sum += (uint64_t)n;
        usleep(100);
    }
    uint64_t sent = await_mark("sent");
    say("all arrived: %s", sum + read_to_eof(connection, NULL) == sent ? "yes" : "no");
}

static void *receive_for_ever(void *unused) {
    char byte;
    CHECK(recv(connection, &byte, 1, 0) == -2); /* it never returns */
    return unused;
}

static void cancel(void) {
    char buffer[10];
    for (int i = 0; i < 5; i++) {
        void *result = NULL;
        pthread_t thread = start_thread(receive_for_ever, NULL);
        sleep_ms(i * 10); /* cancelled before it blocks, or while it does */
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        say("cancelled: %s", result == PTHREAD_CANCELED ? "yes" : "no");
        ask(connection, 10);
        outcome("recv", recv(connection, buffer, sizeof buffer, MSG_WAITALL));
    }
}

static void *send_for_ever(void *unused) {
    char piece[16] = "";
    uint64_t end = now_ms() + 5000;
    while (now_ms() < end) {
        MUST(send(connection, piece, sizeof piece, 0));
        /* No point of cancellation, and time for the receiver: nothing is ever full. */
        for (int i = 0; i < 50; i++)
            sched_yield();
    }
    return unused;
}

static void cancel_busy(void) {
    for (int i = 0; i < 3; i++) {
        void *result = NULL;
        pthread_t thread = start_thread(send_for_ever, NULL);
        sleep_ms(i * 5);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        say("cancelled: %s", result == PTHREAD_CANCELED ? "yes" : "no");
    }
}

enum { FILE_SIZE = 1 << 20 };

static ssize_t sent_of_file = -1;
static off_t offset;

static void *send_a_file(void *unused) {
    int file = MUST(memfd_create("file", MFD_CLOEXEC));
    MUST(ftruncate(file, FILE_SIZE));
    pthread_cancel(pthread_self());
    sent_of_file = sendfile(connection, file, &offset, FILE_SIZE);
    pthread_testcancel();
    return unused;
}

static void cancel_sendfile(void) {
    void *result = NULL;
    pthread_t thread = start_thread(send_a_file, NULL);
    CHECK(pthread_join(thread, &result) == 0);
    say("cancelled: %s", result == PTHREAD_CANCELED ? "yes" : "no");
    outcome("sendfile", sent_of_file);
    outcome("offset", (ssize_t)offset);
}

static sigjmp_buf landing;

static void jump(int number) {
    (void)number;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    pthread_setcancelstate(state, NULL);
    say("inside: %s", state == PTHREAD_CANCEL_ENABLE ? "enabled" : "disabled");
    siglongjmp(landing, 1);
}

/* The receiver takes nothing meanwhile. */
static void jump_out_of_sendfile(void) {
    int state, file = MUST(memfd_create("file", MFD_CLOEXEC));
    MUST(ftruncate(file, MANY));
    struct sigaction action = {.sa_handler = jump};
    MUST(sigaction(SIGUSR1, &action, NULL));
    if (sigsetjmp(landing, 1) == 0) {
        start_thread(signal_until_returned, NULL);
        for (off_t at = 0; at < MANY;)
            MUST(sendfile(connection, file, &at, MANY));
        say("all was sent");
    }
    returned = true;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0);
    say("behind it: %s", state == PTHREAD_CANCEL_ENABLE ? "enabled" : "disabled");
    mark("over", 1);
}

/* Linux looks for bytes once, waits, and returns 0 whatever it was that ended that: there is no room that would be left. */
static void nothing(void) {
    char buffer[1];
    for (int i = 0; i < 4; i++) {
        handle(i % 2 ? SA_RESTART : 0);
        begin_signals();
        ssize_t n = recv(connection, buffer, 0, i < 2 ? 0 : MSG_PEEK | MSG_WAITALL);
        end_signals();
        outcome("a signal", n);
    }
    struct timeval limit = {.tv_usec = 30000}, none = {0};
    MUST(setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    outcome("a time limit", recv(connection, buffer, 0, 0));
    outcome("a time limit of one byte", recv(connection, buffer, 1, 0));
    outcome("without a wait", recv(connection, buffer, 0, MSG_DONTWAIT));
    MUST(setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    ask_later(connection, 1, 30);
    outcome("a byte", recv(connection, buffer, 0, 0));
    outcome("that byte", recv(connection, buffer, 1, 0));
    ask_shutdown(connection);
    outcome("the end", recv(connection, buffer, 0, 0));
}

void tester(int fd) {
    connection = fd;
    main_thread = pthread_self();
    if (strncmp(program_argv[3], "alone_", 6) == 0) {
        alone = true;
        the_signal = SIGALRM;
        program_argv[3] += 6;
    }
    if (mode_is("eintr_fault") || mode_is("restart_fault"))
        the_signal = SIGSEGV;
    if (mode_is("eintr") || mode_is("eintr_fault"))
        eintr();
    else if (mode_is("restart") || mode_is("restart_fault") || mode_is("restart_long"))
        restart();
    else if (mode_is("part"))
        part();
    else if (mode_is("send"))
        blocked_send();
    else if (mode_is("busy"))
        cancel_busy();
    else if (mode_is("sendfile"))
        cancel_sendfile();
    else if (mode_is("sendfile_jump"))
        jump_out_of_sendfile();
    else if (mode_is("nothing"))
        nothing();
    else if (strncmp(program_argv[3], "slow", 4) == 0)
        send_to_a_slow_one();
    else
        cancel();
}

void helper(int fd) {
    if (mode_is("sendfile_jump"))
        await_mark("over");
    if (mode_is("busy") || mode_is("sendfile") || mode_is("sendfile_jump")) {
        read_to_eof(fd, NULL);
        return;
    }
    if (strncmp(program_argv[3], "slow", 4) == 0) {
        connection = fd;
        take_slowly();
        return;
    }
    if (!mode_is("send")) {
        serve_asks(fd);
        return;
    }
    uint64_t sent = await_mark("sent");
    say("all arrived: %s", read_to_eof(fd, NULL) == sent ? "yes" : "no");
}
