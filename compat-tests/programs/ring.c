/*
 * A ring of liburing's beside connections, submitted by that library's functions. Where the kernel forbids io_uring,
 * plain calls. Modes:
 *   disk       entries for files only, while the connection is used with plain calls
 *   own        the connection's bytes by the ring, and by plain calls after that; argument 1: SQPOLL, 2: the connection
 *              is registered among the ring's files
 *   poll       somebody waits for the connection by the ring
 *   linked     entries for a file and the connection, linked, in one submission
 *   epoll      the connection is put into an epoll set by the ring
 *   rest       what the peer sent before it ended is read by the ring alone; argument 1: SQPOLL, set up when that is there
 *   pass       the connection is passed to a child by the ring's sendmsg
 *   before     the client's socket was shown to the ring before it is connected
 *   number     a connection that the ring was never told of, beside one that it was
 */
#include "common.h"

#include "standin.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define ENTRIES 8

static struct standin_ring ring;
static bool forbidden;
static int (*submit_and_wait)(struct standin_ring *, unsigned);

static void set_up(unsigned flags) {
    int (*init)(unsigned, struct standin_ring *, unsigned) = standin("io_uring_queue_init", false);
    submit_and_wait = standin("io_uring_submit_and_wait", false);
    forbidden = init(ENTRIES, &ring, flags) != 0;
    say("io_uring: %s", forbidden ? "not here" : "yes");
}

static struct io_uring_sqe *entry(uint8_t operation, int fd, const void *address, size_t length, uint64_t data) {
    struct io_uring_sqe *e = &ring.sqes[ring.filled_to++ & *ring.mask];
    *e = (struct io_uring_sqe){.opcode = operation, .fd = fd, .addr = (uintptr_t)address, .len = (uint32_t)length,
                               .user_data = data};
    return e;
}

/* The result of the next operation that is done, and whose it is. */
static ssize_t done(uint64_t *data) {
    unsigned *head = (unsigned *)(ring.cq + ring.set.cq_off.head), *tail = (unsigned *)(ring.cq + ring.set.cq_off.tail);
    while (__atomic_load_n(tail, __ATOMIC_ACQUIRE) == *head)
        MUST(submit_and_wait(&ring, 1));
    unsigned mask = *(unsigned *)(ring.cq + ring.set.cq_off.ring_mask);
    struct io_uring_cqe *all = (void *)(ring.cq + ring.set.cq_off.cqes), *one = &all[*head & mask];
    ssize_t result = one->res;
    if (data)
        *data = one->user_data;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static ssize_t operate(uint8_t operation, int fd, const void *address, size_t length) {
    entry(operation, fd, address, length, 0);
    return done(NULL);
}

static int open_file(void) {
    char path[512];
    path_beside(path, sizeof path, is_client ? "client-file" : "server-file");
    return MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
}

static void on_a_file(void) {
    char in[100];
    int file = open_file();
    CHECK(forbidden || operate(IORING_OP_WRITE, file, "on a disk", 9) == 9);
    CHECK(forbidden || (operate(IORING_OP_READ, file, in, 9) == 9 && memcmp(in, "on a disk", 9) == 0));
    close(file);
}

static void many(int fd) {
    for (long i = 0; i < argument(0, 100); i++) {
        if (i % 100 == 0 && mode_is("disk"))
            on_a_file();
        exchange(fd, 1 + (size_t)i * 7 % 200, (uint64_t)i);
    }
    if (argument(0, 0)) {
        mark("server-done", 1);
        mark("client-done", 1);
        await_mark("looked");
    }
}

/* The bytes of one direction or the other, all of them. */
static void move(bool out, int fd, char *bytes, size_t length, bool fixed) {
    for (size_t at = 0; at < length;) {
        entry(out ? (at % 2 ? IORING_OP_SEND : IORING_OP_WRITE) : (at % 2 ? IORING_OP_READ : IORING_OP_RECV),
              fixed ? 0 : fd, bytes + at, length - at, 0)->flags = fixed ? IOSQE_FIXED_FILE : 0;
        ssize_t n = done(NULL);
        CHECK(n > 0);
        at += (size_t)n;
    }
}

static void exchange_by_ring(int fd, size_t length, uint64_t seed, bool fixed) {
    static char out[4096], in[4096];
    if (forbidden) {
        exchange(fd, length, seed);
        return;
    }
    fill(out, length, seed);
    move(true, fd, out, length, fixed);
    move(false, fd, in, length, fixed);
    CHECK(memcmp(in, out, length) == 0);
}

static void by_the_ring(int fd) {
    bool fixed = argument(0, 0) == 2;
    if (fixed && !forbidden) {
        int (*files)(struct standin_ring *, const int *, unsigned) = standin("io_uring_register_files", false);
        MUST(files(&ring, &fd, 1));
    }
    for (int i = 0; i < 100; i++)
        exchange_by_ring(fd, 1 + (size_t)i * 39 % 4096, (uint64_t)i, fixed);
    for (int i = 0; i < 50; i++)
        exchange(fd, 100, (uint64_t)i);
}

static void waiting(int fd) {
    char byte;
    for (int i = 0; i < 5; i++) {
        ask_later(fd, 1, 20);
        if (!forbidden) {
            entry(IORING_OP_POLL_ADD, fd, NULL, 0, 0)->poll32_events = POLLIN;
            CHECK(done(NULL) & POLLIN);
        }
        read_exact(fd, &byte, 1);
        CHECK(is_pattern(&byte, 1, (uint64_t)i));
    }
}

static void linked(int fd) {
    char in[100];
    int file = open_file();
    uint64_t data[3];
    for (int i = 0; i < 3 && !forbidden; i++) {
        entry(IORING_OP_WRITE, file, "first", 5, 1)->flags = IOSQE_IO_LINK;
        entry(IORING_OP_SEND, fd, "then", 4, 2)->flags = IOSQE_IO_LINK;
        entry(IORING_OP_RECV, fd, in, 4, 3)->msg_flags = MSG_WAITALL;
        CHECK(done(&data[0]) == 5 && done(&data[1]) == 4 && done(&data[2]) == 4);
        CHECK(data[0] == 1 && data[1] == 2 && data[2] == 3 && memcmp(in, "then", 4) == 0);
    }
    close(file);
    for (int i = 0; i < 10; i++)
        exchange(fd, 100, (uint64_t)i);
}

static void watched(int fd) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77}, got;
    if (forbidden) {
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    } else {
        entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_ADD, 0)->off = (uint64_t)fd;
        CHECK(done(NULL) == 0);
    }
    char byte;
    for (int i = 0; i < 20; i++) {
        ask_later(fd, 1, i % 2 ? 0 : 5);
        CHECK(epoll_wait(set, &got, 1, 5000) == 1 && got.data.u64 == 77);
        read_exact(fd, &byte, 1);
        CHECK(is_pattern(&byte, 1, (uint64_t)i));
        CHECK(epoll_wait(set, &got, 1, 0) == 0);
    }
    close(set);
}

