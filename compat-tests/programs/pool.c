/*
 * One thread accepts, and gives each connection to a pool of threads that wait in two sets. Who is told of a connection reads
 * some of a message, answers when all of it is there, and gives the connection back in the way of its kind.
 *   0  for one event, anew in the same set
 *   1  for one event, taken out and put into the other set
 *   2  in both sets, EPOLLEXCLUSIVE
 *   3  in both sets, EPOLLEXCLUSIVE | EPOLLET: who is told reads until nothing is there
 * Arguments: seed, connections at the same time (12), messages on each (40), connections one after the other (3).
 */
#include "races.h"

#include <sys/eventfd.h>

#define MOST 64
#define LONGEST 40000
#define SETS 2
#define WORKERS 4

struct head {
    uint32_t stream, number, given, asked;
};

struct served {
    int fd, kind, set;
    pthread_mutex_t lock;
    struct head head;
    uint32_t got, has;
    bool over;
    char bytes[LONGEST];
};

static int lanes, messages, lives, sets[SETS], over;
static _Atomic int open_ends;
static struct served *_Atomic all[MOST * 8];
static _Atomic int all_count;

static void tell_streams(void) {
    say("open %d", open_ends);
    for (int i = 0; i < all_count; i++) {
        struct served *one = all[i];
        if (one && !one->over)
            say("descriptor %d, kind %d, set %d: stream %u, message %u, head %u, got %u of %u", one->fd, one->kind, one->set,
                one->head.stream, one->head.number, one->has, one->got, one->head.given);
    }
}

static uint32_t events_of(const struct served *one) {
    return EPOLLIN | (one->kind < 2 ? EPOLLONESHOT : EPOLLEXCLUSIVE) | (one->kind == 3 ? EPOLLET : 0u);
}

static void ask_in(struct served *one, int operation, int set) {
    struct epoll_event event = {.events = events_of(one), .data.ptr = one};
    MUST(epoll_ctl(sets[set], operation, one->fd, &event));
}

static void answer(struct served *one) {
    static __thread char bytes[LONGEST];
    check_bytes(one->bytes, one->head.given, one->head.stream, (uint64_t)one->head.number * 1000);
    make_bytes(bytes, one->head.asked, one->head.stream + 5000, (uint64_t)one->head.number * 1000);
    for (size_t at = 0; at < one->head.asked;) {
        ssize_t n = IN("send", one->fd, send(one->fd, bytes + at, one->head.asked - at, MSG_NOSIGNAL));
        HOLDS(n > 0);
        at += (size_t)n;
    }
    count_bytes(one->head.asked);
    one->got = one->has = 0;
}

/* One call. False: nothing is there. */
static bool receive(struct served *one, uint64_t *random) {
    bool heads = one->has < sizeof one->head;
    char *to = heads ? (char *)&one->head + one->has : one->bytes + one->got;
    size_t rest = heads ? sizeof one->head - one->has : one->head.given - one->got, wanted = some_size(random, rest);
    ssize_t n = IN("recv", one->fd, recv(one->fd, to, wanted, MSG_DONTWAIT));
    if (n < 0)
        HOLDS(errno == EAGAIN);
    if (n == 0) {
        HOLDS(one->has == 0);
        one->over = true;
        board->moved++;
    }
    if (n <= 0)
        return false;
    board->moved++;
    *(heads ? &one->has : &one->got) += (uint32_t)n;
    if (heads && one->has == sizeof one->head)
        HOLDS(one->head.given > 0 && one->head.given <= LONGEST && one->head.asked <= LONGEST);
    if (one->has == sizeof one->head && one->got == one->head.given)
        answer(one);
    return true;
}

static void serve(struct served *one, uint64_t *random) {
    pthread_mutex_lock(&one->lock);
    if (!one->over) {
        size_t calls = one->kind == 3 ? SIZE_MAX : 1 + below(random, 3);
        while (calls-- > 0 && receive(one, random))
            ;
        if (one->over) {
            open_ends--;
            if (one->kind == 1 && below(random, 2))
                MUST(epoll_ctl(sets[one->set], EPOLL_CTL_DEL, one->fd, NULL));
            MUST(close(one->fd));
        } else if (one->kind == 0) {
            ask_in(one, EPOLL_CTL_MOD, one->set);
        } else if (one->kind == 1) {
            MUST(epoll_ctl(sets[one->set], EPOLL_CTL_DEL, one->fd, NULL));
            one->set = (one->set + 1) % SETS;
            ask_in(one, EPOLL_CTL_ADD, one->set);
        }
    }
    pthread_mutex_unlock(&one->lock);
}

