/*
 * A connection shared with a child in a pid namespace of its own, where neither sees the other's number.
 *   child        the child uses the connection and ends; then the parent does
 *   close        the child closes its copy and lives on; the parent goes on meanwhile
 *   parent_ends  the parent closes its copy and waits; the child goes on, and a child of the child
 *   epoll        without a namespace: the child closes the parent's epoll set and the connection in it
 */
#include "common.h"

#include <sched.h>

static uint64_t taken;

static void use(int fd, int times) {
    char buffer[3000];
    for (int i = 0; i < times; i++) {
        size_t n = 1 + (size_t)i * 37 % sizeof buffer;
        ask(fd, (uint32_t)n);
        read_exact(fd, buffer, n);
        CHECK(is_pattern(buffer, n, taken));
        taken += n;
    }
}

/* Bytes that another process has taken. */
static void taken_elsewhere(int times) {
    for (int i = 0; i < times; i++)
        taken += 1 + (uint64_t)i * 37 % 3000;
}

/* Without the right to it, a plain fork: the rest must hold just so. */
static pid_t fork_elsewhere(void) {
    if (!mode_is("epoll") && unshare(CLONE_NEWPID) < 0)
        errno = 0;
    return MUST(fork());
}

static void with_epoll(int fd) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 60; i++) {
        char buffer[100];
        if (i % 20 == 10) {
            pid_t child = MUST(fork());
            if (child == 0) {
                close(i % 40 == 10 ? fd : set);
                close(i % 40 == 10 ? set : fd);
                _exit(0);
            }
            join_child(child);
            /* a blocking receive looks before it sleeps; that must not keep bells from the set */
            use(fd, 20);
            ask_later(fd, 1, 1);
            CHECK(recv(fd, buffer, 1, 0) == 1 && is_pattern(buffer, 1, taken));
            taken++;
        }
        ask_later(fd, 60, i % 5 ? 0 : 20);
        struct epoll_event got;
        CHECK(epoll_wait(set, &got, 1, 10000) == 1 && got.data.fd == fd);
        /* read while it is watched: half at once, the rest as it comes */
        read_exact(fd, buffer, 30);
        CHECK(is_pattern(buffer, 30, taken));
        CHECK(recv(fd, buffer, 30, MSG_WAITALL) == 30 && is_pattern(buffer, 30, taken + 30));
        taken += 60;
        ask_later(fd, 40, i % 10 ? 0 : 20);
        CHECK(recv(fd, buffer, 40, MSG_WAITALL) == 40 && is_pattern(buffer, 40, taken));
        taken += 40;
    }
    close(set);
    use(fd, 20);
}

void tester(int fd) {
    if (mode_is("epoll")) {
        with_epoll(fd);
        say("%llu bytes taken", (unsigned long long)taken);
        return;
    }
    use(fd, 50);
    pid_t child = fork_elsewhere();
    if (child == 0) {
        if (mode_is("close")) {
            close(fd);
            mark("closed", 1);
            await_mark("used");
            _exit(0);
        }
        if (mode_is("parent_ends")) {
            await_mark("closed");
            use(fd, 50);
            pid_t grandchild = MUST(fork());
            if (grandchild == 0) {
                use(fd, 50);
                close(fd);
                _exit(0);
            }
            join_child(grandchild);
            taken_elsewhere(50);
        }
        use(fd, 50);
        close(fd);
        _exit(0);
    }
    if (mode_is("close")) {
        await_mark("closed");
        use(fd, 200);
        mark("used", 1);
        join_child(child);
    } else if (mode_is("parent_ends")) {
        close(fd);
        mark("closed", 1);
        join_child(child);
        say("the child has used it");
        return;
    } else {
        join_child(child);
        taken_elsewhere(50);
        use(fd, 200);
    }
    say("%llu bytes taken", (unsigned long long)taken);
}
