/*
 * Connections that end in every way while several threads receive from them: by shutdown, close, a reset, the end of a
 * process, and by a thread of the receivers' own. All that was sent before an orderly end comes, once, then the end; before
 * a reset a beginning of it comes, and the error is told once. Arguments: seed, connections (80), at the same time (3).
 * Each byte tells where it belongs, so that threads may receive without a lock.
 */
#include "races.h"

#define LONGEST 500000
#define PIECE 50000
#define RECEIVERS 3
#define MOST_PIECES 16384

enum end { HALF, CLOSED, BOTH_WAYS, RESET, UNREAD, EXITED, OWN_HALF, OWN_BOTH, ENDS };
static const char *const names[ENDS] = {"half", "closed", "both ways", "reset", "unread", "exited", "own half", "own both"};

/* What both sides know of a connection before it begins. */
struct plan {
    enum end end;
    bool client_sends;
    size_t length;
    int exchanges, receivers, delay, copies;
};

struct piece {
    uint64_t at;
    size_t length;
};

struct round {
    int fd, number;
    struct plan plan;
    pthread_mutex_t lock;
    struct piece pieces[MOST_PIECES];
    int piece_count;
    _Atomic unsigned started;
    /* All bytes, and of those the ones that were too few to tell where they belong. */
    uint64_t bytes, unplaced;
    int resets;
};

static int rounds, lanes, shared_listener;
static _Atomic int next_round;
static _Atomic(struct round *) current[16];

static void tell_streams(void) {
    for (int i = 0; i < 16; i++) {
        struct round *round = current[i];
        if (round)
            say("connection %d, descriptor %d, %s, %s sends %zu, %d exchanges, %d receivers: %llu bytes here (%llu unplaced), resets %d",
                round->number, round->fd, names[round->plan.end], round->plan.client_sends ? "client" : "server",
                round->plan.length, round->plan.exchanges, round->plan.receivers, (unsigned long long)round->bytes,
                (unsigned long long)round->unplaced, round->resets);
    }
}

static struct plan plan_of(int number) {
    uint64_t random = seed * 0x9e3779b97f4a7c15ull + (uint64_t)number * 65537 + 77;
    for (int i = 0; i < 8; i++)
        next_random(&random);
    return (struct plan){
        .end = (enum end)below(&random, ENDS),
        .client_sends = below(&random, 2),
        .length = some_size(&random, LONGEST),
        .exchanges = (int)below(&random, 12),
        .receivers = 1 + (int)below(&random, RECEIVERS),
        .delay = (int)below(&random, 2000),
        .copies = (int)below(&random, 4),
    };
}

/* Words of eight bytes that tell their number, with a mark at their first. */
static uint8_t byte_at(int number, uint64_t at) {
    uint64_t word = at / 8;
    switch (at % 8) {
    case 0:
        return (uint8_t)(0x80 | (word & 0x7f));
    case 1:
        return word >> 7 & 0x7f;
    case 2:
        return word >> 14 & 0x7f;
    case 3:
        return (uint8_t)number & 0x7f;
    default:
        return pattern(at * 7 + (uint64_t)number) & 0x7f;
    }
}

/* Where the bytes belong, from what they say; they must say it all. */
static void place(struct round *round, const uint8_t *bytes, size_t n) {
    size_t first = 0;
    while (first < n && !(bytes[first] & 0x80))
        first++;
    pthread_mutex_lock(&round->lock);
    round->bytes += n;
    if (first + 3 > n) {
        HOLDS(first < 8);
        round->unplaced += n;
    } else {
        uint64_t word = (bytes[first] & 0x7f) | (uint64_t)bytes[first + 1] << 7 | (uint64_t)bytes[first + 2] << 14;
        HOLDS(word * 8 >= first);
        uint64_t at = word * 8 - first;
        for (size_t i = 0; i < n; i++)
            HOLDS(bytes[i] == byte_at(round->number, at + i));
        HOLDS(round->piece_count < MOST_PIECES);
        round->pieces[round->piece_count++] = (struct piece){at, n};
    }
    pthread_mutex_unlock(&round->lock);
    count_bytes(n);
}

