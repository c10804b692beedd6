/*
 * A thread waits in a set and answers, another one changes the set, and a third one forks: children that only end, that wait
 * in the set that they inherited and take nothing, or that wait in one of their own. Handlers of pthread_atfork hold a
 * mutex over each fork, which the thread that changes the set takes, too.
 * Arguments: seed, messages on each connection (200), connections (4).
 */
#include "races.h"

#include <sys/eventfd.h>

#define MOST 16
#define LONGEST 20000

static struct link {
    int fd;
    uint64_t received, sent;
    int turn;
    size_t here;
} links[MOST];

static int count, messages, set, over;
static bool edges;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
static void early(void) { pthread_atfork(lock, unlock, unlock); }

/* Before any library's own handlers. */
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;

static void tell_streams(void) {
    for (int i = 0; i < count; i++)
        say("%d, descriptor %d: message %d, %zu bytes of it; received %llu, sent %llu", i, links[i].fd, links[i].turn,
            links[i].here, (unsigned long long)links[i].received, (unsigned long long)links[i].sent);
}

static unsigned stream(const struct link *link, bool mine) { return (unsigned)(link - links) * 2 + (mine == is_client); }

/* The same on both sides. */
static size_t length_of(const struct link *link, int message) {
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + (uint64_t)(link - links) * 1000003 + (uint64_t)message * 65537;
    for (int i = 0; i < 6; i++)
        next_random(&state);
    return some_size(&state, LONGEST);
}

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

/* Until nothing more is there. */
static void told(struct link *link, char *bytes) {
    while (link->turn < messages) {
        size_t length = length_of(link, link->turn);
        ssize_t n = recv(link->fd, bytes, length - link->here, MSG_DONTWAIT);
        if (n < 0)
            HOLDS(errno == EAGAIN);
        if (n < 0)
            return;
        HOLDS(n > 0);
        check_bytes(bytes, (size_t)n, stream(link, false), link->received);
        link->received += (uint64_t)n;
        link->here += (size_t)n;
        count_bytes((size_t)n);
        if (link->here < length)
            continue;
        link->here = 0;
        int answer = link->turn + 1;
        link->turn += 2;
        if (answer < messages)
            give(link, answer, bytes);
        if (link->turn >= messages)
            board->running--;
    }
}

static void *answers(void *unused) {
    stand("answers", set);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (board->running > 0) {
        struct epoll_event events[4];
        int n = IN("epoll_wait", set, epoll_wait(set, events, 4, -1));
        /* A child ends while SIGCHLD is blocked in the thread that forks: then it is another one's to ignore. */
        HOLDS(n >= 0 || errno == EINTR);
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                told(events[i].data.ptr, bytes);
    }
    free(bytes);
    return unused;
}

static void *changes(void *fd) {
    stand("changes", set);
    uint64_t random = random_of(1);
    while (board->running > 0) {
        struct epoll_event event = {.events = EPOLLIN};
        lock();
        HOLDS(IN("ADD", *(int *)fd, epoll_ctl(set, EPOLL_CTL_ADD, *(int *)fd, &event)) == 0);
        HOLDS(IN("DEL", *(int *)fd, epoll_ctl(set, EPOLL_CTL_DEL, *(int *)fd, NULL)) == 0);
        unlock();
        usleep((useconds_t)below(&random, 200));
    }
    return fd;
}

static void child(int kind, int milliseconds) {
    struct epoll_event event = {.events = EPOLLIN};
    if (kind == 1 && !edges)
        for (int i = 0; i < 3; i++)
            epoll_wait(set, &event, 1, milliseconds);
    if (kind == 2) {
        int mine = epoll_create1(0);
        epoll_ctl(mine, EPOLL_CTL_ADD, links[0].fd, &event);
        epoll_wait(mine, &event, 1, milliseconds);
    }
    if (kind == 3)
        usleep((useconds_t)milliseconds * 1000);
    _exit(0);
}

static void fork_often(void) {
    uint64_t random = random_of(2);
    pid_t children[4] = {0};
    /* Such as wait in the set make it slow for good: not in each run. */
    int kinds = below(&random, 2) ? 4 : 1;
    for (int i = 0; board->running > 0; i = (i + 1) % 4) {
        int kind = (int)below(&random, (size_t)kinds), milliseconds = (int)below(&random, 5);
        if (children[i])
            HOLDS(IN("waitpid", -1, waitpid(children[i], NULL, 0)) == children[i]);
        children[i] = IN("fork", -1, fork());
        if (children[i] == 0)
            child(kind, milliseconds);
        HOLDS(children[i] > 0);
        usleep((useconds_t)below(&random, 2000));
    }
    for (int i = 0; i < 4; i++)
        if (children[i])
            waitpid(children[i], NULL, 0);
}

static void *forks(void *unused) {
    stand("forks", -1);
    fork_often();
    return unused;
}

static void add(int i, int fd) {
    links[i].fd = fd;
    links[i].turn = is_client ? 0 : 1;
}

static void race(void) {
    begin_races();
    messages = (int)argument(1, 200);
    count = (int)argument(2, 4);
    CHECK(count > 0 && count <= MOST && messages > 1);
    board->running = count;
    uint64_t random = random_of(3);
    edges = below(&random, 2);
    open_links(count, add);
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    over = MUST(eventfd(0, EFD_CLOEXEC));
    int quiet[2];
    MUST(pipe(quiet));
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN | (edges ? EPOLLET : 0u), .data.ptr = &links[i]};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, links[i].fd, &event));
    }
    if (!is_client) {
        stand("main", 0);
        static char bytes[LONGEST];
        for (int i = 0; i < count; i++)
            give(&links[i], 0, bytes);
    }
    pthread_t threads[] = {start_thread(answers, NULL), start_thread(changes, &quiet[0]), start_thread(forks, NULL)};
    watch_races();
    MUST(eventfd_write(over, 1));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, over, &(struct epoll_event){.events = EPOLLIN}));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    say("all messages came");
}
