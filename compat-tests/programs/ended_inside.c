/*
 * A thread ends in the middle of a send: what it had taken for that is not taken for ever.
 *   handler  a signal handler calls pthread_exit
 *   cancel   it is cancelled, asynchronously
 *   first    the process's first thread ends, in a handler inside a send; the others go on
 * The other side takes all that comes.
 *
 * And in the middle of a wait that finds something at once; argument 1: it is cancelled, asynchronously. The others wait as
 * before, and hear of all that the other side is asked for.
 *   epoll    epoll_wait
 *   poll     poll
 *   select   select
 *   nested   poll of an epoll set
 */
#include "common.h"

#include <sched.h>
#include <sys/select.h>

#define ENDS 60

static int connection;
static volatile bool going;
static pthread_t first;
static void finish(void);

static void end_thread(int number) {
    (void)number;
    pthread_exit(NULL);
}

static void *send_for_ever(void *unused) {
    static __thread char data[64];
    int type;
    if (mode_is("cancel"))
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    going = true;
    for (;;)
        if (send(connection, data, sizeof data, MSG_NOSIGNAL) < 0)
            return unused;
}

/* Within the time that programs wait for an answer. */
static bool a_send_comes_through(void) {
    char data[64] = "";
    uint64_t before = now_ms();
    CHECK(send(connection, data, sizeof data, MSG_NOSIGNAL) == sizeof data);
    return now_ms() - before < 5000;
}

static void *end_the_first(void *unused) {
    sleep_ms(20);
    pthread_kill(first, SIGUSR1);
    pthread_join(first, NULL);
    say("the rest goes on: %s", a_send_comes_through() ? "yes" : "no");
    finish();
    exit(0);
    return unused;
}

static void finish(void) {
    MUST(shutdown(connection, SHUT_WR));
    char byte;
    say("the peer's end: %zd", read(connection, &byte, 1));
}

static int set;

static void *wait_for_ever(void *unused) {
    struct epoll_event event;
    int type;
    if (argument(0, 0))
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    for (;;) {
        struct pollfd two[2] = {{.fd = mode_is("nested") ? set : connection, .events = POLLIN}, {.fd = 0, .events = 0}};
        if (mode_is("epoll")) {
            epoll_wait(set, &event, 1, 1000);
        } else if (mode_is("select")) {
            struct timeval second = {1, 0};
            fd_set fds;
            FD_ZERO(&fds);
            FD_SET(connection, &fds);
            select(connection + 1, &fds, NULL, NULL, &second);
        } else {
            poll(two, 2, 1000);
        }
        going = true;
    }
    return unused;
}

/* A wait of each kind hears of what is asked for, within the time that programs wait for an answer. */
static bool is_heard_of(int kind) {
    struct epoll_event event;
    struct pollfd entry = {.fd = kind == 1 ? connection : set, .events = POLLIN};
    uint64_t before = now_ms();
    ask(connection, 10);
    CHECK(MUST(kind == 0 ? epoll_wait(set, &event, 1, 10000) : poll(&entry, 1, 10000)) == 1);
    return now_ms() - before < 5000;
}

static void take(void) {
    char data[10];
    read_exact(connection, data, sizeof data);
}

static void wait_and_end(void) {
    struct epoll_event event = {.events = EPOLLIN};
    set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, connection, &event));
    int late = 0;
    for (unsigned i = 0; i < 3 * ENDS; i++) {
        for (int k = 0; k < 3; k++) {
            late += !is_heard_of(k == 0 ? (int)i % 3 : 0);
            if (k < 2)
                take();
        }
        going = false;
        pthread_t thread = start_thread(wait_for_ever, NULL);
        while (!going)
            sched_yield(); /* it may need this processor */
        usleep(i % 50);
        if (argument(0, 0))
            pthread_cancel(thread);
        else
            pthread_kill(thread, SIGUSR1);
        pthread_join(thread, NULL);
        take();
    }
    say("heard of late: %d", late);
}

void tester(int fd) {
    connection = fd;
    struct sigaction action = {.sa_handler = end_thread};
    MUST(sigaction(SIGUSR1, &action, NULL));
    if (mode_is("epoll") || mode_is("poll") || mode_is("select") || mode_is("nested")) {
        wait_and_end();
        return finish();
    }
    if (mode_is("first")) {
        first = pthread_self();
        start_thread(end_the_first, NULL);
        send_for_ever(NULL);
    }
    int late = 0;
    for (unsigned i = 0; i < ENDS; i++) {
        going = false;
        pthread_t thread = start_thread(send_for_ever, NULL);
        while (!going)
            sched_yield(); /* it may need this processor */
        usleep(i % 50);
        if (mode_is("cancel"))
            pthread_cancel(thread);
        else
            pthread_kill(thread, SIGUSR1);
        pthread_join(thread, NULL);
        late += !a_send_comes_through();
    }
    say("sends that came late: %d", late);
    finish();
}

void helper(int fd) {
    if (mode_is("epoll") || mode_is("poll") || mode_is("select") || mode_is("nested"))
        serve_asks(fd);
    else
        read_to_eof(fd, NULL);
    say("took it all");
}
