/*
 * Several waits watch the same connections, each in its own way, and each message is for one of them alone: it stands still
 * where that one is not told, whoever else is. Messages go to and fro, so that an edge is never for two of them.
 * Arguments: seed, messages on each connection (300), connections (4), ways as bits (the seed chooses some).
 */
#include "races.h"

#include <sys/eventfd.h>

#define MOST 16
#define LONGEST 200000

enum kind { LEVEL, EDGE, ONCE, EXCLUSIVE, NESTED, NESTED_EDGES, PLAIN_POLL, POLLED_SET, KINDS };
static const char *const names[KINDS] = {"level", "edge", "once", "exclusive", "nested", "nested edges", "poll", "polled set"};

static struct link {
    int fd;
    pthread_mutex_t lock;
    /* The next message that comes, and how much of it is here. */
    int turn;
    size_t here;
    uint64_t received, sent;
} links[MOST];

static struct watcher {
    enum kind kind;
    /* What connections are in; and what has that in it, where sets are nested. */
    int set, outer;
} watchers[KINDS];

static int count, messages, ways, over;

/* The same on both sides. */
static uint64_t about(const struct link *link, int message, unsigned what) {
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + (uint64_t)(link - links) * 1000003 + (uint64_t)message * 65537 + what;
    for (int i = 0; i < 6; i++)
        next_random(&state);
    return state;
}

static size_t length_of(const struct link *link, int message) {
    uint64_t random = about(link, message, 1);
    return some_size(&random, LONGEST);
}

static struct watcher *addressee(const struct link *link, int message) {
    uint64_t random = about(link, message, 2 + is_client);
    return &watchers[below(&random, (size_t)ways)];
}

static void tell_streams(void) {
    for (int i = 0; i < count; i++)
        say("%d, descriptor %d: message %d, %zu bytes of it, for %s; received %llu, sent %llu", i, links[i].fd, links[i].turn,
            links[i].here, links[i].turn < messages ? names[addressee(&links[i], links[i].turn)->kind] : "nobody", (unsigned long long)links[i].received, (unsigned long long)links[i].sent);
}

static unsigned stream(const struct link *link, bool mine) { return (unsigned)(link - links) * 2 + (mine == is_client); }

static void give(struct link *link, int message, char *bytes) {
    size_t length = length_of(link, message);
    make_bytes(bytes, length, stream(link, true), link->sent);
    for (size_t at = 0; at < length;) {
        ssize_t n = IN("send", link->fd, send(link->fd, bytes + at, length - at, MSG_NOSIGNAL));
        HOLDS(n > 0);
        at += (size_t)n;
    }
    link->sent += length;
    count_bytes(length);
}

/* Under the link's lock: until the message is whole, true, or nothing more is there. */
static bool take(struct link *link, char *bytes, uint64_t *random) {
    size_t length = length_of(link, link->turn);
    while (link->here < length) {
        size_t wanted = some_size(random, length - link->here);
        ssize_t n = recv(link->fd, bytes, wanted, MSG_DONTWAIT);
        if (n < 0)
            HOLDS(errno == EAGAIN);
        if (n < 0)
            return false;
        HOLDS(n > 0);
        check_bytes(bytes, (size_t)n, stream(link, false), link->received);
        link->received += (uint64_t)n;
        link->here += (size_t)n;
        count_bytes((size_t)n);
        /* A short receive has found nothing more. */
        if ((size_t)n < wanted && link->here < length)
            return false;
    }
    return true;
}

/* Was told of the connection. False if what is there is for somebody else. */
static bool told(struct watcher *watcher, struct link *link, char *bytes, uint64_t *random) {
    IN("lock", link->fd, pthread_mutex_lock(&link->lock));
    bool mine = link->turn < messages && addressee(link, link->turn) == watcher;
    while (link->turn < messages && addressee(link, link->turn) == watcher && take(link, bytes, random)) {
        link->here = 0;
        int answer = link->turn + 1;
        link->turn += 2;
        if (answer < messages)
            give(link, answer, bytes);
        if (link->turn >= messages)
            board->running--;
    }
    pthread_mutex_unlock(&link->lock);
    return mine;
}

static uint32_t asked(const struct watcher *watcher) {
    switch (watcher->kind) {
    case EDGE:
    case NESTED_EDGES:
        return EPOLLIN | EPOLLET;
    case ONCE:
        return EPOLLIN | EPOLLONESHOT;
    case EXCLUSIVE:
        return EPOLLIN | EPOLLEXCLUSIVE;
    default:
        return EPOLLIN;
    }
}

static void register_link(struct watcher *watcher, int operation, struct link *link) {
    struct epoll_event event = {.events = asked(watcher), .data.ptr = link};
    MUST(epoll_ctl(watcher->set, operation, link->fd, &event));
}

