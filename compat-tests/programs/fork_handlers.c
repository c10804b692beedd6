/*
 * Forks of a program with threads beside one that uses an epoll set, with handlers of pthread_atfork that were registered before
 * any library's own: they come first behind a fork, and last before it.
 *   locks      they hold a mutex over the fork, in which the other thread uses the set
 *   sets       they use the set, in parent and child
 *   signals    they do nothing; handlers of signals use it
 *   vfork      clone with CLONE_VFORK, and memory of its own: the child ends late
 *   mask       the child's signal mask is its parent's
 */
#include "common.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#define FORKS 60
/* A wake-up that was lost is found in a second. */
#define LATE_MS 500

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int set = -1, used[2] = {-1, -1};
static uint64_t taken;
static atomic_bool over;

static void control(int op, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(set, op, fd, &event));
}

/* In whatever handler: the set is changed, and is as it was. */
static void use_the_set(int fd) {
    int error = errno;
    control(EPOLL_CTL_ADD, fd, EPOLLIN);
    control(EPOLL_CTL_DEL, fd, 0);
    errno = error;
}

static void prepare(void) {
    if (set >= 0 && mode_is("locks"))
        pthread_mutex_lock(&mutex);
    if (set >= 0 && mode_is("sets"))
        use_the_set(used[0]);
}

/* Behind the fork, with a descriptor of the process's own. */
static void either(int fd) {
    if (set >= 0 && mode_is("sets"))
        use_the_set(fd);
    if (set >= 0 && mode_is("locks"))
        pthread_mutex_unlock(&mutex);
}

static void parent(void) { either(used[0]); }

static void child(void) { either(used[1]); }

static void early(void) { pthread_atfork(prepare, parent, child); }

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;

static void *control_often(void *fd) {
    while (!over) {
        pthread_mutex_lock(&mutex);
        control(EPOLL_CTL_MOD, *(int *)fd, EPOLLIN);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void handler(int signal) {
    (void)signal;
    use_the_set(used[0]);
}

/* A byte more on a connection is told in time. */
static void rounds(int fd, int count) {
    int late = 0;
    for (int i = 0; i < count; i++) {
        struct epoll_event event;
        char byte[10];
        uint64_t before = now_ms();
        ask_later(fd, sizeof byte, i % 2);
        while (MUST(epoll_wait(set, &event, 1, 5000)) != 1 || event.data.fd != fd)
            CHECK(now_ms() - before < 10000);
        late += now_ms() - before > LATE_MS;
        read_exact(fd, byte, sizeof byte);
        CHECK(is_pattern(byte, sizeof byte, taken));
        taken += sizeof byte;
    }
    say("late: %d", late);
}

static void fork_often(int count) {
    for (int i = 0; i < count; i++) {
        pid_t pid = MUST(fork());
        if (pid == 0)
            _exit(0);
        join_child(pid);
    }
}

static void *clone_slowly(void *unused) {
    pid_t pid = (pid_t)MUST(syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0));
    if (pid == 0) {
        sleep_ms(1500); /* longer than is too long below */
        _exit(0);
    }
    over = true;
    join_child(pid);
    return unused;
}

static pid_t forked(int how) {
    switch (how) {
    case 0:
        return fork();
    case 1:
        return _Fork();
    default:
        return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    }
}

static void check_masks(void) {
    sigset_t blocked, now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    CHECK(pthread_sigmask(SIG_SETMASK, &blocked, NULL) == 0);
    for (int how = 0; how < 3; how++) {
        pid_t pid = MUST(forked(how));
        CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
        for (int signal = 1; signal < NSIG; signal++)
            CHECK(sigismember(&now, signal) == (signal == SIGUSR2) || sigismember(&now, signal) < 0);
        if (pid == 0)
            _exit(0);
        join_child(pid);
    }
}

void tester(int fd) {
    set = MUST(epoll_create1(0));
    MUST(pipe(used));
    control(EPOLL_CTL_ADD, fd, EPOLLIN);
    rounds(fd, 20);
    if (mode_is("mask"))
        check_masks();
    if (mode_is("locks") || mode_is("sets")) {
        pthread_t other = start_thread(control_often, &fd);
        fork_often(FORKS);
        over = true;
        CHECK(pthread_join(other, NULL) == 0);
    }
    if (mode_is("signals")) {
        const struct itimerspec often = {{0, 1000000}, {0, 1000000}};
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        sigset_t usr1;
        timer_t timer;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0);
        pthread_t other = start_thread(control_often, &fd);
        MUST(sigaction(SIGUSR1, &action, NULL));
        MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
        MUST(timer_settime(timer, 0, &often, NULL));
        CHECK(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL) == 0);
        fork_often(FORKS);
        MUST(timer_delete(timer));
        over = true;
        CHECK(pthread_join(other, NULL) == 0);
    }
    if (mode_is("vfork")) {
        pthread_t other = start_thread(clone_slowly, NULL);
        uint64_t longest = 0;
        while (!over) {
            uint64_t before = now_ms();
            control(EPOLL_CTL_MOD, fd, EPOLLIN);
            sleep_ms(1);
            longest = now_ms() - before > longest ? now_ms() - before : longest;
        }
        CHECK(pthread_join(other, NULL) == 0);
        say("goes on: %s", longest < 1000 ? "yes" : "no");
    }
    rounds(fd, 20);
}
