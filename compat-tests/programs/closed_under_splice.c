/*
 * A descriptor is closed while a splice is inside it: see closed_under.c.
 *   closed   close under a splice that waits for bytes: they go into the pipe that it began with
 *   moved    the same, and a file of the program's is put at numbers that the shim has for the pipe
 *   cancel   a thread is cancelled in such a splice: when the program closes the pipe, its reader has the end
 *   jump     a signal handler jumps out of one
 * The client speaks and checks; marks keep the order.
 */
#include "blocked.h"

#include <sys/mman.h>

static int listener;
static int blocked_fd;
static int pipe_ends[2];

static void *splice_some(void *argument) {
    struct call *call = argument;
    blocker = gettid();
    call->result = splice(call->fd, NULL, pipe_ends[1], NULL, 100, 0);
    return NULL;
}

static void say_queued(const char *whose, int pipe) {
    int there = -1;
    MUST(ioctl(pipe, FIONREAD, &there));
    say("in %s pipe: %d", whose, there);
}

static void under_splice(void) {
    int other[2], fd = accepted(listener), next = accepted(listener);
    struct call call = {.fd = fd};
    MUST(pipe(pipe_ends));
    MUST(pipe(other));
    pthread_t thread = start_thread(splice_some, &call);
    let_it_block();
    MUST(dup2(other[1], pipe_ends[1]));
    MUST(dup2(next, fd));
    mark("speak", 1);
    pthread_join(thread, NULL);
    say_call("spliced", &call);
    say_queued("its own", pipe_ends[0]);
    say_queued("another", other[0]);
}

/* Whether the only end of the pipe to write to is closed. */
static void say_end_of_pipe(void) {
    struct pollfd entry = {.fd = pipe_ends[0], .events = POLLIN};
    MUST(close(pipe_ends[1]));
    MUST(poll(&entry, 1, 2000));
    say("the pipe's end: %s", entry.revents & POLLHUP ? "yes" : "no");
}

static void cancelled_splice(void) {
    struct call call = {.fd = accepted(listener)};
    MUST(pipe(pipe_ends));
    pthread_t thread = start_thread(splice_some, &call);
    let_it_block();
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    say_end_of_pipe();
    mark("speak", 1);
    mark("spliced", 1);
}

/* Puts a file at other numbers that stand for the pipe; what gives way goes to the next ones. */
static void put_over_copies(int file) {
    char path[64], pipe_name[64], name[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", pipe_ends[1]);
    ssize_t length = MUST(readlink(path, pipe_name, sizeof pipe_name));
    for (int fd = 3, moved = 0; fd < 4096 && moved < 3; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        bool same = readlink(path, name, sizeof name) == length && memcmp(name, pipe_name, (size_t)length) == 0;
        if (same && fd != pipe_ends[0] && fd != pipe_ends[1]) {
            MUST(dup2(file, fd));
            moved++;
        }
    }
}

static void moved_splice(void) {
    struct call call = {.fd = accepted(listener)};
    int file = MUST(memfd_create("file", MFD_CLOEXEC));
    struct stat status;
    MUST(pipe(pipe_ends));
    pthread_t thread = start_thread(splice_some, &call);
    let_it_block();
    put_over_copies(file);
    mark("speak", 1);
    pthread_join(thread, NULL);
    say_call("spliced", &call);
    say_queued("its own", pipe_ends[0]);
    MUST(fstat(file, &status));
    say("in the file: %d", (int)status.st_size);
    char data[5];
    read_exact(pipe_ends[0], data, sizeof data);
    say_end_of_pipe();
    mark("spliced", 1);
}

static void speak_once(void) {
    int fd = connected();
    await_mark("speak");
    send(fd, "hello", 5, MSG_NOSIGNAL);
    await_mark("spliced");
}

static void speak_to_splice(void) {
    int fd = connected(), next = connected();
    await_mark("speak");
    write_all(next, "another", 7);
    write_all(fd, "hello", 5);
    char byte;
    say("the end: %zd", recv(fd, &byte, 1, MSG_NOSIGNAL));
}

static void jumped_out_of_splice(void) {
    int fd = accepted(listener);
    pthread_t thread = start_thread(idle, NULL);
    struct sigaction action = {.sa_handler = jump};
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(pipe(pipe_ends));
    blocked_fd = fd;
    if (sigsetjmp(out, 1) == 0) {
        ualarm(300000, 0);
        splice(blocked_fd, NULL, pipe_ends[1], NULL, 100, 0);
        say("splice came back");
    }
    say_end_of_pipe();
    mark("speak", 1);
    mark("spliced", 1);
    mark("ended", 1);
    pthread_join(thread, NULL);
}

void server(void) {
    listener = listen_here();
    if (mode_is("moved"))
        moved_splice();
    else if (mode_is("cancel"))
        cancelled_splice();
    else if (mode_is("jump"))
        jumped_out_of_splice();
    else
        under_splice();
}

void client(void) {
    if (mode_is("closed"))
        speak_to_splice();
    else
        speak_once();
}
