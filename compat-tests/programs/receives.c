/*
 * A reader of each connection receives in every way, beside a writer that sends in every way and a thread that asks what is
 * there. One reader alone, so that what FIONREAD, MSG_PEEK, MSG_WAITALL and SO_RCVLOWAT promise can be held to the byte.
 * Arguments: seed, connections (3), KiB each way (1024), 1: SO_RCVLOWAT as well (the seed chooses).
 */
#include "races.h"

#include <sys/sendfile.h>

#define MOST 8
#define LONGEST 120000
/* What fits into any receive buffer. */
#define MODEST 6000

static struct stream links[MOST];
/* With the bytes that a link is to send. */
static int files[MOST];

static int count;
static bool low_water;
static uint64_t length;

static void tell_streams(void) {
    for (int i = 0; i < count; i++)
        tell_stream(&links[i]);
}

static ssize_t asks(struct stream *link) {
    int bytes = -1;
    HOLDS(ioctl(link->fd, FIONREAD, &bytes) == 0 && bytes >= 0);
    return bytes;
}

/* Blocking, all that was asked for or all that there will be. */
static void receive_all(struct stream *link, char *bytes, size_t n) {
    size_t wanted = least(n, length - link->received);
    ssize_t result = IN("recv WAITALL", link->fd, recv(link->fd, bytes, n, MSG_WAITALL));
    HOLDS(result == (ssize_t)wanted);
    came(link, bytes, result);
}

