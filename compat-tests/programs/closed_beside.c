/*
 * A number is closed, or made another connection, while another thread goes on using it: each of that thread's calls is
 * on the connection, or on what comes after it, and none is between the two.
 *   send     a thread sends until its number is closed: what it was told that it had sent arrives, and the end after it
 *   recv     a thread receives until its number is closed: it gets what the peer sent, and nothing else
 *   dup2     two connections take turns at the number that a thread writes to: all it wrote arrives, on one or the other
 */
#include "common.h"

#define ROUNDS 60
#define WRITES 100000
#define PIECE 16

static int shared;
static long sent;
static volatile bool written;
static volatile bool strange;
static pthread_barrier_t begin;

/* Long enough for some calls, and no number of them. */
static void a_moment(int round) {
    struct timespec time = {.tv_nsec = round % 20 * 15000};
    nanosleep(&time, NULL);
}

static void *send_until_closed(void *unused) {
    char piece[PIECE];
    memset(piece, 'x', sizeof piece);
    pthread_barrier_wait(&begin);
    for (ssize_t n; (n = send(shared, piece, sizeof piece, MSG_NOSIGNAL)) > 0;)
        sent += n;
    return unused;
}

static void *receive_until_closed(void *unused) {
    uint8_t buffer[4096], next = 0;
    pthread_barrier_wait(&begin);
    for (;;) {
        ssize_t n = recv(shared, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            return unused;
        for (ssize_t i = 0; i < n; i++)
            strange |= buffer[i] != next++;
    }
}

static void *write_many(void *unused) {
    char piece[PIECE];
    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < WRITES; i++)
        write_all(shared, piece, sizeof piece);
    written = true;
    return unused;
}

/* The thread is at it when the number is closed. */
static void close_beside(void *(*run)(void *), int round) {
    pthread_t thread = start_thread(run, NULL);
    pthread_barrier_wait(&begin);
    a_moment(round);
    MUST(close(shared));
    pthread_join(thread, NULL);
}

static void count_rounds(int listener) {
    unsigned whole = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char name[24];
        snprintf(name, sizeof name, "sent-%d", round);
        int fd = accepted(listener);
        uint64_t size = read_to_eof(fd, NULL);
        close(fd);
        whole += size == await_mark(name);
    }
    say("whole: %u of %u", whole, ROUNDS);
}

static void send_rounds(void) {
    for (int round = 0; round < ROUNDS; round++) {
        char name[24];
        snprintf(name, sizeof name, "sent-%d", round);
        shared = connected();
        sent = 0;
        close_beside(send_until_closed, round);
        mark(name, (uint64_t)sent);
    }
}

static void receive_rounds(int listener) {
    for (int round = 0; round < ROUNDS; round++) {
        shared = accepted(listener);
        close_beside(receive_until_closed, round);
    }
    say("strange bytes: %s", strange ? "yes" : "no");
}

static void speak_rounds(void) {
    for (int round = 0; round < ROUNDS; round++) {
        int fd = connected();
        uint8_t piece[5], next = 0;
        do {
            for (size_t i = 0; i < sizeof piece; i++)
                piece[i] = next++;
        } while (send(fd, piece, sizeof piece, MSG_NOSIGNAL) == sizeof piece);
        close(fd);
    }
}

static void *take(void *argument) {
    char buffer[65536];
    uint64_t *sum = argument;
    int fd = (int)*sum;
    *sum = 0;
    for (ssize_t n; (n = MUST(read(fd, buffer, sizeof buffer))) > 0; *sum += (uint64_t)n)
        for (ssize_t i = 0; i < n; i++)
            strange |= buffer[i] != 'x';
    return NULL;
}

static void take_from_both(int listener) {
    uint64_t sums[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        sums[i] = (uint64_t)accepted(listener);
    for (int i = 0; i < 2; i++)
        threads[i] = start_thread(take, &sums[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("taken: %ju, strange bytes: %s", sums[0] + sums[1], strange ? "yes" : "no");
}

static void take_turns(void) {
    int fds[2] = {connected(), 0};
    fds[1] = connected();
    shared = MUST(dup(fds[0]));
    pthread_t thread = start_thread(write_many, NULL);
    for (int turn = 0; !written; turn++)
        MUST(dup2(fds[turn % 2], shared));
    pthread_join(thread, NULL);
    MUST(shutdown(fds[0], SHUT_WR));
    MUST(shutdown(fds[1], SHUT_WR));
    say("written");
    char byte;
    say("ends: %zd %zd", read(fds[0], &byte, 1), read(fds[1], &byte, 1));
}

void server(void) {
    int listener = listen_here();
    pthread_barrier_init(&begin, NULL, 2);
    if (mode_is("send"))
        count_rounds(listener);
    else if (mode_is("recv"))
        receive_rounds(listener);
    else
        take_from_both(listener);
}

void client(void) {
    pthread_barrier_init(&begin, NULL, 2);
    if (mode_is("send"))
        send_rounds();
    else if (mode_is("recv"))
        speak_rounds();
    else
        take_turns();
}
