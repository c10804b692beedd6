/*
 * Several threads wait for the same descriptors, all for all of them, and whoever is quicker receives or sends. Modes:
 * poll, select. Arguments: seed, connections (6), KiB each way on each of them (1024).
 * What a wait tells is believed: where nobody received or sent meanwhile, the call must bring something.
 */
#include "races.h"

#include <sys/select.h>

#define THREADS 4
#define MOST 32
#define LONGEST 100000
/* How far the sender of a side may be ahead of what its side received. */
#define AHEAD 300000

/* One direction of a connection, at this end. */
struct way {
    pthread_mutex_t lock;
    _Atomic uint64_t done;
    _Atomic unsigned calls;
    _Atomic bool over;
};

static struct link {
    int fd;
    struct way in, out;
} links[MOST];

static int count;
static uint64_t length;

static void tell_streams(void) {
    for (int i = 0; i < count; i++)
        say("%d, descriptor %d: received %llu%s, sent %llu%s", i, links[i].fd, (unsigned long long)links[i].in.done,
            links[i].in.over ? ", over" : "", (unsigned long long)links[i].out.done, links[i].out.over ? ", over" : "");
}

static void receive(struct link *link, unsigned before, char *bytes, uint64_t *random) {
    struct way *way = &link->in;
    if (pthread_mutex_trylock(&way->lock) != 0)
        return;
    if (!way->over) {
        size_t n = some_size(random, LONGEST);
        ssize_t result = recv(link->fd, bytes, n, MSG_DONTWAIT);
        if (result < 0)
            HOLDS(errno == EAGAIN && way->calls != before);
        way->calls++;
        if (result > 0) {
            check_bytes(bytes, (size_t)result, (unsigned)(link - links), way->done);
            way->done += (uint64_t)result;
            count_bytes((size_t)result);
        }
        if (result == 0) {
            HOLDS(way->done == length);
            way->over = true;
            board->running--;
        }
    }
    pthread_mutex_unlock(&way->lock);
}

static bool may_send(const struct link *link) {
    return !link->out.over && link->out.done <= link->in.done + AHEAD;
}

static void give(struct link *link, unsigned before, char *bytes, uint64_t *random) {
    struct way *way = &link->out;
    if (pthread_mutex_trylock(&way->lock) != 0)
        return;
    if (!way->over) {
        size_t n = some_size(random, LONGEST);
        if (n > length - way->done)
            n = length - way->done;
        make_bytes(bytes, n, (unsigned)(link - links), way->done);
        ssize_t result = send(link->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (result < 0)
            HOLDS(errno == EAGAIN && way->calls != before);
        way->calls++;
        if (result > 0) {
            way->done += (uint64_t)result;
            count_bytes((size_t)result);
        }
        if (way->done == length) {
            MUST(shutdown(link->fd, SHUT_WR));
            way->over = true;
            board->running--;
        }
    }
    pthread_mutex_unlock(&way->lock);
}

/* -1: for ever. The first threads always wait so, so that whoever is not told stands still. */
static int patience(int thread, uint64_t *random) { return thread < 2 ? -1 : (int)below(random, 20); }

static void wait_by_poll(struct pollfd *entries, int n, int limit, bool precise) {
    struct timespec time = {.tv_sec = 0, .tv_nsec = limit * 1000000L};
    if (precise)
        HOLDS(IN("ppoll", n, ppoll(entries, (nfds_t)n, limit < 0 ? NULL : &time, NULL)) >= 0);
    else
        HOLDS(IN("poll", n, poll(entries, (nfds_t)n, limit)) >= 0);
}

static void wait_by_select(struct pollfd *entries, int n, int limit, bool precise) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    int most = 0;
    for (int i = 0; i < n; i++) {
        if (entries[i].events & POLLIN)
            FD_SET(entries[i].fd, &in);
        if (entries[i].events & POLLOUT)
            FD_SET(entries[i].fd, &out);
        most = entries[i].fd > most ? entries[i].fd : most;
    }
    struct timespec time = {.tv_sec = 0, .tv_nsec = limit * 1000000L};
    struct timeval coarse = {.tv_sec = 0, .tv_usec = limit * 1000};
    int told = precise ? IN("pselect", n, pselect(most + 1, &in, &out, NULL, limit < 0 ? NULL : &time, NULL))
                       : IN("select", n, select(most + 1, &in, &out, NULL, limit < 0 ? NULL : &coarse));
    HOLDS(told >= 0);
    int found = 0;
    for (int i = 0; i < n; i++) {
        entries[i].revents = 0;
        if (told > 0 && FD_ISSET(entries[i].fd, &in))
            entries[i].revents |= POLLIN;
        if (told > 0 && FD_ISSET(entries[i].fd, &out))
            entries[i].revents |= POLLOUT;
        found += !!(entries[i].revents & POLLIN) + !!(entries[i].revents & POLLOUT);
    }
    HOLDS(found == told);
}

static void *worker(void *argument) {
    int thread = (int)(intptr_t)argument;
    stand("thread", thread);
    uint64_t random = random_of((unsigned)thread);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    bool selects = mode_is("select");
    while (board->running > 0) {
        struct pollfd entries[MOST];
        struct link *of[MOST];
        unsigned in_calls[MOST], out_calls[MOST];
        int n = 0;
        for (int i = 0; i < count; i++) {
            struct link *link = &links[(i + thread) % count];
            in_calls[n] = link->in.calls;
            out_calls[n] = link->out.calls;
            short events = (short)((link->in.over ? 0 : POLLIN) | (may_send(link) ? POLLOUT : 0));
            if (events == 0)
                continue;
            of[n] = link;
            entries[n++] = (struct pollfd){.fd = link->fd, .events = events};
        }
        if (n == 0) {
            sleep_ms(1);
            continue;
        }
        (selects ? wait_by_select : wait_by_poll)(entries, n, patience(thread, &random), below(&random, 2));
        for (int i = 0; i < n; i++) {
            HOLDS(!(entries[i].revents & (POLLNVAL | POLLERR)));
            if (entries[i].revents & POLLIN)
                receive(of[i], in_calls[i], bytes, &random);
            if (entries[i].revents & POLLOUT)
                give(of[i], out_calls[i], bytes, &random);
        }
    }
    free(bytes);
    return NULL;
}

static void add(int i, int fd) {
    links[i].fd = fd;
    pthread_mutex_init(&links[i].in.lock, NULL);
    pthread_mutex_init(&links[i].out.lock, NULL);
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 6);
    length = (uint64_t)argument(2, 1024) << 10;
    CHECK(count > 0 && count <= MOST);
    board->running = 2 * count;
    open_links(count, add);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(worker, (void *)i);
    watch_races();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("all bytes came");
}
