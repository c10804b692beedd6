/*
 * What happens to a young connection must not keep it from becoming a channel:
 *   fails     fork fails
 *   threads   two threads fork again and again, and the children exit
 *   exec      a child, in which the socket is closed on exec, executes something that lasts
 * Argument: exchanges afterwards. Then both wait for the mark "looked", as ping_pong does.
 */
#include "common.h"

#include <sys/resource.h>

static void *fork_often(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        int status;
        pid_t child = MUST(fork());
        if (child == 0)
            _exit(0);
        while (waitpid(child, &status, 0) < 0)
            CHECK(errno == EINTR);
    }
    return NULL;
}

static void fail_to_fork(void) {
    bool root = getuid() == 0;
    struct rlimit none = {1, 1};
    MUST(setrlimit(RLIMIT_NPROC, &none));
    if (root) /* which may have as many processes as it likes */
        MUST(setresuid(4321, 4321, 0));
    CHECK(fork() == -1 && errno == EAGAIN);
    if (root) {
        MUST(seteuid(0));
        MUST(setresuid(0, 0, 0));
    }
}

static pid_t with_exec(void) {
    int go[2];
    char byte;
    MUST(pipe2(go, O_CLOEXEC));
    pid_t child = MUST(fork());
    if (child == 0) {
        execlp("sleep", "sleep", "20", (char *)NULL);
        _exit(1);
    }
    close(go[1]);
    CHECK(read(go[0], &byte, 1) == 0); /* it has executed */
    close(go[0]);
    return child;
}

static void hold(void) {
    mark(is_client ? "client-done" : "server-done", 1);
    await_mark("looked");
}

void server(void) {
    int listener = listen_here(), fd = MUST(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    pid_t child = 0;
    char byte;
    read_exact(fd, &byte, 1);
    if (mode_is("fails"))
        fail_to_fork();
    if (mode_is("threads")) {
        pthread_t threads[2] = {start_thread(fork_often, NULL), start_thread(fork_often, NULL)};
        for (int i = 0; i < 2; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    if (mode_is("exec"))
        child = with_exec();
    write_all(fd, &byte, 1);
    for (long i = 0; i < argument(0, 3000); i++) {
        char message[100];
        read_exact(fd, message, sizeof message);
        write_all(fd, message, sizeof message);
    }
    hold();
    if (child)
        kill(child, SIGKILL);
    CHECK(read(fd, &byte, 1) == 0);
    close(fd);
}

void client(void) {
    int fd = connect_there();
    exchange(fd, 1, 1);
    for (long i = 0; i < argument(0, 3000); i++)
        exchange(fd, 100, (uint64_t)i);
    hold();
    close(fd);
}
