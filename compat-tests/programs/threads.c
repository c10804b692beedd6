/*
 * Threads on sockets.
 *   duplex          each side sends and receives a long stream at the same time (argument: MiB, 8), random chunks
 *   two_senders     two threads send records on one socket: all arrive
 *   two_receivers   two threads receive on one socket: everything is received once
 *   two_of_all      the same with MSG_WAITALL
 *   young           many connections that are used by four threads on each side from their first byte on
 *   per_connection  a thread per connection, four of them
 */
#include "common.h"

#define RECORDS 3000
#define RECORD 64
#define CONNECTIONS 4

static int connection;
static uint64_t stream_length;

static void *send_stream(void *unused) {
    (void)unused;
    uint64_t state = is_client ? 11 : 22, sum = SUM_START, left = stream_length;
    char chunk[100000];
    while (left > 0) {
        size_t n = 1 + next_random(&state) % (next_random(&state) % 8 ? 3000 : sizeof chunk);
        n = n > left ? left : n;
        fill(chunk, n, left);
        sum = checksum(sum, chunk, n);
        write_all(connection, chunk, n);
        left -= n;
    }
    MUST(shutdown(connection, SHUT_WR));
    say("sent %llu bytes, sum %016llx", (unsigned long long)stream_length, (unsigned long long)sum);
    return NULL;
}

static void receive_stream(pthread_t sender) {
    uint64_t state = is_client ? 33 : 44, sum = SUM_START, total = 0;
    char chunk[70000];
    for (ssize_t n; (n = MUST(recv(connection, chunk, 1 + next_random(&state) % sizeof chunk, 0))) > 0;
         total += (uint64_t)n)
        sum = checksum(sum, chunk, (size_t)n);
    pthread_join(sender, NULL); /* so that its line comes first */
    say("received %llu bytes, sum %016llx", (unsigned long long)total, (unsigned long long)sum);
}

static void duplex(void) {
    stream_length = (uint64_t)argument(0, 8) << 20;
    receive_stream(start_thread(send_stream, NULL));
}

static void *send_records(void *letter) {
    char record[RECORD];
    memset(record, *(const char *)letter, sizeof record);
    for (int i = 0; i < RECORDS; i++)
        CHECK(send(connection, record, sizeof record, 0) == sizeof record);
    return NULL;
}

static uint64_t letters[2];

static void count_letters(void) {
    char buffer[1000];
    for (ssize_t n; (n = MUST(recv(connection, buffer, sizeof buffer, 0))) > 0;)
        for (ssize_t i = 0; i < n; i++)
            letters[buffer[i] == 'a' ? 0 : 1]++;
    say("%llu of a, %llu of b", (unsigned long long)letters[0], (unsigned long long)letters[1]);
}

static void *receive_some(void *count) {
    char buffer[1000];
    bool all = mode_is("two_of_all");
    for (ssize_t n; (n = MUST(recv(connection, buffer, all ? sizeof buffer : 100, all ? MSG_WAITALL : 0))) > 0;)
        *(uint64_t *)count += (uint64_t)n;
    return NULL;
}

static void in_two_threads(void *(*run)(void *), void *first_argument, void *second_argument) {
    pthread_t first = start_thread(run, first_argument), second = start_thread(run, second_argument);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
}

static void *serve_connection(void *fd) {
    echo_until_eof(*(int *)fd);
    close(*(int *)fd);
    return NULL;
}

static void *use_connection(void *unused) {
    (void)unused;
    int fd = connected();
    for (int i = 0; i < 500; i++)
        exchange(fd, 1 + (size_t)i * 13 % 3000, (uint64_t)i);
    close(fd);
    return NULL;
}

#define YOUNG 60
#define YOUNG_BYTES 6000

static void *send_young(void *fd) {
    char chunk[60];
    fill(chunk, sizeof chunk, 3);
    for (int sent = 0; sent < YOUNG_BYTES / 2; sent += sizeof chunk)
        write_all(*(int *)fd, chunk, sizeof chunk);
    return NULL;
}

static volatile bool watching;

static void *watch_young(void *fd) {
    char byte;
    while (watching)
        if (recv(*(int *)fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
            CHECK(errno == EAGAIN);
    return NULL;
}

/* Which thread moves the connection from stage to stage is anybody's guess. */
static void use_young(int fd) {
    char buffer[100];
    watching = true;
    pthread_t sender = start_thread(send_young, &fd), other = start_thread(send_young, &fd);
    pthread_t watcher = start_thread(watch_young, &fd);
    for (ssize_t n, left = YOUNG_BYTES; left > 0; left -= n)
        CHECK((n = recv(fd, buffer, left < 100 ? (size_t)left : 100, 0)) > 0);
    pthread_join(sender, NULL);
    pthread_join(other, NULL);
    watching = false;
    pthread_join(watcher, NULL);
    close(fd);
}

void server(void) {
    int listener = listen_here();
    if (mode_is("young")) {
        for (int i = 0; i < YOUNG; i++)
            use_young(MUST(accept(listener, NULL, NULL)));
        say("used all");
        return;
    }
    if (mode_is("per_connection")) {
        pthread_t threads[CONNECTIONS];
        int fds[CONNECTIONS];
        for (int i = 0; i < CONNECTIONS; i++) {
            fds[i] = MUST(accept(listener, NULL, NULL));
            threads[i] = start_thread(serve_connection, &fds[i]);
        }
        for (int i = 0; i < CONNECTIONS; i++)
            pthread_join(threads[i], NULL);
        say("served %d connections", CONNECTIONS);
        return;
    }
    connection = accepted(listener);
    if (mode_is("duplex")) {
        duplex();
    } else if (mode_is("two_senders")) {
        in_two_threads(send_records, "a", "b");
        MUST(shutdown(connection, SHUT_WR));
        count_letters();
    } else {
        in_two_threads(receive_some, &letters[0], &letters[1]);
        say("%llu bytes received", (unsigned long long)(letters[0] + letters[1]));
    }
}

void client(void) {
    if (mode_is("per_connection")) {
        pthread_t threads[CONNECTIONS];
        for (int i = 0; i < CONNECTIONS; i++)
            threads[i] = start_thread(use_connection, NULL);
        for (int i = 0; i < CONNECTIONS; i++)
            pthread_join(threads[i], NULL);
        say("used %d connections", CONNECTIONS);
        return;
    }
    if (mode_is("young")) {
        for (int i = 0; i < YOUNG; i++)
            use_young(connect_there());
        say("used all");
        return;
    }
    connection = connected();
    if (mode_is("duplex")) {
        duplex();
    } else {
        if (mode_is("two_senders"))
            in_two_threads(send_records, "a", "b");
        else
            in_two_threads(send_records, "a", "a");
        MUST(shutdown(connection, SHUT_WR));
        count_letters();
    }
}
