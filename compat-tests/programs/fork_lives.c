/*
 * The tester closes a connection with unread bytes: its peer gets a reset if nobody else has the socket, and an end
 * when the last one that has it goes. Before that:
 *   fails     fork fails
 *   inside    so does the fork inside daemon, and the one inside forkpty
 *   threads   two threads fork again and again, and the children exit
 *   vfork     a child of vfork closes its copy, makes sockets of its own, and executes something
 *   exec      a child, in which the socket is closed on exec, executes something that lasts
 *   failed    the same, but there is no such program; the child answers
 * With an argument, the connection is fresh, and so many exchanges follow, for somebody outside to see how they went.
 */
#include "common.h"

#include <pty.h>
#include <sys/resource.h>

static void *fork_often(void *unused) {
    (void)unused;
    for (int i = 0; i < 40; i++) {
        pid_t child = MUST(fork());
        if (child == 0)
            _exit(0);
        int status;
        while (waitpid(child, &status, 0) < 0)
            CHECK(errno == EINTR);
    }
    return NULL;
}

static void fail_to_fork(void) {
    /* Root may have as many processes as it likes. */
    bool root = getuid() == 0;
    if (root)
        MUST(setresuid(4321, 4321, 0));
    struct rlimit none = {1, 1};
    MUST(setrlimit(RLIMIT_NPROC, &none));
    for (int i = 0, end; i < 5; i++) {
        if (mode_is("fails"))
            CHECK(fork() == -1 && errno == EAGAIN);
        else
            CHECK((i % 2 ? daemon(1, 1) : forkpty(&end, NULL, NULL, NULL)) == -1);
    }
    if (root)
        MUST(setresuid(0, 0, 0));
}

static void with_vfork(int fd) {
    pid_t child = vfork();
    if (child == 0) {
        close(fd);
        close(socket(AF_UNIX, SOCK_DGRAM, 0));
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        listen(listener, 1);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    join_child(child);
}

static pid_t with_exec(int fd) {
    int go[2];
    char byte;
    MUST(pipe2(go, O_CLOEXEC));
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    pid_t child = MUST(fork());
    if (child == 0 && mode_is("exec")) {
        execlp("sleep", "sleep", "20", (char *)NULL);
        _exit(1);
    }
    if (child == 0) {
        execl("/no/such/program", "program", (char *)NULL);
        CHECK(errno == ENOENT);
        for (int i = 0; i < 50; i++)
            exchange(fd, 100, (uint64_t)i);
        _exit(0);
    }
    close(go[1]);
    CHECK(read(go[0], &byte, 1) == 0); /* it has executed, or ended */
    close(go[0]);
    return child;
}

void tester(int fd) {
    pid_t child = 0;
    for (int i = 0; i < 20 && argument(0, 0) == 0; i++)
        exchange(fd, 100, (uint64_t)i);
    if (mode_is("fails") || mode_is("inside"))
        fail_to_fork();
    if (mode_is("threads")) {
        pthread_t threads[2] = {start_thread(fork_often, NULL), start_thread(fork_often, NULL)};
        for (int i = 0; i < 2; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    if (mode_is("vfork"))
        with_vfork(fd);
    if (mode_is("exec") || mode_is("failed"))
        child = with_exec(fd);
    for (int i = 0; i < 20; i++)
        exchange(fd, 100, (uint64_t)i);
    for (long i = 0; i < argument(0, 0); i++)
        exchange(fd, 100, (uint64_t)i);
    if (argument(0, 0) > 0) {
        mark("server-done", 1);
        mark("client-done", 1);
        await_mark("looked");
    }
    write_all(fd, "unread", 6);
    int there = 0;
    while (there != 6) {
        MUST(ioctl(fd, FIONREAD, &there));
        sleep_ms(1);
    }
    MUST(close(fd));
    if (mode_is("exec")) {
        await_mark("seen");
        kill(child, SIGKILL);
    }
}

void helper(int fd) {
    char bytes[100];
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
            outcome("the end", n);
            break;
        }
        write_all(fd, bytes, (size_t)n);
    }
    mark("seen", 1);
}