static int by_place(const void *a, const void *b) {
    const struct piece *one = a, *other = b;
    return one->at < other->at ? -1 : one->at > other->at;
}

/* No byte came twice, none is missing but those that nobody could place. */
static void judge(struct round *round) {
    qsort(round->pieces, (size_t)round->piece_count, sizeof round->pieces[0], by_place);
    uint64_t end = 0, missing = 0;
    for (int i = 0; i < round->piece_count; i++) {
        HOLDS(round->pieces[i].at >= end);
        missing += round->pieces[i].at - end;
        end = round->pieces[i].at + round->pieces[i].length;
    }
    HOLDS(missing <= round->unplaced);
    HOLDS(round->bytes <= round->plan.length && end <= round->plan.length);
    switch (round->plan.end) {
    case HALF:
    case CLOSED:
    case BOTH_WAYS:
    case EXITED:
        HOLDS(round->bytes == round->plan.length);
        HOLDS(round->resets == 0);
        break;
    case RESET:
    case UNREAD:
        HOLDS(round->resets == 1);
        break;
    default:
        /* Who has shut both ways is reset by what comes then. */
        HOLDS(round->resets <= (round->plan.end == OWN_BOTH));
    }
}

static void *receiver(void *argument) {
    struct round *round = argument;
    stand("receiver of", round->number);
    uint64_t random = random_of((unsigned)round->number * 8 + round->started++);
    uint8_t *bytes = malloc(PIECE);
    CHECK(bytes);
    int way = (int)below(&random, 3), set = -1;
    if (way == 2) {
        set = MUST(epoll_create1(EPOLL_CLOEXEC));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, round->fd, &(struct epoll_event){.events = EPOLLIN}));
    }
    for (;;) {
        ssize_t n;
        size_t wanted = some_size(&random, PIECE);
        struct pollfd entry = {.fd = round->fd, .events = POLLIN};
        struct epoll_event event;
        if (way == 1)
            HOLDS(IN("poll", round->fd, poll(&entry, 1, -1)) == 1);
        if (way == 2)
            HOLDS(IN("epoll_wait", round->fd, epoll_wait(set, &event, 1, -1)) == 1);
        n = IN("recv", round->fd, recv(round->fd, bytes, wanted, way ? MSG_DONTWAIT : 0));
        if (n == 0)
            break;
        if (n > 0) {
            place(round, bytes, (size_t)n);
            continue;
        }
        HOLDS(errno == ECONNRESET || (way && errno == EAGAIN));
        if (errno == ECONNRESET) {
            pthread_mutex_lock(&round->lock);
            round->resets++;
            pthread_mutex_unlock(&round->lock);
        }
    }
    if (set >= 0)
        close(set);
    free(bytes);
    step_down();
    return NULL;
}

static void receive(struct round *round) {
    pthread_t threads[RECEIVERS];
    for (int i = 0; i < round->plan.receivers; i++)
        threads[i] = start_thread(receiver, round);
    bool own = round->plan.end == OWN_HALF || round->plan.end == OWN_BOTH;
    for (int i = 0; i < round->plan.copies; i++) {
        int copy = MUST(dup(round->fd));
        usleep(100);
        MUST(close(copy));
    }
    if (round->plan.end == UNREAD)
        HOLDS(IN("send", round->fd, send(round->fd, "unread", 6, MSG_NOSIGNAL)) == 6);
    if (own) {
        usleep((unsigned)round->plan.delay);
        HOLDS(shutdown(round->fd, round->plan.end == OWN_HALF ? SHUT_RD : SHUT_RDWR) == 0 || errno == ENOTCONN);
    }
    for (int i = 0; i < round->plan.receivers; i++)
        IN("join of a receiver", round->fd, pthread_join(threads[i], NULL));
    judge(round);
    close(round->fd);
}