static void receive_low_water(struct stream *link, char *bytes, size_t n) {
    int mark = (int)least(n, MODEST);
    size_t wanted = least((size_t)mark, length - link->received);
    MUST(setsockopt(link->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    struct pollfd entry = {.fd = link->fd, .events = POLLIN};
    HOLDS(IN("poll with SO_RCVLOWAT", link->fd, poll(&entry, 1, -1)) == 1);
    ssize_t result = IN("recv with SO_RCVLOWAT", link->fd, recv(link->fd, bytes, LONGEST, 0));
    HOLDS(result >= (ssize_t)wanted);
    came(link, bytes, result);
    mark = 1;
    MUST(setsockopt(link->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
}

/* What a peek shows, the next receive brings, and no less. */
static void receive_peeked(struct stream *link, char *bytes, size_t n, int flags) {
    if (n == 0)
        return;
    ssize_t shown = IN("recv PEEK", link->fd, recv(link->fd, bytes, n, MSG_PEEK | flags));
    if (shown < 0)
        HOLDS(errno == EAGAIN && flags & MSG_DONTWAIT);
    if (shown <= 0)
        return;
    if (flags & MSG_WAITALL)
        HOLDS(shown == (ssize_t)least(n, length - link->received));
    check_bytes(bytes, (size_t)shown, bytes_of(link, false), link->received);
    ssize_t result = recv(link->fd, bytes, (size_t)shown, MSG_DONTWAIT);
    HOLDS(result == shown);
    came(link, bytes, result);
}

static void receive_counted(struct stream *link, char *bytes, size_t more) {
    ssize_t there = asks(link);
    if (there > LONGEST)
        there = LONGEST;
    size_t wanted = least((size_t)there + more, LONGEST);
    if (wanted == 0)
        return;
    ssize_t result = recv(link->fd, bytes, wanted, MSG_DONTWAIT);
    if (result < 0 && errno == EAGAIN)
        result = 0;
    HOLDS(result >= there);
    came(link, bytes, result);
}

static void receive_pieces(struct stream *link, char *bytes, size_t n) {
    struct iovec pieces[3] = {{bytes, n / 3 + 1}, {bytes + n / 3 + 1, n / 5}, {bytes + n / 3 + 1 + n / 5, n / 7 + 1}};
    ssize_t result = IN("readv", link->fd, readv(link->fd, pieces, 3));
    HOLDS(result >= 0);
    came(link, bytes, result);
}

/* A receive that drops what it would bring. */
static void receive_nothing(struct stream *link, char *bytes, size_t n) {
    ssize_t result = recv(link->fd, bytes, n, MSG_TRUNC | MSG_DONTWAIT);
    HOLDS(result >= 0 || errno == EAGAIN);
    if (result > 0) {
        link->received += (uint64_t)result;
        count_bytes((size_t)result);
    }
}

static void receive_some(struct stream *link, char *bytes, uint64_t *random) {
    size_t n = some_size(random, LONGEST / 2);
    ssize_t result;
    switch (below(random, 10)) {
    case 0:
        receive_all(link, bytes, n);
        break;
    case 1:
        receive_peeked(link, bytes, n, 0);
        break;
    case 2:
        receive_peeked(link, bytes, n, MSG_DONTWAIT);
        break;
    case 3:
        /* Of what is there: Linux opens no window for one that waits for more, and both sides may stand still for that. */
        receive_peeked(link, bytes, least(n, (uint64_t)asks(link)), MSG_WAITALL);
        break;
    case 4:
        receive_counted(link, bytes, 0);
        break;
    case 5:
        receive_counted(link, bytes, n);
        break;
    case 6:
        receive_pieces(link, bytes, n);
        break;
    case 7:
        receive_nothing(link, bytes, n);
        break;
    case 8:
        if (low_water && below(random, 8) == 0) {
            receive_low_water(link, bytes, n);
            break;
        }
        /* fall through */
    default:
        result = IN("recv", link->fd, recv(link->fd, bytes, n, 0));
        HOLDS(result > 0 || (result == 0 && link->received == length));
        came(link, bytes, result);
    }
}

static void *reader(void *argument) {
    struct stream *link = argument;
    stand("reader", link->number);
    uint64_t random = random_of(10 + (unsigned)link->number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (link->received < length)
        receive_some(link, bytes, &random);
    HOLDS(IN("recv", link->fd, recv(link->fd, bytes, LONGEST, 0)) == 0);
    HOLDS(asks(link) == 0);
    board->running--;
    free(bytes);
    return NULL;
}

static ssize_t send_pieces(struct stream *link, char *bytes, size_t n, int flags) {
    struct iovec pieces[4] = {{bytes, n / 2}, {bytes + n / 2, 0}, {bytes + n / 2, n / 3}, {bytes + n / 2 + n / 3, n - n / 2 - n / 3}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 4};
    if (flags == 0)
        return IN("writev", link->fd, writev(link->fd, pieces, 4));
    return IN("sendmsg", link->fd, sendmsg(link->fd, &message, flags));
}

static ssize_t send_some(struct stream *link, char *bytes, size_t n, uint64_t *random) {
    off_t at = (off_t)link->sent;
    switch (below(random, 6)) {
    case 0:
        return IN("sendfile", link->fd, sendfile(link->fd, files[link->number], &at, n));
    case 1:
        return send_pieces(link, bytes, n, 0);
    case 2:
        return send_pieces(link, bytes, n, MSG_MORE);
    case 3:
        return IN("send MORE", link->fd, send(link->fd, bytes, n, MSG_MORE));
    case 4: {
        struct pollfd entry = {.fd = link->fd, .events = POLLOUT};
        HOLDS(IN("poll for room", link->fd, poll(&entry, 1, -1)) == 1 && entry.revents == POLLOUT);
        return send(link->fd, bytes, n, MSG_DONTWAIT);
    }
    default:
        return IN("write", link->fd, write(link->fd, bytes, n));
    }
}

static void *writer(void *argument) {
    struct stream *link = argument;
    stand("writer", link->number);
    uint64_t random = random_of(20 + (unsigned)link->number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (link->sent < length) {
        size_t n = least(some_size(&random, LONGEST), length - link->sent);
        make_next(link, bytes, n);
        ssize_t result = send_some(link, bytes, n, &random);
        went(link, result);
        if (below(&random, 20) == 0)
            usleep((unsigned)below(&random, 2000));
    }
    MUST(shutdown(link->fd, SHUT_WR));
    board->running--;
    free(bytes);
    return NULL;
}

/* What somebody asks beside the reader, he may believe only in part: but it must be something. */
static void *asker(void *argument) {
    stand("asker", (int)(intptr_t)argument);
    uint64_t random = random_of(30 + (unsigned)(intptr_t)argument);
    while (board->running > 0) {
        struct stream *link = &links[below(&random, (size_t)count)];
        char bytes[64];
        struct pollfd entry = {.fd = link->fd, .events = POLLIN | POLLRDHUP};
        asks(link);
        HOLDS(recv(link->fd, bytes, 1 + below(&random, sizeof bytes), MSG_PEEK | MSG_DONTWAIT) >= 0 || errno == EAGAIN);
        HOLDS(IN("poll beside", link->fd, poll(&entry, 1, (int)below(&random, 5))) >= 0);
        HOLDS(!(entry.revents & (POLLERR | POLLNVAL)));
        usleep((unsigned)below(&random, 500));
    }
    return NULL;
}

static void add(int i, int fd) {
    struct stream *link = &links[i];
    begin_stream(link, i, fd);
    files[link->number] = MUST(memfd_create("pattern", MFD_CLOEXEC));
    char *bytes = malloc(length);
    CHECK(bytes);
    make_bytes(bytes, length, bytes_of(link, true), 0);
    write_all(files[link->number], bytes, length);
    free(bytes);
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 3);
    length = (uint64_t)argument(2, 1024) << 10;
    CHECK(count > 0 && count <= MOST);
    low_water = argument(3, seed % 4 == 0);
    board->running = 2 * count;
    open_links(count, add);
    pthread_t threads[2 * MOST + 1];
    int n = 0;
    bool asked = seed % 3 != 0;
    for (int i = 0; i < count; i++) {
        threads[n++] = start_thread(reader, &links[i]);
        threads[n++] = start_thread(writer, &links[i]);
    }
    if (asked)
        threads[n++] = start_thread(asker, (void *)0);
    watch_races();
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    say("all bytes came");
}