/* What the set of connections tells of: how many. */
static int handle(struct watcher *watcher, int limit, char *bytes, uint64_t *random) {
    struct epoll_event events[4];
    int n = IN("epoll_wait", watcher->set, epoll_wait(watcher->set, events, 1 + (int)below(random, 4), limit));
    HOLDS(n >= 0);
    bool idle = true;
    for (int i = 0; i < n; i++) {
        struct link *link = events[i].data.ptr;
        if (!link)
            continue;
        /* One that is through may be over in the midst of a bell, by a reset. */
        uint32_t may = EPOLLIN | EPOLLHUP | EPOLLRDHUP | (link->turn < messages ? 0u : EPOLLERR);
        HOLDS(!(events[i].events & ~may));
        if (told(watcher, link, bytes, random))
            idle = false;
        if (watcher->kind == ONCE)
            register_link(watcher, EPOLL_CTL_MOD, link);
        /* What is added anew is told of anew. */
        if (below(random, 16) == 0) {
            MUST(epoll_ctl(watcher->set, EPOLL_CTL_DEL, link->fd, NULL));
            register_link(watcher, EPOLL_CTL_ADD, link);
        }
    }
    if (n > 0 && idle && !(asked(watcher) & EPOLLET))
        usleep(200);
    return n;
}

static void poll_links(struct watcher *watcher, char *bytes, uint64_t *random) {
    struct pollfd entries[MOST + 1];
    for (int i = 0; i < count; i++)
        entries[i] = (struct pollfd){.fd = links[i].fd, .events = POLLIN};
    entries[count] = (struct pollfd){.fd = over, .events = POLLIN};
    HOLDS(IN("poll", links[0].fd, poll(entries, (nfds_t)count + 1, -1)) > 0);
    bool idle = true;
    for (int i = 0; i < count; i++)
        if (entries[i].revents && told(watcher, &links[i], bytes, random))
            idle = false;
    if (idle)
        usleep(200);
}

static void *watcher_runs(void *argument) {
    struct watcher *watcher = argument;
    stand(names[watcher->kind], watcher->set);
    uint64_t random = random_of((unsigned)watcher->kind + 100);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    struct epoll_event event;
    while (board->running > 0) {
        switch (watcher->kind) {
        case PLAIN_POLL:
            poll_links(watcher, bytes, &random);
            break;
        case POLLED_SET: {
            struct pollfd entry = {.fd = watcher->set, .events = POLLIN};
            HOLDS(IN("poll of a set", watcher->set, poll(&entry, 1, -1)) == 1);
            handle(watcher, 0, bytes, &random);
            break;
        }
        case NESTED:
        case NESTED_EDGES:
            HOLDS(IN("outer epoll_wait", watcher->outer, epoll_wait(watcher->outer, &event, 1, -1)) == 1);
            while (handle(watcher, 0, bytes, &random) > 0 && watcher->kind == NESTED_EDGES && board->running > 0)
                ;
            break;
        default:
            handle(watcher, -1, bytes, &random);
        }
    }
    free(bytes);
    return NULL;
}

static void make(struct watcher *watcher, enum kind kind) {
    *watcher = (struct watcher){.kind = kind, .set = -1, .outer = -1};
    if (kind == PLAIN_POLL)
        return;
    watcher->set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < count; i++)
        register_link(watcher, EPOLL_CTL_ADD, &links[i]);
    if (kind != NESTED && kind != NESTED_EDGES)
        return;
    watcher->outer = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN | (kind == NESTED_EDGES ? EPOLLET : 0u)};
    MUST(epoll_ctl(watcher->outer, EPOLL_CTL_ADD, watcher->set, &event));
}

static void add(int i, int fd) {
    links[i].fd = fd;
    links[i].turn = is_client ? 0 : 1;
    pthread_mutex_init(&links[i].lock, NULL);
}

static void race(void) {
    begin_races();
    messages = (int)argument(1, 300);
    count = (int)argument(2, 4);
    CHECK(count > 0 && count <= MOST && messages > 1);
    board->running = count;
    open_links(count, add);
    over = MUST(eventfd(0, EFD_CLOEXEC));
    uint64_t random = random_of(99);
    long chosen = argument(3, 0);
    while (chosen == 0)
        chosen = (long)(next_random(&random) & next_random(&random) & ((1 << KINDS) - 1));
    for (enum kind kind = 0; kind < KINDS; kind++)
        if (chosen & 1 << kind)
            make(&watchers[ways++], kind);
    pthread_t threads[KINDS];
    for (int i = 0; i < ways; i++)
        threads[i] = start_thread(watcher_runs, &watchers[i]);
    if (!is_client) {
        stand("main", 0);
        static char bytes[LONGEST];
        for (int i = 0; i < count; i++) {
            pthread_mutex_lock(&links[i].lock);
            give(&links[i], 0, bytes);
            pthread_mutex_unlock(&links[i].lock);
        }
    }
    watch_races();
    MUST(eventfd_write(over, 1));
    for (int i = 0; i < ways; i++)
        if (watchers[i].set >= 0)
            MUST(epoll_ctl(watchers[i].set, EPOLL_CTL_ADD, over, &(struct epoll_event){.events = EPOLLIN}));
    for (int i = 0; i < ways; i++)
        pthread_join(threads[i], NULL);
    say("all messages came");
}
