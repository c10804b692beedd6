/*
 * A connection is given to somebody who knows nothing of channels while the peer can no longer take anything
 * back: it has sent more than a ring holds, or has shut down, or closed. The giver has read the first bytes.
 *   pass     to a program started before, by SCM_RIGHTS
 *   exec     as standard input and output of the program that this one becomes
 *   number   the same, by the descriptor's number
 *   vfork    as standard input of a child of vfork
 *   spawn    as standard input of a child of posix_spawn
 *   child    by its number to the program of a forked child, and the giver keeps it; when that has ended, it sends, too
 *   copy     the same, by another number; vcopy: of a child of vfork
 *   streams  the same, as standard input and output
 *   chance   not to it: a program of a forked child has it by chance, and does not use it, and the giver reads on
 *   stdio    to fdopen
 *   aio      to aio_read
 *   submit   to io_submit
 *   set      the same, while the descriptor is in an epoll set, by which the rest is read; set_edge: edge-triggered
 * First argument: what the peer did, 0 nothing more, 1 shutdown, 2 close. Second: bytes.
 */
#include "common.h"

#include <aio.h>
#include <linux/aio_abi.h>
#include <spawn.h>
#include <sys/syscall.h>

#define HEAD 10
#define COPY 50

extern char **environ;

static size_t bytes(void) {
    return (size_t)argument(1, 150000);
}

static uint64_t expected(void) {
    char *all = malloc(bytes());
    fill(all, bytes(), 5);
    uint64_t sum = checksum(SUM_START, all + HEAD, bytes() - HEAD);
    free(all);
    return sum;
}

/* The real connection's port here, and whether this one is another: the end of a relay. For a test to look at. */
static void note_relay(int fd, bool real) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    MUST(getsockname(fd, (struct sockaddr *)&name, &size));
    CHECK(name.ss_family == AF_INET || name.ss_family == AF_INET6);
    uint64_t port = ntohs(((struct sockaddr_in *)&name)->sin_port);
    if (real)
        mark("real", port);
    else
        mark("relayed", port != await_mark("real"));
}

static ssize_t by_c_library(int fd, void *to, size_t n) {
    struct aiocb one = {.aio_fildes = fd, .aio_buf = to, .aio_nbytes = n};
    const struct aiocb *list[] = {&one};
    MUST(aio_read(&one));
    while (aio_error(&one) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    return aio_return(&one);
}

static ssize_t by_kernel(int fd, void *to, size_t n) {
    static aio_context_t context;
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)fd, .aio_buf = (uintptr_t)to,
                       .aio_nbytes = n};
    struct iocb *list[] = {&one};
    struct io_event done;
    if (context == 0 && syscall(SYS_io_setup, 8, &context) != 0)
        return read(fd, to, n); /* not here */
    MUST(syscall(SYS_io_submit, context, 1, list));
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &done, NULL) == 1);
    return done.res;
}

static ssize_t some_of(int fd, void *to, size_t n) {
    if (mode_is("aio"))
        return by_c_library(fd, to, n);
    return mode_is("submit") ? by_kernel(fd, to, n) : read(fd, to, n);
}

static bool is_kept(void) {
    return mode_is("child") || mode_is("copy") || mode_is("vcopy") || mode_is("streams");
}

/* The stranger: reads the rest, to the end if there is one, and answers. */
static void take(int in, int out) {
    uint64_t sum = SUM_START;
    size_t n = 0;
    char some[7777];
    while (n < bytes() - HEAD) {
        size_t want = bytes() - HEAD - n < sizeof some ? bytes() - HEAD - n : sizeof some;
        ssize_t got = MUST(some_of(in, some, want));
        CHECK(got > 0);
        sum = checksum(sum, some, (size_t)got);
        n += (size_t)got;
    }
    CHECK(sum == expected());
    if (argument(0, 0) > 0)
        CHECK(some_of(in, some, 1) == 0);
    if (argument(0, 0) < 2)
        CHECK(write(out, &sum, sizeof sum) == sizeof sum);
    note_relay(in, false);
}

void other_role(const char *role) {
    alarm(20);
    if (strncmp(role, "fd", 2) == 0) {
        take(atoi(role + 2), atoi(role + 2));
        return;
    }
    CHECK(strcmp(role, "door") == 0);
    int fd = take_descriptor(0);
    take(fd, fd);
}

static char *arguments[8];

static void become(const char *role) {
    unsetenv("LD_PRELOAD");
    arguments[1] = (char *)role;
    execv("/proc/self/exe", arguments);
    CHECK(!"exec");
}

static void read_stream(int fd) {
    FILE *f = fdopen(fd, "r+");
    CHECK(f);
    uint64_t sum = SUM_START;
    for (size_t n = HEAD; n < bytes(); n++) {
        int byte = getc(f);
        CHECK(byte != EOF);
        unsigned char c = (unsigned char)byte;
        sum = checksum(sum, &c, 1);
    }
    CHECK(sum == expected());
    if (argument(0, 0) > 0)
        CHECK(getc(f) == EOF);
    if (argument(0, 0) < 2)
        CHECK(fwrite(&sum, sizeof sum, 1, f) == 1);
    note_relay(fd, false);
    CHECK(fclose(f) == 0 || argument(0, 0) == 2);
}

