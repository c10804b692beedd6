/*
 * The client has other descriptors of its socket from before it connected it, and uses them all.
 *   dup, fcntl, dup2   copies of its own
 *   fork               a child has it
 *   spawn              a child that executes cat has it as its standard output
 *   vfork              the same, started by vfork and exec
 *   pidfd              the same by its number, started by pidfd_spawnp, where the C library has it
 *   passed             a copy came back through a socket of the family AF_UNIX
 *   stream             a stream has its number, by which the client reads
 *   again              a connect that was refused came before the one that is not
 */
#include "common.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/un.h>

extern char **environ;

static int copy = -1;
static FILE *reads;
static pid_t child;

static void use_in_child(int fd) {
    await_mark("warm");
    exchange(fd, 100, 7);
    _exit(0);
}

static pid_t spawn_cat(int fd) {
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid;
    MUST(pipe(ends));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    CHECK(posix_spawnp(&pid, "cat", &actions, NULL, (char *[]){"cat", NULL}, environ) == 0);
    MUST(close(ends[0]));
    copy = ends[1];
    return pid;
}

/* The child has the socket as its standard output before it executes cat, or is told its number. */
static pid_t start_cat(int fd) {
    int ends[2], pidfd = -1;
    char words[64];
    pid_t pid = 0;
    MUST(pipe2(ends, O_CLOEXEC));
    if (mode_is("vfork")) {
        pid = vfork();
        if (pid == 0) {
            dup2(ends[0], 0);
            dup2(fd, 1);
            execlp("cat", "cat", (char *)NULL);
            _exit(9);
        }
        CHECK(pid > 0);
    } else {
        int (*start)(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
                     char *const[]) = dlsym(RTLD_DEFAULT, "pidfd_spawnp");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
        snprintf(words, sizeof words, "exec cat >&%d", fd);
        char *arguments[] = {"sh", "-c", words, NULL};
        if (!start || start(&pidfd, "sh", &actions, NULL, arguments, environ) != 0)
            CHECK(posix_spawnp(&pid, "sh", &actions, NULL, arguments, environ) == 0);
    }
    MUST(close(ends[0]));
    copy = ends[1];
    return pidfd >= 0 ? -1 : pid;
}

static bool starts_cat(void) { return mode_is("spawn") || mode_is("vfork") || mode_is("pidfd"); }

void unconnected(int fd) {
    if (mode_is("dup"))
        copy = MUST(dup(fd));
    if (mode_is("fcntl"))
        copy = MUST(fcntl(fd, F_DUPFD_CLOEXEC, 50));
    if (mode_is("dup2"))
        copy = MUST(dup2(fd, 60));
    if (mode_is("fork") && (child = MUST(fork())) == 0) {
        /* The parent connects it meanwhile. */
        use_in_child(fd);
    }
    if (mode_is("spawn"))
        child = spawn_cat(fd);
    else if (starts_cat())
        child = start_cat(fd);
    if (mode_is("passed")) {
        int pair[2];
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        send_with(pair[0], "x", 1, &fd, 1);
        copy = take_descriptor(pair[1]);
    }
    if (mode_is("stream"))
        CHECK((reads = fdopen(fd, "r")));
    if (mode_is("again")) {
        /* Bound, and not listening. */
        struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof nobody;
        int other = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(bind(other, (void *)&nobody, length));
        MUST(getsockname(other, (void *)&nobody, &length));
        outcome("refused", connect(fd, (void *)&nobody, length));
        MUST(close(other));
    }
}

void server(void) { echo_until_eof(accepted(listen_here())); }

void client(void) {
    int fd = connected();
    mark("warm", 1);
    if (starts_cat()) {
        char back[5];
        MUST(write(copy, "hello", 5));
        MUST(close(copy));
        if (child > 0)
            join_child(child);
        read_exact(fd, back, 5);
        CHECK(memcmp(back, "hello", 5) == 0);
    } else if (child) {
        join_child(child);
    }
    for (int i = 0; reads && i < 300; i++) {
        char out[100], back[100];
        fill(out, sizeof out, (uint64_t)i);
        write_all(fd, out, sizeof out);
        CHECK(fread(back, 1, sizeof back, reads) == sizeof back && memcmp(out, back, sizeof out) == 0);
    }
    for (int i = 0; !reads && i < 300; i++) {
        exchange(fd, 100, (uint64_t)i);
        if (copy >= 0 && !starts_cat())
            exchange(copy, 100, (uint64_t)i + 1000);
    }
    /* The connection goes on as long as one of them is open. */
    if (copy >= 0 && !starts_cat()) {
        MUST(close(fd));
        exchange(copy, 50000, 3);
        MUST(shutdown(copy, SHUT_WR));
        outcome("at the end", read(copy, (char[1]){0}, 1));
    }
    say("done");
}