static void send_all(struct round *round) {
    uint64_t random = random_of((unsigned)round->number + 7777);
    uint8_t *bytes = malloc(round->plan.length);
    CHECK(bytes);
    for (size_t i = 0; i < round->plan.length; i++)
        bytes[i] = byte_at(round->number, i);
    /* Who is cut by the other side may be told. */
    bool may_fail = round->plan.end == OWN_HALF || round->plan.end == OWN_BOTH;
    for (size_t at = 0; at < round->plan.length;) {
        size_t n = some_size(&random, round->plan.length - at);
        ssize_t result = IN("send", round->fd, send(round->fd, bytes + at, n, MSG_NOSIGNAL));
        if (result < 0) {
            HOLDS(may_fail && (errno == EPIPE || errno == ECONNRESET));
            break;
        }
        at += (size_t)result;
        count_bytes((size_t)result);
    }
    free(bytes);
}

static void end(struct round *round) {
    int fd = round->fd;
    char byte;
    switch (round->plan.end) {
    case HALF:
        MUST(shutdown(fd, SHUT_WR));
        HOLDS(IN("recv of the end", fd, recv(fd, &byte, 1, 0)) == 0);
        break;
    case BOTH_WAYS:
        MUST(shutdown(fd, SHUT_RDWR));
        usleep((unsigned)round->plan.delay);
        break;
    case RESET:
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)));
        break;
    case UNREAD:
        HOLDS(IN("peek", fd, recv(fd, &byte, 1, MSG_PEEK)) == 1);
        break;
    default:
        break;
    }
    close(fd);
}

static void run(struct round *round, int lane) {
    current[lane] = round;
    for (int i = 0; i < round->plan.exchanges; i++) {
        uint8_t buffer[WARM_BYTES];
        if (is_client) {
            exchange(round->fd, sizeof buffer, (uint64_t)i);
        } else {
            read_exact(round->fd, buffer, sizeof buffer);
            write_all(round->fd, buffer, sizeof buffer);
        }
    }
    if (is_client != round->plan.client_sends) {
        receive(round);
    } else if (round->plan.end == EXITED) {
        pid_t child = MUST(fork());
        if (child == 0) {
            send_all(round);
            _exit(0);
        }
        close(round->fd);
        int status;
        HOLDS(IN("waitpid", child, waitpid(child, &status, 0)) == child && status == 0);
    } else {
        send_all(round);
        end(round);
    }
    current[lane] = NULL;
    free(round);
    board->moved++;
}

static struct round *begin(int fd, int number) {
    struct round *round = calloc(1, sizeof *round);
    CHECK(round);
    round->fd = fd;
    round->number = number;
    round->plan = plan_of(number);
    pthread_mutex_init(&round->lock, NULL);
    return round;
}

static void *client_lane(void *argument) {
    int lane = (int)(intptr_t)argument;
    stand("lane", lane);
    for (int number; (number = next_round++) < rounds;) {
        int fd = connect_there();
        write_all(fd, &number, sizeof number);
        run(begin(fd, number), lane);
    }
    board->running--;
    return NULL;
}

static void *server_lane(void *argument) {
    int lane = (int)(intptr_t)argument;
    stand("lane", lane);
    for (int number; next_round++ < rounds;) {
        int fd = IN("accept", shared_listener, accept(shared_listener, NULL, NULL));
        HOLDS(fd >= 0);
        read_exact(fd, &number, sizeof number);
        run(begin(fd, number), lane);
    }
    board->running--;
    return NULL;
}

static void race(void) {
    begin_races();
    rounds = (int)argument(1, 80);
    lanes = (int)argument(2, 3);
    CHECK(lanes > 0 && lanes <= 16);
    board->running = lanes;
    if (!is_client)
        shared_listener = listen_here();
    pthread_t threads[16];
    for (intptr_t i = 0; i < lanes; i++)
        threads[i] = start_thread(is_client ? client_lane : server_lane, (void *)i);
    watch_races();
    for (int i = 0; i < lanes; i++)
        pthread_join(threads[i], NULL);
    say("all connections ended as they should");
}
