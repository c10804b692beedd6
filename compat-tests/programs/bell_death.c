/*
 * A sender is killed in the very moment at which it wakes the receiver; a relative keeps the connection open.
 *   same    the relative sends on the same connection: it is heard, and so is everything after it
 *   other   the relative sends on another one, watched by the same epoll set
 * Natively the sender kills itself after its send. With a channel, a filter kills it at the doorbell.
 */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ROUNDS 3
#define GREETING 10

/* Ends this process at sendto(fd, p, 1, MSG_DONTWAIT | MSG_NOSIGNAL), which no program here calls. */
static void die_at_the_bell(void) {
#define AT(field) (offsetof(struct seccomp_data, field))
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void send_in_a_dying_child(int fd) {
    pid_t child = MUST(fork());
    if (child == 0) {
        char x[GREETING];
        memset(x, 'x', sizeof x);
        die_at_the_bell();
        send(fd, x, sizeof x, 0);
        kill(getpid(), SIGKILL);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    CHECK(WIFSIGNALED(status));
}

static void send_greeting(int fd) {
    char y[GREETING];
    memset(y, 'y', sizeof y);
    write_all(fd, y, sizeof y);
}

/* What the dead one has sent may have come or not, but whole and before it. */
static void hear_greeting(int fd) {
    char first[GREETING];
    read_exact(fd, first, sizeof first);
    if (*first == 'x')
        read_exact(fd, first, sizeof first);
    for (int i = 0; i < GREETING; i++)
        CHECK(first[i] == 'y');
}

static void serve(int fd) {
    uint8_t buffer[100];
    for (int i = 0; i < 100; i++) {
        read_exact(fd, buffer, sizeof buffer);
        write_all(fd, buffer, sizeof buffer);
    }
}

static void ask_all(int fd) {
    for (int i = 0; i < 100; i++)
        exchange(fd, 100, (uint64_t)i);
}

/* Echoes on all of them as epoll reports, so that the set knows them well; n messages each. */
static void serve_by_epoll(int set, int n) {
    for (int left = n; left > 0; left--) {
        struct epoll_event got;
        char buffer[100];
        CHECK(epoll_wait(set, &got, 1, 20000) == 1);
        read_exact(got.data.fd, buffer, sizeof buffer);
        write_all(got.data.fd, buffer, sizeof buffer);
    }
}

void server(void) {
    int listener = listen_here(), fds[2];
    fds[0] = accepted(listener);
    if (mode_is("same")) {
        for (int i = 0; i < ROUNDS; i++) {
            serve(fds[0]);
            hear_greeting(fds[0]);
        }
        serve(fds[0]);
        say("heard all");
        return;
    }
    fds[1] = accepted(listener);
    int set = MUST(epoll_create1(0));
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event));
    }
    for (int i = 0; i < ROUNDS; i++) {
        serve_by_epoll(set, 200);
        struct epoll_event got;
        char x[GREETING];
        bool dead_heard = false;
        do { /* the dead one's may come before */
            CHECK(epoll_wait(set, &got, 1, 20000) == 1);
            if (got.data.fd == fds[0]) {
                read_exact(fds[0], x, sizeof x);
                CHECK(*x == 'x' && !dead_heard);
                dead_heard = true;
            }
        } while (got.data.fd != fds[1]);
        read_exact(fds[1], x, sizeof x);
        CHECK(*x == 'y');
        mark(i % 2 ? "heard1" : "heard0", (uint64_t)i);
        /* what the relative says on the first connection follows whatever was said there */
        hear_greeting(fds[0]);
    }
    say("heard all");
}

void client(void) {
    int first = connected();
    if (mode_is("same")) {
        for (int i = 0; i < ROUNDS; i++) {
            ask_all(first);
            sleep_ms(20); /* the other side is asleep by now */
            send_in_a_dying_child(first);
            send_greeting(first);
        }
        ask_all(first);
        say("said all");
        return;
    }
    int second = connected();
    for (int i = 0; i < ROUNDS; i++) {
        ask_all(first);
        ask_all(second);
        sleep_ms(20);
        send_in_a_dying_child(first);
        send_greeting(second);
        while (await_mark(i % 2 ? "heard1" : "heard0") != (uint64_t)i)
            sleep_ms(1);
        send_greeting(first);
    }
    say("said all");
}
