/*
 * A program that is connected to itself: both ends of its connections are its own, in one set, and served by whichever thread is
 * told of them; the further ends of every second one are a child's from then on, which was forked when they were in use. Both
 * sides do the same, each for itself. Arguments: seed, connections (8), messages on each (150).
 */
#include "races.h"

#include <sys/eventfd.h>

#define MOST 64
#define LONGEST 60000
#define WORKERS 3

struct end {
    int fd;
    unsigned link;
    /* Speaks first. */
    bool first;
    pthread_mutex_t lock;
    uint32_t message;
    size_t done;
    uint64_t in, out;
    bool over;
};

static struct end ends[MOST][2];
static int count, set, finished;
static uint32_t messages;
static _Atomic int living;
static bool is_child;

static void tell_streams(void) {
    say("%s: living %d", is_child ? "child" : "parent", living);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++)
            say("%d.%d, descriptor %d: message %u, %zu of it; received %llu, sent %llu%s", i, k, ends[i][k].fd, ends[i][k].message,
                ends[i][k].done, (unsigned long long)ends[i][k].in, (unsigned long long)ends[i][k].out, ends[i][k].over ? ", over" : "");
}

static size_t size_of(unsigned link, uint32_t message) {
    uint64_t random = (seed * 31 + link) * 65537 + message * 0x9e3779b97f4a7c15ull + 1;
    for (int i = 0; i < 8; i++)
        next_random(&random);
    return some_size(&random, LONGEST);
}

static unsigned stream(const struct end *end, bool out) { return end->link * 2 + (end->first == out); }

/* All that it has to say now. */
static void speak(struct end *end) {
    static __thread char bytes[LONGEST];
    while (end->message < messages && (end->message % 2 == 0) == end->first) {
        size_t n = size_of(end->link, end->message);
        make_bytes(bytes, n, stream(end, true), end->out);
        for (size_t at = 0; at < n;) {
            ssize_t sent = IN("send", end->fd, send(end->fd, bytes + at, n - at, MSG_NOSIGNAL));
            HOLDS(sent > 0);
            at += (size_t)sent;
        }
        end->out += n;
        end->message++;
        count_bytes(n);
    }
}

static bool is_over(struct end *end) {
    end->over = true;
    living--;
    MUST(close(end->fd));
    return false;
}

/* One receive. False: nothing is there, or no more comes. */
static bool hear(struct end *end, uint64_t *random) {
    static __thread char bytes[LONGEST];
    /* What is told now is that the other end, which heard the last message, has closed. */
    if (end->message == messages)
        return is_over(end);
    size_t size = size_of(end->link, end->message);
    size_t wanted = some_size(random, size - end->done);
    ssize_t n = IN("recv", end->fd, recv(end->fd, bytes, wanted, MSG_DONTWAIT));
    if (n < 0)
        HOLDS(errno == EAGAIN);
    if (n < 0)
        return false;
    HOLDS(n > 0);
    check_bytes(bytes, (size_t)n, stream(end, false), end->in);
    end->in += (uint64_t)n;
    end->done += (size_t)n;
    count_bytes((size_t)n);
    if (end->done == size) {
        end->done = 0;
        end->message++;
        speak(end);
        if (end->message == messages && end->first)
            return is_over(end);
    }
    return true;
}

static void ask_again(struct end *end, int operation) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, .data.ptr = end};
    MUST(epoll_ctl(set, operation, end->fd, &event));
}

static void *worker(void *argument) {
    stand(is_child ? "child's worker" : "worker", (int)(intptr_t)argument);
    uint64_t random = random_of(10 + (unsigned)(intptr_t)argument);
    for (;;) {
        struct epoll_event event;
        HOLDS(IN("epoll_wait", set, epoll_wait(set, &event, 1, -1)) == 1);
        struct end *end = event.data.ptr;
        if (!end)
            break;
        pthread_mutex_lock(&end->lock);
        for (size_t calls = 1 + below(&random, 4); calls > 0 && !end->over && hear(end, &random); calls--)
            ;
        if (!end->over)
            ask_again(end, EPOLL_CTL_MOD);
        pthread_mutex_unlock(&end->lock);
    }
    step_down();
    return NULL;
}

static void connect_both(int listener, struct end *both) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    both[0].fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(connect(both[0].fd, (struct sockaddr *)&address, length));
    both[1].fd = MUST(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    for (int k = 0; k < 2; k++) {
        no_delay(both[k].fd);
        pthread_mutex_init(&both[k].lock, NULL);
        both[k].link = (unsigned)(both - ends[0]) / 2;
        both[k].first = k == 0;
    }
    for (int i = 0; i < warm_count(); i++)
        for (int k = 0; k < 2; k++) {
            char word[8];
            write_all(both[k].fd, "a word.", 8);
            read_exact(both[1 - k].fd, word, 8);
        }
}

static bool is_ours(int link, int k) { return link % 2 && k == 1 ? is_child : !is_child; }

/* Until all that this process has is over. */
static void serve(void) {
    pthread_t threads[WORKERS];
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    finished = MUST(eventfd(0, EFD_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, finished, &(struct epoll_event){.events = EPOLLIN}));
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++)
            living += is_ours(i, k);
    for (intptr_t i = 0; i < WORKERS; i++)
        threads[i] = start_thread(worker, (void *)i);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++) {
            struct end *end = &ends[i][k];
            if (!is_ours(i, k)) {
                MUST(close(end->fd));
                continue;
            }
            pthread_mutex_lock(&end->lock);
            speak(end);
            ask_again(end, EPOLL_CTL_ADD);
            pthread_mutex_unlock(&end->lock);
        }
    uint64_t before = 0;
    for (int still = 0; living > 0; sleep_ms(5)) {
        still = board->moved == before ? still + 1 : 0;
        before = board->moved;
        HOLDS(still <= PATIENCE * 200);
    }
    MUST(eventfd_write(finished, 1));
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 8);
    /* Even, so that the one who spoke first hears last. */
    messages = (uint32_t)argument(2, 150) & ~1u;
    CHECK(count > 0 && count <= MOST && messages > 0);
    int listener = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address));
    MUST(listen(listener, 16));
    stand("main", 0);
    for (int i = 0; i < count; i++)
        connect_both(listener, ends[i]);
    close(listener);
    pid_t child = MUST(fork());
    if (child == 0) {
        is_child = true;
        stand("child", 0);
        serve();
        _exit(0);
    }
    serve();
    join_child(child);
    say("all messages came");
}
