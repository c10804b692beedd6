/*
 * A connection has a number by which it is read and waited for and one by which it is written, and both are renewed, closed,
 * put back and exchanged by dup2 while threads sleep in epoll_wait and poll. A registration is the file's and its number's:
 * it tells of the file as long as any number has it, and is found again when the number stands for the file again.
 * Arguments: seed, connections (4), KiB each way (1024), what is done as bits (the seed chooses some).
 */
#include "races.h"

#include <sys/eventfd.h>

#define MOST 16
#define LONGEST 60000
#define AHEAD 400000
#define READERS 2
#define WRITERS 2

enum { RENEW_WRITER = 1, COPY_READER = 2, REGISTER_ANEW = 4, CLOSE_AND_PUT_BACK = 8, EXCHANGE = 16, ALL = 31 };

struct way {
    pthread_mutex_t lock;
    _Atomic uint64_t done;
    _Atomic bool over;
};

static struct link {
    /* Held by those in a call on one of the numbers that does not sleep, and alone by whoever changes them. */
    pthread_rwlock_t numbers;
    _Atomic int reader, writer;
    /* Both are exchanged with the neighbour's: the registration has another number than the reader. */
    bool exchanged;
    struct way in, out;
} links[MOST];

static int count, sets[2], set_count;
static uint32_t edges;
static uint64_t length, changes;
static long done_to_numbers;

static void tell_streams(void) {
    for (int i = 0; i < count; i++)
        say("%d, descriptors %d %d%s: received %llu%s, sent %llu%s", i, links[i].reader, links[i].writer,
            links[i].exchanged ? " (exchanged)" : "", (unsigned long long)links[i].in.done, links[i].in.over ? ", over" : "",
            (unsigned long long)links[i].out.done, links[i].out.over ? ", over" : "");
    say("%llu changes of kinds %lx, sets %d%s", (unsigned long long)changes, (unsigned long)done_to_numbers, set_count,
        edges ? ", edges" : "");
}

/* Until nothing is there. False if nothing was. */
static bool receive(struct link *link, char *bytes, uint64_t *random) {
    bool some = false;
    pthread_rwlock_rdlock(&link->numbers);
    pthread_mutex_lock(&link->in.lock);
    while (!link->in.over) {
        size_t wanted = some_size(random, LONGEST);
        ssize_t n = recv(link->reader, bytes, wanted, MSG_DONTWAIT);
        if (n < 0)
            HOLDS(errno == EAGAIN);
        if (n < 0)
            break;
        some = true;
        if (n == 0) {
            HOLDS(link->in.done == length);
            link->in.over = true;
            board->running--;
            break;
        }
        check_bytes(bytes, (size_t)n, (unsigned)(link - links), link->in.done);
        link->in.done += (uint64_t)n;
        count_bytes((size_t)n);
        if ((size_t)n < wanted && link->in.done < length)
            break;
    }
    pthread_mutex_unlock(&link->in.lock);
    pthread_rwlock_unlock(&link->numbers);
    return some;
}