/* Reads what is there, and then more whenever the set tells of it. */
static void read_by_set(int fd, int set) {
    uint64_t sum = SUM_START;
    size_t n = HEAD;
    for (unsigned in_vain = 0; n < bytes() || argument(0, 0) > 0;) {
        char some[7777];
        ssize_t got = recv(fd, some, sizeof some, MSG_DONTWAIT);
        if (got == 0)
            break;
        if (got > 0) {
            sum = checksum(sum, some, (size_t)got);
            n += (size_t)got;
            in_vain = 0;
            continue;
        }
        CHECK(errno == EAGAIN && in_vain++ < 20);
        struct epoll_event event;
        CHECK(MUST(epoll_wait(set, &event, 1, 5000)) == 1 && event.data.u64 == 7 && event.events & EPOLLIN);
    }
    CHECK(n == bytes());
    CHECK(sum == expected());
    struct epoll_event event = {.events = EPOLLOUT, .data.u64 = 8};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    CHECK(MUST(epoll_wait(set, &event, 1, 5000)) == 1 && event.data.u64 == 8 && event.events & EPOLLOUT);
    MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    if (argument(0, 0) < 2)
        CHECK(write(fd, &sum, sizeof sum) == sizeof sum);
    note_relay(fd, false);
}

void helper(int fd) {
    pid_t child = 0;
    int set = -1;
    int door[2] = {-1, -1};
    char role[16] = "fd0";
    arguments[0] = program_argv[0];
    for (int i = 2; i < 7 && program_argv[i]; i++)
        arguments[i] = program_argv[i];
    if (mode_is("pass")) {
        MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, door));
        child = MUST(fork());
        if (child == 0) {
            MUST(dup2(door[1], 0));
            close(fd);
            become("door");
        }
    }
    if (mode_is("set") || mode_is("set_edge")) {
        struct epoll_event event = {.events = EPOLLIN | (mode_is("set_edge") ? EPOLLET : 0), .data.u64 = 7};
        set = MUST(epoll_create1(0));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        CHECK(MUST(epoll_wait(set, &event, 1, 5000)) == 1 && event.data.u64 == 7);
    }
    await_mark("sent");
    note_relay(fd, true);
    char head[HEAD];
    read_exact(fd, head, sizeof head);
    if (mode_is("pass")) {
        send_with(door[0], "f", 1, &fd, 1);
    } else if (mode_is("exec")) {
        MUST(dup2(fd, 1));
        MUST(dup2(fd, 0));
        MUST(close(fd));
        become(role);
    } else if (mode_is("number")) {
        MUST(fcntl(fd, F_SETFD, 0));
        snprintf(role, sizeof role, "fd%d", fd);
        become(role);
    } else if (mode_is("vfork")) {
        unsetenv("LD_PRELOAD");
        arguments[1] = role;
        child = vfork();
        if (child == 0) {
            dup2(fd, 0);
            execv("/proc/self/exe", arguments);
            _exit(9);
        }
    } else if (is_kept() && !mode_is("vcopy")) {
        child = MUST(fork());
        if (child == 0) {
            int number = mode_is("child") ? fd : mode_is("copy") ? COPY : 0;
            if (number == fd)
                MUST(fcntl(fd, F_SETFD, 0));
            else
                MUST(dup2(fd, number));
            if (number == 0)
                MUST(dup2(fd, 1));
            snprintf(role, sizeof role, "fd%d", number);
            become(role);
        }
    } else if (mode_is("chance")) {
        MUST(fcntl(fd, F_SETFD, 0));
        child = MUST(fork());
        if (child == 0) {
            unsetenv("LD_PRELOAD");
            execlp("true", "true", NULL);
            CHECK(!"exec");
        }
        join_child(child);
        take(fd, fd);
        MUST(close(fd));
        return;
    } else if (mode_is("vcopy")) {
        unsetenv("LD_PRELOAD");
        snprintf(role, sizeof role, "fd%d", COPY);
        arguments[1] = role;
        child = vfork();
        if (child == 0) {
            dup2(fd, COPY);
            execv("/proc/self/exe", arguments);
            _exit(9);
        }
    } else if (mode_is("spawn")) {
        unsetenv("LD_PRELOAD");
        arguments[1] = role;
        posix_spawn_file_actions_t actions;
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 0) == 0);
        CHECK(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ) == 0);
    } else if (mode_is("aio") || mode_is("submit")) {
        set_nonblocking(fd, false);
        take(fd, fd);
        close(fd);
        return;
    } else if (set >= 0) {
        FILE *f = fdopen(fd, "r+");
        CHECK(f);
        read_by_set(fd, set);
        fclose(f);
        return;
    } else {
        read_stream(fd);
        return;
    }
    if (!is_kept())
        MUST(close(fd));
    join_child(child);
    if (is_kept() && argument(0, 0) < 2) {
        await_mark("answered");
        CHECK(write(fd, "k", 1) == 1);
    }
    if (is_kept())
        MUST(close(fd));
    say("the stranger had it all");
}

void tester(int fd) {
    char *all = malloc(bytes());
    fill(all, bytes(), 5);
    write_all(fd, all, bytes());
    free(all);
    if (argument(0, 0) == 1)
        MUST(shutdown(fd, SHUT_WR));
    if (argument(0, 0) == 2)
        MUST(close(fd));
    mark("sent", 1);
    if (argument(0, 0) == 2)
        return;
    uint64_t sum;
    read_exact(fd, &sum, sizeof sum);
    CHECK(sum == expected());
    char byte;
    mark("answered", 1);
    if (is_kept())
        CHECK(read(fd, &byte, 1) == 1 && byte == 'k');
    if (argument(0, 0) == 0)
        MUST(shutdown(fd, SHUT_WR));
    outcome("at the end", read(fd, &byte, 1));
}
