/*
 * A descriptor is closed while a call is inside it: the call goes on with the connection it began with, which ends
 * when the call returns; the number belongs to others meanwhile.
 *   recv     close under a blocked recv; the number becomes another connection, and both are spoken to
 *   dup2     another connection is put over the number
 *   eof      the peer ends instead of speaking
 *   peek     the blocked receive only looks
 *   send     close under a blocked send: all it was given arrives, and the end after that
 *   sendfile the same under a blocked sendfile
 *   from     another file is put at the number of the one that a blocked sendfile sends: nothing of it goes out
 *   splice   close under a splice that waits for bytes: they go into the pipe that it began with
 *   splice_moved   the same, and a file of the program's is put at numbers that the shim has for the pipe
 *   splice_cancel  a thread is cancelled in such a splice: when the program closes the pipe, its reader has the end
 *   splice_jump    a signal handler jumps out of one
 *   jump     a signal handler jumps out of a blocked recv, with another thread about: close ends the connection
 *   cancel   a thread blocked in recv is cancelled: close ends the connection
 *   fork     a child is forked while a thread is blocked in recv: closing its copies is the parent's affair
 *   stress   many threads, many connections, closed at once
 * The client speaks and checks; marks keep the order.
 */
#include "common.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

static int listener;
static int blocked_fd;
static sigjmp_buf out;

struct call {
    int fd;
    size_t want;
    int flags;
    ssize_t result;
    int error;
    char data[16];
};

/* The thread that is about to block. */
static volatile pid_t blocker;

static void *receive(void *argument) {
    struct call *call = argument;
    blocker = gettid();
    call->result = recv(call->fd, call->data, call->want, call->flags);
    call->error = errno;
    return NULL;
}

/*
 * The thread started last sleeps in its call. A time will not do: a thread that has not come that far yet would make its
 * call on whatever has the number by then.
 */
static void let_it_block(void) {
    char path[64], state = 0;
    while (!blocker)
        sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", blocker);
    while (state != 'S') {
        sleep_ms(1);
        FILE *file = fopen(path, "r");
        CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
    }
    blocker = 0;
}

static void say_call(const char *who, const struct call *call) {
    if (call->result < 0)
        say("%s: %s", who, strerrorname_np(call->error));
    else
        say("%s: %zd %.*s", who, call->result, (int)call->result, call->data);
}

static void under_recv(void) {
    int fd = accepted(listener), other = accepted(listener);
    struct call call = {.fd = fd, .want = 5, .flags = mode_is("peek") ? MSG_PEEK : 0};
    pthread_t thread = start_thread(receive, &call);
    let_it_block();
    int second = -1;
    if (mode_is("dup2")) {
        MUST(dup2(other, fd));
        close(other);
        other = fd;
    } else {
        close(fd);
        mark("closed", 1);
        second = accepted(listener);
        say("the number is used again: %s", second == fd ? "yes" : "no");
    }
    mark("speak", 1);
    pthread_join(thread, NULL);
    say_call("blocked", &call);
    mark("heard", 1);
    struct call next = {.fd = second >= 0 ? second : other, .want = 5, .flags = 0};
    receive(&next);
    say_call("on the number now", &next);
    struct call last = {.fd = next.fd, .want = 1, .flags = 0};
    receive(&last);
    say_call("and then", &last);
}

static void speak_to_both(void) {
    int fd = connected(), other = connected(), second = -1;
    if (!mode_is("dup2")) {
        await_mark("closed");
        second = connected();
    }
    await_mark("speak");
    write_all(second >= 0 ? second : other, "world", 5);
    sleep_ms(30);
    if (mode_is("eof"))
        MUST(shutdown(fd, SHUT_WR));
    else
        write_all(fd, "hello", 5);
    await_mark("heard");
    /* Nobody has it any more: the end, or a reset for what was only looked at. */
    char byte;
    ssize_t n = read(fd, &byte, 1);
    say("the first one ends: %s", n == 0 ? "yes" : n < 0 && errno == ECONNRESET ? "reset" : "no");
    MUST(close(second >= 0 ? second : other));
}