#define REST 20000

static void rest(int fd) {
    static char in[REST];
    ask(fd, REST);
    await_mark("sent");
    if (argument(0, 0) == 1)
        set_up(IORING_SETUP_SQPOLL);
    size_t at = 0;
    while (at < REST) {
        ssize_t n = forbidden ? recv(fd, in + at, REST - at, 0) : operate(IORING_OP_RECV, fd, in + at, REST - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    CHECK(is_pattern(in, REST, 0));
    CHECK((forbidden ? recv(fd, in, 1, 0) : operate(IORING_OP_RECV, fd, in, 1)) == 0);
}

static void pass(int fd) {
    int door[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, door));
    pid_t child = MUST(fork());
    if (child == 0) {
        close(fd);
        fd = take_descriptor(door[1]);
        for (int i = 0; i < 100; i++)
            exchange(fd, 100, (uint64_t)i);
        _exit(0);
    }
    union { char room[CMSG_SPACE(sizeof fd)]; struct cmsghdr align; } control = {0};
    struct iovec word = {.iov_base = "x", .iov_len = 1};
    struct msghdr m = {.msg_iov = &word, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (forbidden)
        CHECK(sendmsg(door[0], &m, 0) == 1);
    else
        CHECK(operate(IORING_OP_SENDMSG, door[0], &m, 1) == 1);
    join_child(child);
    exchange(fd, 100, 1);
}

void server(void) {
    int listener = listen_here();
    if (mode_is("before")) {
        echo_until_eof(MUST(accept(listener, NULL, NULL)));
        say("echoed");
        return;
    }
    int fd = accepted(listener);
    if (mode_is("number")) {
        int second = accepted(listener);
        set_up(0);
        for (int i = 0; i < 100; i++) {
            exchange(second, 100, (uint64_t)i);
            exchange_by_ring(fd, 100, (uint64_t)i, false);
        }
        say("both");
        return;
    }
    if (!mode_is("rest") || argument(0, 0) == 0)
        set_up(argument(0, 0) == 1 && mode_is("own") ? IORING_SETUP_SQPOLL : 0);
    if (mode_is("disk"))
        many(fd);
    else if (mode_is("own"))
        by_the_ring(fd);
    else if (mode_is("poll"))
        waiting(fd);
    else if (mode_is("linked"))
        linked(fd);
    else if (mode_is("epoll"))
        watched(fd);
    else if (mode_is("rest"))
        rest(fd);
    else if (mode_is("pass"))
        pass(fd);
    say("done");
}

/* A connection whose socket the ring was told of when it was none. */
static void connected_later(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    set_up(0);
    if (!forbidden) {
        entry(IORING_OP_POLL_ADD, fd, NULL, 0, 0)->poll32_events = POLLIN;
        CHECK(done(NULL) & POLLHUP);
    }
    MUST(connect(fd, (struct sockaddr *)&address, length));
    many(fd);
    close(fd);
}

static void *echo(void *fd) {
    echo_until_eof(*(int *)fd);
    return NULL;
}

void client(void) {
    if (mode_is("before")) {
        connected_later();
        return;
    }
    int fd = connected();
    if (mode_is("number")) {
        int second = connected();
        pthread_t other = start_thread(echo, &second);
        echo_until_eof(fd);
        CHECK(pthread_join(other, NULL) == 0);
    } else if (mode_is("poll") || mode_is("epoll")) {
        serve_asks(fd);
    } else if (mode_is("rest")) {
        static char out[REST];
        char asked[64];
        CHECK(read(fd, asked, sizeof asked) > 0);
        for (size_t i = 0; i < REST; i++)
            out[i] = (char)pattern(i);
        for (size_t at = 0; at < REST; at += 1000)
            write_all(fd, out + at, 1000);
        MUST(close(fd));
        mark("sent", 1);
    } else {
        echo_until_eof(fd);
    }
    say("EOF");
}
