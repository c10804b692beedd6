/*
 * The buffers of the kernel are small. The receiver gives the connection to stdio with much unread, and does
 * something else before it reads on; the sender, whose sends returned long ago and who waits in poll just then, must
 * not wait for that in any other call, nor must anything be lost if the sender closes meanwhile.
 *   more      the sender sends on after that
 *   shut      it shuts down
 *   close     it closes
 *   splice    it sends on by splice, and may not wait
 *   timeout   it sends on, and may wait for a moment
 *   restart   it sends on among signals whose handlers restart calls
 */
#include "common.h"

#define BYTES 120000
#define BUSY 800
/* Much shorter than the receiver is busy, much longer than anything else takes. */
#define SOON (BUSY / 2)

void helper(int fd) {
    small_buffer(fd, SO_RCVBUF);
    mark("small", 1);
    await_mark("sent");
    FILE *f = fdopen(fd, "r+");
    CHECK(f);
    mark("given", 1);
    sleep_ms(BUSY);
    uint64_t sum = SUM_START;
    size_t n = stream_to_eof(f, &sum);
    char *all = malloc(BYTES);
    fill(all, BYTES, 9);
    uint64_t expected = checksum(SUM_START, all, BYTES);
    if (!mode_is("shut") && !mode_is("close"))
        expected = checksum(expected, "END", 3);
    say("%zu bytes, %s", n, sum == expected ? "as sent" : "NOT as sent");
    fclose(f);
}

static void by_splice(int fd, bool ringed) {
    int ends[2];
    MUST(pipe(ends));
    MUST(write(ends[1], "END", 3));
    set_nonblocking(fd, true);
    uint64_t began = now_ms();
    ssize_t n = splice(ends[0], NULL, fd, NULL, 3, 0);
    CHECK(!ringed || now_ms() - began < SOON);
    for (; n < 0; n = splice(ends[0], NULL, fd, NULL, 3, 0)) {
        CHECK(errno == EAGAIN);
        struct pollfd room = {fd, POLLOUT, 0};
        poll(&room, 1, -1);
        sleep_ms(1);
    }
    CHECK(n == 3);
    set_nonblocking(fd, false);
}

static void with_a_timeout(int fd, bool ringed) {
    struct timeval limit = {0, 100000}, none = {0, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    uint64_t began = now_ms();
    ssize_t n = send(fd, "END", 3, 0);
    CHECK(n == 3 || errno == EAGAIN);
    CHECK(!ringed || now_ms() - began < SOON);
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none));
    if (n < 3)
        CHECK(send(fd, "END", 3, 0) == 3);
}

static void nothing(int signal) { (void)signal; }

static void *disturb(void *sender) {
    for (int i = 0; i < BUSY / 20; i++) {
        pthread_kill(*(pthread_t *)sender, SIGUSR1);
        sleep_ms(20);
    }
    return NULL;
}

static void among_signals(int fd) {
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t sender = pthread_self(), other = start_thread(disturb, &sender);
    CHECK(send(fd, "END", 3, 0) == 3);
    pthread_join(other, NULL);
}

void tester(int fd) {
    small_buffer(fd, SO_SNDBUF);
    await_mark("small");
    char *all = malloc(BYTES);
    fill(all, BYTES, 9);
    /* On TCP there is no room for it, and the rest waits for the receiver. */
    size_t n = write_some(fd, all, BYTES);
    bool ringed = n == BYTES;
    mark("sent", ringed);
    struct pollfd waiting = {fd, POLLIN, 0};
    while (!is_marked("given"))
        CHECK(poll(&waiting, 1, 1) == 0);
    write_all(fd, all + n, BYTES - n);
    uint64_t began = now_ms();
    CHECK(poll(&waiting, 1, 50) == 0);
    CHECK(!ringed || now_ms() - began < SOON);
    if (mode_is("more"))
        write_all(fd, "END", 3);
    else if (mode_is("splice"))
        by_splice(fd, ringed);
    else if (mode_is("timeout"))
        with_a_timeout(fd, ringed);
    else if (mode_is("restart"))
        among_signals(fd);
    if (mode_is("close")) {
        MUST(close(fd));
    } else {
        MUST(shutdown(fd, SHUT_WR));
        CHECK(!ringed || !mode_is("shut") || now_ms() - began < SOON);
        char byte;
        outcome("at the end", read(fd, &byte, 1));
    }
    if (mode_is("close"))
        CHECK(!ringed || now_ms() - began < SOON);
}
