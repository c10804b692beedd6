/*
 * A thread ends in the middle of a send: what it had taken for that is not taken for ever.
 *   handler  a signal handler calls pthread_exit
 *   cancel   it is cancelled, asynchronously
 *   first    the process's first thread ends, in a handler inside a send; the others go on
 * The other side takes all that comes.
 */
#include "common.h"

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

void tester(int fd) {
    connection = fd;
    struct sigaction action = {.sa_handler = end_thread};
    MUST(sigaction(SIGUSR1, &action, NULL));
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
            ;
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
    read_to_eof(fd, NULL);
    say("took it all");
}