#define MUCH (24u << 20)
static char *much;

static void prepare_much(void) {
    much = malloc(MUCH);
    fill(much, MUCH, 7);
}

static int much_file(void) {
    int file = MUST(memfd_create("much", MFD_CLOEXEC));
    write_all(file, much, MUCH);
    return file;
}

static int file_to_send = -1;

static void *send_much(void *argument) {
    struct call *call = argument;
    off_t offset = 0;
    blocker = gettid();
    call->result = file_to_send >= 0 ? sendfile(call->fd, file_to_send, &offset, MUCH)
                                       : send(call->fd, much, MUCH, MSG_NOSIGNAL);
    return NULL;
}

static void under_send(void) {
    prepare_much();
    int fd = accepted(listener);
    struct call call = {.fd = fd};
    if (mode_is("sendfile"))
        file_to_send = much_file();
    pthread_t thread = start_thread(send_much, &call);
    let_it_block();
    close(fd);
    int next = accepted(listener);
    mark("closed", 1);
    pthread_join(thread, NULL);
    say("sent: %zd", call.result);
    ask(next, 10);
    char data[10];
    read_exact(next, data, sizeof data);
    say("nothing strange on the number: %s", is_pattern(data, sizeof data, 0) ? "yes" : "no");
    close(next);
}

static void under_sendfile(void) {
    prepare_much();
    int fd = accepted(listener), other = MUST(memfd_create("other", MFD_CLOEXEC));
    struct call call = {.fd = fd};
    file_to_send = much_file();
    MUST(ftruncate(other, MUCH));
    pthread_t thread = start_thread(send_much, &call);
    let_it_block();
    MUST(dup2(other, file_to_send));
    mark("closed", 1);
    pthread_join(thread, NULL);
    mark("sent", (uint64_t)call.result);
    close(fd);
}

static void read_a_part(void) {
    prepare_much();
    int fd = connected();
    await_mark("closed");
    uint64_t sum = SUM_START, size = read_to_eof(fd, &sum);
    say("what was said to be sent: %s", size == await_mark("sent") ? "yes" : "no");
    say("of the first file: %s", size > 0 && sum == checksum(SUM_START, much, size) ? "yes" : "no");
}

static void read_much(void) {
    prepare_much();
    int fd = connected();
    int next = connected();
    await_mark("closed");
    sleep_ms(30);
    uint64_t sum = SUM_START, size = read_to_eof(fd, &sum);
    say("all of it: %s", size == MUCH && sum == checksum(SUM_START, much, MUCH) ? "yes" : "no");
    serve_asks(next);
}

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

static void jump(int number) {
    (void)number;
    siglongjmp(out, 1);
}

