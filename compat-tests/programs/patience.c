/*
 * Calls with time limits, which another thread changes while they wait; then that thread ends one half of the connection, or
 * both, under calls that are inside of it. Each link sends in both directions, with pauses, into small and large calls.
 * Arguments: seed, connections (3), KiB each way (512).
 */
#include "races.h"

#define MOST 8
#define LONGEST 200000
/* The most that a limit of some ms may take on a busy machine, ms. */
#define LATE 5000

enum end { HALF, READER_STOPS, BOTH_STOP, ENDS };

static struct link {
    struct stream stream;
    _Atomic bool all_received, all_sent, over;
    enum end end;
    _Atomic uint64_t limits;
} links[MOST];

static int count;
static uint64_t length;

static void tell_streams(void) {
    for (int i = 0; i < count; i++) {
        tell_stream(&links[i].stream);
        say("end %d, limits %llu", links[i].end, (unsigned long long)links[i].limits);
    }
}

static void *reader(void *argument) {
    struct link *link = argument;
    stand("reader", link->stream.number);
    uint64_t random = random_of(10 + (unsigned)link->stream.number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (link->stream.received < length) {
        size_t wanted = some_size(&random, LONGEST);
        wanted = least(wanted, length - link->stream.received);
        uint64_t limits = link->limits, began = now_ms();
        int flags = below(&random, 4) == 0 ? MSG_WAITALL : 0;
        ssize_t n = IN("recv", link->stream.fd, recv(link->stream.fd, bytes, wanted, flags));
        if (n < 0) {
            HOLDS(errno == EAGAIN && (limits || link->limits));
            HOLDS(now_ms() - began < LATE);
            continue;
        }
        HOLDS(n > 0);
        came(&link->stream, bytes, n);
    }
    link->all_received = true;
    /* Nothing comes any more but an end: the peer's, or that of a thread of this side. */
    for (;;) {
        ssize_t n = IN("recv of the end", link->stream.fd, recv(link->stream.fd, bytes, 100, 0));
        if (n == 0)
            break;
        HOLDS(n < 0 && errno == EAGAIN);
        board->moved++;
    }
    board->running--;
    free(bytes);
    return NULL;
}

static void *writer(void *argument) {
    struct link *link = argument;
    stand("writer", link->stream.number);
    uint64_t random = random_of(20 + (unsigned)link->stream.number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (link->stream.sent < length) {
        size_t n = some_size(&random, LONGEST);
        n = least(n, length - link->stream.sent);
        make_next(&link->stream, bytes, n);
        ssize_t result = IN("send", link->stream.fd, send(link->stream.fd, bytes, n, MSG_NOSIGNAL));
        if (result < 0) {
            HOLDS(errno == EAGAIN);
            continue;
        }
        went(&link->stream, result);
        if (below(&random, 8) == 0)
            usleep((unsigned)below(&random, 4000));
    }
    link->all_sent = true;
    board->running--;
    free(bytes);
    return NULL;
}

static void *changer(void *argument) {
    struct link *link = argument;
    stand("changer", link->stream.number);
    uint64_t random = random_of(30 + (unsigned)link->stream.number);
    while (!link->all_sent || !link->all_received) {
        struct timeval limit = {.tv_usec = below(&random, 3) ? (long)below(&random, 20000) : 0};
        struct linger linger = {(int)below(&random, 2), 5};
        if (limit.tv_usec)
            link->limits++;
        switch (below(&random, 4)) {
        case 0:
            MUST(setsockopt(link->stream.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
            break;
        case 1:
            MUST(setsockopt(link->stream.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
            break;
        default:
            MUST(setsockopt(link->stream.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
        }
        usleep((unsigned)below(&random, 6000));
    }
    /* The other side has all of it, too, before anything ends: a reset would take bytes. */
    char name[32];
    int i = link->stream.number;
    snprintf(name, sizeof name, "%s-%d", is_client ? "client" : "server", i);
    mark(name, 1);
    snprintf(name, sizeof name, "%s-%d", is_client ? "server" : "client", i);
    await_mark(name);
    usleep((unsigned)below(&random, 3000));
    /* Its peer may have ended both ways just before. */
    int how = link->end == HALF ? SHUT_WR : link->end == READER_STOPS ? SHUT_RD : SHUT_RDWR;
    HOLDS(shutdown(link->stream.fd, how) == 0 || errno == ENOTCONN);
    if (how == SHUT_RD)
        HOLDS(shutdown(link->stream.fd, SHUT_WR) == 0 || errno == ENOTCONN);
    board->running--;
    return NULL;
}

static void add(int i, int fd) {
    uint64_t random = random_of(40 + (unsigned)i);
    begin_stream(&links[i].stream, i, fd);
    links[i].end = (enum end)below(&random, ENDS);
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 3);
    length = (uint64_t)argument(2, 512) << 10;
    CHECK(count > 0 && count <= MOST);
    board->running = 3 * count;
    open_links(count, add);
    pthread_t threads[3 * MOST];
    void *(*const all[3])(void *) = {reader, writer, changer};
    for (int i = 0; i < 3 * count; i++)
        threads[i] = start_thread(all[i % 3], &links[i / 3]);
    watch_races();
    for (int i = 0; i < 3 * count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        MUST(close(links[i].stream.fd));
    say("all bytes came");
}