static void *reader(void *argument) {
    int number = (int)(intptr_t)argument, set = sets[number % set_count];
    stand("reader", number);
    uint64_t random = random_of(10 + (unsigned)number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (board->running > 0) {
        struct epoll_event events[3];
        int n = IN("epoll_wait", set, epoll_wait(set, events, 1 + (int)below(&random, 3), -1));
        HOLDS(n >= 0);
        bool some = false;
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                some |= receive(events[i].data.ptr, bytes, &random);
        if (!some)
            usleep(100);
    }
    free(bytes);
    return NULL;
}

/* False if there is nothing to do now. */
static bool give(struct link *link, char *bytes, uint64_t *random) {
    struct way *way = &link->out;
    if (way->over || way->done > link->in.done + AHEAD || pthread_mutex_trylock(&way->lock) != 0)
        return false;
    bool full = false;
    if (!way->over) {
        pthread_rwlock_rdlock(&link->numbers);
        size_t n = some_size(random, LONGEST);
        n = n > length - way->done ? length - way->done : n;
        make_bytes(bytes, n, (unsigned)(link - links), way->done);
        ssize_t result = send(link->writer, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        full = result < 0;
        HOLDS(result > 0 || (full && errno == EAGAIN));
        if (!full) {
            way->done += (uint64_t)result;
            count_bytes((size_t)result);
        }
        if (way->done == length) {
            MUST(shutdown(link->writer, SHUT_WR));
            way->over = true;
            board->running--;
        }
        pthread_rwlock_unlock(&link->numbers);
    }
    pthread_mutex_unlock(&way->lock);
    if (full) {
        /* The number may become another file's meanwhile, or nobody's. */
        struct pollfd entry = {.fd = link->writer, .events = POLLOUT};
        HOLDS(IN("poll", entry.fd, poll(&entry, 1, 20)) >= 0);
    }
    return true;
}

static void *writer(void *argument) {
    int number = (int)(intptr_t)argument;
    stand("writer", number);
    uint64_t random = random_of(20 + (unsigned)number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (board->running > 0) {
        bool any = false;
        size_t first = below(&random, (size_t)count);
        for (int i = 0; i < count; i++)
            any |= give(&links[(first + (size_t)i) % (size_t)count], bytes, &random);
        if (!any)
            usleep(200);
    }
    free(bytes);
    return NULL;
}

static void register_link(struct link *link, int operation, int number) {
    for (int i = 0; i < set_count; i++) {
        struct epoll_event event = {.events = EPOLLIN | edges, .data.ptr = link};
        MUST(epoll_ctl(sets[i], operation, number, &event));
    }
}

/* Nobody is in a short call on the link's numbers. */
static void change(struct link *link, long what, uint64_t *random) {
    int old;
    switch (what) {
    case RENEW_WRITER:
        old = link->writer;
        link->writer = MUST(dup(old));
        MUST(close(old));
        break;
    case COPY_READER:
        MUST(dup2(link->reader, link->writer));
        break;
    case REGISTER_ANEW:
        if (link->exchanged)
            break;
        old = link->reader;
        link->reader = MUST(fcntl(link->writer, F_DUPFD_CLOEXEC, 3));
        register_link(link, EPOLL_CTL_ADD, link->reader);
        register_link(link, EPOLL_CTL_DEL, old);
        MUST(close(old));
        break;
    case CLOSE_AND_PUT_BACK:
        if (link->exchanged)
            break;
        /* The registration goes on telling of the file, and the number is the registration's again. Nobody may have it in
         * between: a number is kept by a file of another kind. */
        MUST(dup2(sets[0], link->reader));
        usleep((unsigned)below(random, 300));
        MUST(dup3(link->writer, link->reader, O_CLOEXEC));
        register_link(link, EPOLL_CTL_MOD, link->reader);
        break;
    }
}

static void exchange_numbers(struct link *one, struct link *other) {
    int between = MUST(dup(one->reader));
    MUST(dup2(other->reader, one->reader));
    MUST(dup2(between, other->reader));
    MUST(close(between));
    int number = one->reader;
    one->reader = other->reader;
    other->reader = number;
    one->exchanged = other->exchanged = !one->exchanged;
}

static void *changer(void *unused) {
    (void)unused;
    stand("changer", 0);
    uint64_t random = random_of(30);
    for (; board->running > 0; usleep((unsigned)below(&random, 1000))) {
        long what = 1 << below(&random, 5);
        if (!(what & done_to_numbers))
            continue;
        struct link *link = &links[below(&random, (size_t)count)];
        struct link *first = &links[(link - links) & ~1], *second = first + 1;
        if (what == EXCHANGE && second < links + count) {
            IN("lock", first->reader, pthread_rwlock_wrlock(&first->numbers));
            IN("lock", second->reader, pthread_rwlock_wrlock(&second->numbers));
            note("exchange", first->reader);
            exchange_numbers(first, second);
            pthread_rwlock_unlock(&second->numbers);
            pthread_rwlock_unlock(&first->numbers);
        } else {
            IN("lock", link->reader, pthread_rwlock_wrlock(&link->numbers));
            note("change", link->reader);
            change(link, what, &random);
            pthread_rwlock_unlock(&link->numbers);
        }
        here->call = NULL;
        changes++;
    }
    return NULL;
}

static void add(int i, int fd) {
    struct link *link = &links[i];
    link->reader = fd;
    link->writer = MUST(dup(fd));
    pthread_rwlockattr_t waits;
    pthread_rwlockattr_init(&waits);
    pthread_rwlockattr_setkind_np(&waits, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&link->numbers, &waits);
    pthread_mutex_init(&link->in.lock, NULL);
    pthread_mutex_init(&link->out.lock, NULL);
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 4);
    length = (uint64_t)argument(2, 1024) << 10;
    CHECK(count > 0 && count <= MOST);
    uint64_t random = random_of(1);
    done_to_numbers = argument(3, 0);
    while (done_to_numbers == 0)
        done_to_numbers = (long)(next_random(&random) & next_random(&random) & ALL);
    set_count = 1 + (int)below(&random, 2);
    edges = below(&random, 2) ? EPOLLET : 0;
    board->running = 2 * count;
    open_links(count, add);
    for (int i = 0; i < set_count; i++)
        sets[i] = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < count; i++)
        register_link(&links[i], EPOLL_CTL_ADD, links[i].reader);
    pthread_t threads[READERS + WRITERS + 1];
    for (intptr_t i = 0; i < READERS; i++)
        threads[i] = start_thread(reader, (void *)i);
    for (intptr_t i = 0; i < WRITERS; i++)
        threads[READERS + i] = start_thread(writer, (void *)i);
    threads[READERS + WRITERS] = start_thread(changer, NULL);
    watch_races();
    int over = MUST(eventfd(1, EFD_CLOEXEC));
    for (int i = 0; i < set_count; i++)
        MUST(epoll_ctl(sets[i], EPOLL_CTL_ADD, over, &(struct epoll_event){.events = EPOLLIN}));
    for (int i = 0; i < READERS + WRITERS + 1; i++)
        pthread_join(threads[i], NULL);
    say("all bytes came");
}
