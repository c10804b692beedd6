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
 *   jump     a signal handler jumps out of a blocked recv, with another thread about: close ends the connection
 *   cancel   a thread blocked in recv is cancelled: close ends the connection
 *   fork     a child is forked while a thread is blocked in recv: closing its copies is the parent's affair
 *   stress   many threads, many connections, closed at once
 * The client speaks and checks; marks keep the order. closed_under_splice.c is the same of splice.
 */
#include "blocked.h"

#include <sys/mman.h>
#include <sys/sendfile.h>

static int listener;
static int blocked_fd;

static void *receive(void *argument) {
    struct call *call = argument;
    blocker = gettid();
    call->result = recv(call->fd, call->data, call->want, call->flags);
    call->error = errno;
    return NULL;
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
    else if (mode_is("stress"))
        stress_client();
    else if (mode_is("jump") || mode_is("cancel") || mode_is("fork"))
        see_the_end();
    else
        speak_to_both();
}