static void *idle(void *unused) {
    await_mark("ended");
    return unused;
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

static void jumped_out(void) {
    int fd = accepted(listener);
    pthread_t thread = start_thread(idle, NULL);
    struct sigaction action = {.sa_handler = jump};
    MUST(sigaction(SIGALRM, &action, NULL));
    blocked_fd = fd;
    if (sigsetjmp(out, 1) == 0) {
        char byte;
        ualarm(50000, 0);
        recv(blocked_fd, &byte, 1, 0);
        say("recv came back");
    }
    close(blocked_fd);
    pthread_join(thread, NULL);
}

static void *receive_for_ever(void *argument) {
    char byte;
    blocker = gettid();
    recv(*(int *)argument, &byte, 1, 0);
    return NULL;
}

static void cancelled(void) {
    int fd = accepted(listener);
    pthread_t thread = start_thread(receive_for_ever, &fd);
    let_it_block();
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    close(fd);
    await_mark("ended");
}

static void forked(void) {
    int fd = accepted(listener);
    struct call call = {.fd = fd, .want = 5};
    pthread_t thread = start_thread(receive, &call);
    let_it_block();
    pid_t child = MUST(fork());
    if (child == 0) {
        close(fd);
        await_mark("ended");
        exit(0);
    }
    sleep_ms(30);
    close(fd);
    sleep_ms(30);
    pid_t second = MUST(fork());
    if (second == 0) {
        await_mark("ended");
        exit(0);
    }
    mark("speak", 1);
    pthread_join(thread, NULL);
    say_call("blocked", &call);
    mark("heard", 1);
    join_child(child);
    join_child(second);
}

static void see_the_end(void) {
    int fd = connected();
    if (mode_is("fork")) {
        await_mark("speak");
        write_all(fd, "hello", 5);
        await_mark("heard");
    }
    char byte;
    say("the end: %zd", recv(fd, &byte, 1, MSG_NOSIGNAL));
    mark("ended", 1);
}

/* Connection k carries nothing but k. */
#define ROUNDS 120

struct reader {
    pthread_t thread;
    int fd;
    uint32_t id;
    bool strange;
};

#define IDS 64

static void *read_ids(void *argument) {
    struct reader *reader = argument;
    /* One call: a second one would be on whatever has the number then. */
    uint32_t ids[IDS];
    blocker = gettid();
    ssize_t n = recv(reader->fd, ids, sizeof ids, MSG_WAITALL);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof *ids; i++)
        reader->strange |= ids[i] != reader->id;
    return NULL;
}

static void stress_server(void) {
    static struct reader readers[ROUNDS];
    unsigned strange = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct reader *reader = &readers[round];
        reader->fd = MUST(accept(listener, NULL, NULL));
        for (int i = 0; i < 30; i++) {
            read_exact(reader->fd, &reader->id, sizeof reader->id);
            write_all(reader->fd, &reader->id, sizeof reader->id);
        }
        reader->thread = start_thread(read_ids, reader);
        let_it_block();
        close(reader->fd);
    }
    mark("closed", 1);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_join(readers[round].thread, NULL);
        strange += readers[round].strange;
    }
    say("connections with strange bytes: %u", strange);
}

static void stress_client(void) {
    static int fds[ROUNDS];
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fds[round] = connect_there();
        no_delay(fds[round]);
        for (int i = 0; i < 30; i++) {
            uint32_t back = 0;
            write_all(fds[round], &round, sizeof round);
            read_exact(fds[round], &back, sizeof back);
            CHECK(back == round);
        }
        for (uint32_t k = round >= 4 ? round - 4 : 0; k <= round; k++)
            send(fds[k], &k, sizeof k, MSG_NOSIGNAL);
    }
    await_mark("closed");
    for (int round = 0; round < ROUNDS; round++)
        close(fds[round]);
    say("spoken");
}

void server(void) {
    listener = listen_here();
    if (mode_is("send") || mode_is("sendfile"))
        under_send();
    else if (mode_is("from"))
        under_sendfile();
    else if (mode_is("splice"))
        under_splice();
    else if (mode_is("splice_moved"))
        moved_splice();
    else if (mode_is("splice_cancel"))
        cancelled_splice();
    else if (mode_is("splice_jump"))
        jumped_out_of_splice();
    else if (mode_is("jump"))
        jumped_out();
    else if (mode_is("cancel"))
        cancelled();
    else if (mode_is("fork"))
        forked();
    else if (mode_is("stress"))
        stress_server();
    else
        under_recv();
}

void client(void) {
    if (mode_is("send") || mode_is("sendfile"))
        read_much();
    else if (mode_is("from"))
        read_a_part();
    else if (mode_is("splice"))
        speak_to_splice();
    else if (strncmp(program_argv[3], "splice_", 7) == 0)
        speak_once();
    else if (mode_is("stress"))
        stress_client();
    else if (mode_is("jump") || mode_is("cancel") || mode_is("fork"))
        see_the_end();
    else
        speak_to_both();
}
