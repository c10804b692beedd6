/*
 * A thread waits in an epoll set that another one closes. The number is another set then, in which the other one waits: each
 * hears of its own, and the first wait goes on as long as it would have.
 *   timed     it ends by its time
 *   forever   it ends by a signal
 *   copy      the set has another number, which stays open
 */
#include "common.h"

static int old;
static volatile pid_t waiter;
static volatile bool over;

static void ignore(int signal) { (void)signal; }

static void *waits(void *unused) {
    (void)unused;
    struct epoll_event event;
    waiter = gettid();
    ssize_t n = epoll_wait(old, &event, 1, mode_is("forever") ? -1 : 1500);
    over = true;
    outcome("in the closed set", n);
    return NULL;
}

static void hear(int set, int fd) {
    struct epoll_event event;
    char buffer[10];
    CHECK(epoll_wait(set, &event, 1, 5000) == 1 && event.data.fd == fd);
    read_exact(fd, buffer, sizeof buffer);
}

void tester(int fd) {
    struct sigaction action = {.sa_handler = ignore};
    MUST(sigaction(SIGUSR1, &action, NULL));
    struct epoll_event event = {.events = EPOLLIN};
    old = MUST(epoll_create1(0));
    /* A set that never is ready, so that the wait is not the kernel's alone. */
    MUST(epoll_ctl(old, EPOLL_CTL_ADD, MUST(epoll_create1(0)), &event));
    int copy = mode_is("copy") ? MUST(dup(old)) : -1;
    pthread_t thread = start_thread(waits, NULL);
    /* A time will not do: a thread that has not come that far yet would wait in the next set. */
    await_sleep(&waiter);
    close(old);
    int set = MUST(epoll_create1(0));
    CHECK(set == old);
    event.data.fd = fd;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 3; i++) {
        ask(fd, 10);
        hear(set, fd);
    }
    /* Both sleep; but for the copy, the time of the first one is over before the second one is spoken to. */
    ask_later(fd, 10, mode_is("copy") ? 1200 : 2000);
    hear(set, fd);
    if (mode_is("forever")) {
        CHECK(!over);
        pthread_kill(thread, SIGUSR1);
    }
    pthread_join(thread, NULL);
    say("heard all");
    if (copy >= 0)
        close(copy);
    close(set);
}
