/*
 * Signal handlers on a small stack do everything with a connection that they may, from its first call to its last. They
 * have 4 KiB beside the kernel's own frame, and below that nothing is mapped. Functions must have been found before
 * (LD_BIND_NOW): the loader takes more.
 */
#include "common.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

#define ROOM 4096
#define OLDEST 2048 /* a frame of kernels that do not tell */
#define ROUNDS 400
#define PIECES 40
#define LONG 100000

static int conn = -1, listener = -1, beside[2];
static void (*volatile action)(void);
static char out[LONG], in[LONG];

/* CHECK prints, which takes more. */
#define SURE(condition)             \
    do {                            \
        if (!(condition)) {         \
            failed = __LINE__;      \
            failed_with = errno;    \
            return;                 \
        }                           \
    } while (0)
static volatile int failed, failed_with;

static void handler(int signal) {
    (void)signal;
    action();
}

static void in_handler(void (*what)(void)) {
    action = what;
    raise(SIGUSR1);
    if (failed) {
        errno = failed_with;
        printf("line %d\n", failed);
    }
    CHECK(!failed);
}

static void prepare(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), frame = getauxval(AT_MINSIGSTKSZ);
    size_t size = (frame > OLDEST ? frame : OLDEST) + ROOM;
    char *all = MUST(mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MUST(mprotect(all + page, size, PROT_READ | PROT_WRITE));
    stack_t stack = {.ss_sp = all + page, .ss_size = size};
    MUST(sigaltstack(&stack, NULL));
    struct sigaction how = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    MUST(sigaction(SIGUSR1, &how, NULL));
}

static size_t length_of(int i) { return i % 7 == 0 ? 3000 : 1 + (size_t)i % 100; }

static int number; /* of the round */

static void send_all(size_t length) {
    for (size_t sent = 0; sent < length;) {
        ssize_t n = number % 2 ? write(conn, out + sent, length - sent) : send(conn, out + sent, length - sent, MSG_NOSIGNAL);
        SURE(n > 0);
        sent += (size_t)n;
    }
}

static void receive_all(size_t length) {
    for (size_t got = 0; got < length;) {
        struct pollfd entry = {.fd = conn, .events = POLLIN};
        SURE(poll(&entry, 1, 10000) == 1);
        int waiting = 0;
        SURE(ioctl(conn, FIONREAD, &waiting) == 0 && waiting > 0);
        SURE(recv(conn, in + got, length - got, MSG_PEEK) > 0);
        ssize_t n = number % 2 ? read(conn, in + got, length - got) : recv(conn, in + got, length - got, MSG_DONTWAIT);
        SURE(n > 0);
        got += (size_t)n;
    }
}

static void one_round(void) {
    size_t length = length_of(number);
    fill(out, length, (uint64_t)number);
    if (is_client)
        send_all(length);
    receive_all(length);
    SURE(memcmp(in, out, length) == 0);
    if (!is_client)
        send_all(length);
}

static void a_long_one(void) {
    fill(out, LONG, 1);
    if (is_client) {
        send_all(LONG);
    } else {
        receive_all(LONG);
        SURE(memcmp(in, out, LONG) == 0);
    }
}

static void pieces(void) {
    static struct iovec list[PIECES]; /* a list on this stack would be the program's own */
    for (int i = 0; i < PIECES; i++)
        list[i] = (struct iovec){(is_client ? out : in) + i * 10, 10};
    struct msghdr message = {.msg_iov = list, .msg_iovlen = PIECES};
    fill(out, PIECES * 10, 2);
    if (is_client) {
        SURE(number % 2 ? writev(conn, list, PIECES) == PIECES * 10 : sendmsg(conn, &message, 0) == PIECES * 10);
        return;
    }
    SURE(recvmsg(conn, &message, MSG_PEEK | MSG_WAITALL) == PIECES * 10);
    SURE(memcmp(in, out, PIECES * 10) == 0);
    SURE(readv(conn, list, PIECES) == PIECES * 10);
}

static void copies(void) {
    int copy = dup(conn), other = fcntl(conn, F_DUPFD, 0);
    SURE(copy >= 0 && other >= 0 && dup2(copy, other) == other);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(copy, &set);
    SURE(select(copy + 1, NULL, &set, NULL, NULL) == 1);
    SURE(close(copy) == 0 && close(other) == 0);
}

static void another_program(void) {
    pid_t child = fork();
    SURE(child >= 0);
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status = 1;
    SURE(waitpid(child, &status, 0) == child && status == 0);
}

static void pass(void) {
    static union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &conn, sizeof(int));
    struct iovec piece = {out, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    SURE(sendmsg(beside[0], &message, 0) == 1);
}

static void do_accept(void) { SURE((conn = accept(listener, NULL, NULL)) >= 0); }

static struct sockaddr_storage address;
static socklen_t address_size;

static void do_connect(void) {
    SURE((conn = socket(address.ss_family, SOCK_STREAM, 0)) >= 0);
    SURE(connect(conn, (struct sockaddr *)&address, address_size) == 0);
}

static void finish(void) {
    SURE(shutdown(conn, SHUT_WR) == 0);
    SURE(recv(conn, in, 1, 0) == 0);
    SURE(close(conn) == 0);
}

static void talk(void) {
    for (number = 0; number < ROUNDS; number++)
        in_handler(one_round);
    in_handler(a_long_one);
    for (int i = 0; i < 10; i++, number++) {
        in_handler(pieces);
        in_handler(one_round);
    }
    in_handler(copies);
    in_handler(one_round);
    in_handler(another_program);
    in_handler(one_round);
    if (!is_client)
        in_handler(pass);
    in_handler(one_round);
    in_handler(finish);
    say("enough");
}

void server(void) {
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, beside));
    listener = listen_here();
    prepare();
    in_handler(do_accept);
    talk();
}

void client(void) {
    address_size = there(&address);
    prepare();
    in_handler(do_connect);
    talk();
}
