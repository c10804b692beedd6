/*
 * Threads are cancelled in every call that waits for a connection, before it, and behind it, deferred and asynchronously, while
 * another thread waits for the same connection. Nothing comes meanwhile, so nothing may be lost: what is sent then comes whole
 * to the one that is left, and so does what comes later. Arguments: seed, rounds (100).
 */
#include "races.h"

#include <sys/select.h>

#define VICTIMS 3
#define LONGEST 60000

enum call { RECV, READ, READV, RECVMSG, RECVMMSG, WAITALL, PEEK, POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL_OWN, EPOLL_PWAIT, CALLS };
static const char *const names[CALLS] = {"recv",  "read",   "readv",   "recvmsg",    "recvmmsg",        "recv of all", "peek",
                                         "poll",  "ppoll",  "select",  "pselect",    "epoll_wait",      "epoll_wait of an own set", "epoll_pwait"};

struct waiter {
    enum call call;
    bool asynchronous;
    int set;
    _Atomic bool began;
};

static int data, control, shared_set;
static uint64_t position, rounds, round_now, wanted_now;

static void tell_streams(void) {
    say("round %llu, position %llu, wanted %llu", (unsigned long long)round_now, (unsigned long long)position,
        (unsigned long long)wanted_now);
}

/* Waits in one call; how much it received. */
static ssize_t wait_in(const struct waiter *waiter, char *bytes, size_t length) {
    struct iovec piece = {bytes, length};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
    struct pollfd entry = {.fd = data, .events = POLLIN};
    struct epoll_event event;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(data, &readable);
    switch (waiter->call) {
    case RECV:
        return recv(data, bytes, length, 0);
    case READ:
        return read(data, bytes, length);
    case READV:
        return readv(data, &piece, 1);
    case RECVMSG:
        return recvmsg(data, &message.msg_hdr, 0);
    case RECVMMSG:
        return recvmmsg(data, &message, 1, 0, NULL) == 1 ? (ssize_t)message.msg_len : -1;
    case WAITALL:
        return recv(data, bytes, length, MSG_WAITALL);
    case PEEK:
        return recv(data, bytes, length, MSG_PEEK) < 0 ? -1 : 0;
    case POLL:
        return poll(&entry, 1, -1) - 1;
    case PPOLL:
        return ppoll(&entry, 1, NULL, NULL) - 1;
    case SELECT:
        return select(data + 1, &readable, NULL, NULL, NULL) - 1;
    case PSELECT:
        return pselect(data + 1, &readable, NULL, NULL, NULL, NULL) - 1;
    case EPOLL_PWAIT:
        return epoll_pwait(shared_set, &event, 1, -1, NULL) - 1;
    default:
        return epoll_wait(waiter->set, &event, 1, -1) - 1;
    }
}

static void *victim(void *argument) {
    struct waiter *waiter = argument;
    static __thread char bytes[64];
    int type;
    if (waiter->asynchronous)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    waiter->began = true;
    wait_in(waiter, bytes, sizeof bytes);
    return "came back"; /* nothing came */
}

/* Takes what comes, all of it. */
static void *survivor(void *argument) {
    struct waiter *waiter = argument;
    stand(names[waiter->call], data);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    for (size_t got = 0; got < wanted_now;) {
        ssize_t n = IN(names[waiter->call], data, wait_in(waiter, bytes, wanted_now - got));
        HOLDS(n >= 0);
        if (n == 0) {
            n = IN("recv", data, recv(data, bytes, wanted_now - got, MSG_DONTWAIT));
            HOLDS(n > 0 || (n < 0 && errno == EAGAIN));
            n = n < 0 ? 0 : n;
        }
        check_bytes(bytes, (size_t)n, 0, position);
        position += (uint64_t)n;
        got += (size_t)n;
        count_bytes((size_t)n);
    }
    free(bytes);
    step_down();
    board->running--;
    return NULL;
}

static void one_round(uint64_t *random) {
    struct waiter waiters[VICTIMS + 1];
    pthread_t threads[VICTIMS + 1];
    int victims = 1 + (int)below(random, VICTIMS);
    wanted_now = some_size(random, LONGEST);
    board->running = 1;
    int first = (int)below(random, 2);
    for (int k = 0; k <= victims; k++) {
        struct waiter *waiter = &waiters[k];
        *waiter = (struct waiter){.call = (enum call)below(random, CALLS), .asynchronous = below(random, 2), .set = shared_set};
        if (waiter->call == EPOLL_OWN) {
            waiter->set = MUST(epoll_create1(EPOLL_CLOEXEC));
            MUST(epoll_ctl(waiter->set, EPOLL_CTL_ADD, data, &(struct epoll_event){.events = EPOLLIN}));
        }
    }
    /* The last one is the survivor, which comes first or last. */
    if (first)
        threads[victims] = start_thread(survivor, &waiters[victims]);
    for (int k = 0; k < victims; k++)
        threads[k] = start_thread(victim, &waiters[k]);
    usleep((unsigned)below(random, 1500));
    for (int k = 0; k < victims; k++)
        HOLDS(pthread_cancel(threads[k]) == 0);
    if (!first)
        threads[victims] = start_thread(survivor, &waiters[victims]);
    for (int k = 0; k < victims; k++) {
        void *result;
        note("join of a victim", (int)waiters[k].call);
        HOLDS(pthread_join(threads[k], &result) == 0);
        here->call = NULL;
        HOLDS(result == PTHREAD_CANCELED);
    }
    uint32_t asked = (uint32_t)wanted_now;
    write_all(control, &asked, sizeof asked);
    watch_races();
    pthread_join(threads[victims], NULL);
    for (int k = 0; k <= victims; k++)
        if (waiters[k].call == EPOLL_OWN)
            close(waiters[k].set);
}

static void add(int i, int fd) { *(i ? &data : &control) = fd; }

static void race(void) {
    begin_races();
    rounds = (uint64_t)argument(1, 100);
    open_links(2, add);
    stand("main", 0);
    uint64_t random = random_of(1);
    if (!is_client) {
        static char bytes[LONGEST];
        uint32_t asked;
        for (uint64_t sent = 0;; sent += asked) {
            read_exact(control, &asked, sizeof asked);
            if (asked == 0)
                break;
            make_bytes(bytes, asked, 0, sent);
            write_all(data, bytes, asked);
        }
    } else {
        shared_set = MUST(epoll_create1(EPOLL_CLOEXEC));
        MUST(epoll_ctl(shared_set, EPOLL_CTL_ADD, data, &(struct epoll_event){.events = EPOLLIN}));
        for (round_now = 0; round_now < rounds; round_now++)
            one_round(&random);
        uint32_t nothing = 0;
        write_all(control, &nothing, sizeof nothing);
        char byte;
        HOLDS(IN("recv of the end", data, recv(data, &byte, 1, 0)) == 0);
    }
    say("all bytes came");
}