static void *worker(void *argument) {
    int number = (int)(intptr_t)argument, set = sets[number % SETS];
    stand("worker", number);
    uint64_t random = random_of(10 + (unsigned)number);
    for (;;) {
        struct epoll_event events[4];
        int n = IN("epoll_wait", set, epoll_wait(set, events, 1 + (int)below(&random, 4), -1));
        HOLDS(n > 0);
        for (int i = 0; i < n; i++) {
            if (!events[i].data.ptr) {
                step_down();
                return NULL;
            }
            serve(events[i].data.ptr, &random);
        }
    }
}

static void accept_all(void) {
    int listener = listen_here();
    for (int i = 0; i < SETS; i++)
        sets[i] = MUST(epoll_create1(EPOLL_CLOEXEC));
    over = MUST(eventfd(0, EFD_CLOEXEC));
    pthread_t threads[WORKERS];
    for (int i = 0; i < SETS; i++)
        MUST(epoll_ctl(sets[i], EPOLL_CTL_ADD, over, &(struct epoll_event){.events = EPOLLIN}));
    for (intptr_t i = 0; i < WORKERS; i++)
        threads[i] = start_thread(worker, (void *)i);
    stand("accepts", listener);
    uint64_t random = random_of(1);
    for (int i = 0; i < lanes * lives; i++) {
        int fd = IN("accept", listener, accept(listener, NULL, NULL));
        HOLDS(fd >= 0);
        no_delay(fd);
        struct served *one = calloc(1, sizeof *one);
        CHECK(one);
        one->fd = fd;
        one->kind = (int)below(&random, 4);
        one->set = (int)below(&random, SETS);
        pthread_mutex_init(&one->lock, NULL);
        open_ends++;
        all[all_count++] = one;
        pthread_mutex_lock(&one->lock);
        ask_in(one, EPOLL_CTL_ADD, one->set);
        if (one->kind >= 2)
            ask_in(one, EPOLL_CTL_ADD, 1 - one->set);
        pthread_mutex_unlock(&one->lock);
    }
    uint64_t before = 0;
    for (int still = 0; open_ends > 0; sleep_ms(5)) {
        still = board->moved == before ? still + 1 : 0;
        before = board->moved;
        HOLDS(still <= PATIENCE * 200);
    }
    MUST(eventfd_write(over, 1));
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

static void *asker(void *argument) {
    int lane = (int)(intptr_t)argument;
    stand("asker", lane);
    uint64_t random = random_of(100 + (unsigned)lane);
    char *bytes = malloc(LONGEST + sizeof(struct head));
    CHECK(bytes);
    for (int life = 0; life < lives; life++) {
        int fd = connect_there();
        no_delay(fd);
        for (uint32_t i = 0; i < (uint32_t)messages; i++) {
            struct head head = {(uint32_t)(lane * 16 + life), i, (uint32_t)some_size(&random, LONGEST), (uint32_t)some_size(&random, LONGEST)};
            memcpy(bytes, &head, sizeof head);
            make_bytes(bytes + sizeof head, head.given, head.stream, (uint64_t)i * 1000);
            size_t length = sizeof head + head.given;
            for (size_t at = 0; at < length;) {
                size_t n = some_size(&random, length - at);
                ssize_t result = IN("send", fd, send(fd, bytes + at, n, MSG_NOSIGNAL));
                HOLDS(result > 0);
                at += (size_t)result;
            }
            for (size_t at = 0; at < head.asked;) {
                ssize_t n = IN("recv", fd, recv(fd, bytes, head.asked - at, 0));
                HOLDS(n > 0);
                check_bytes(bytes, (size_t)n, head.stream + 5000, (uint64_t)i * 1000 + at);
                at += (size_t)n;
            }
            count_bytes(length + head.asked);
        }
        MUST(close(fd));
    }
    board->running--;
    free(bytes);
    return NULL;
}

static void race(void) {
    begin_races();
    lanes = (int)argument(1, 12);
    messages = (int)argument(2, 40);
    lives = (int)argument(3, 3);
    CHECK(lanes > 0 && lanes <= MOST && lives > 0 && lives <= 8);
    if (!is_client) {
        accept_all();
    } else {
        board->running = lanes;
        pthread_t threads[MOST];
        for (intptr_t i = 0; i < lanes; i++)
            threads[i] = start_thread(asker, (void *)i);
        watch_races();
        for (int i = 0; i < lanes; i++)
            pthread_join(threads[i], NULL);
    }
    say("all messages came");
}
