/*
 * A runtime of tasks, as tokio and others are made: one thread waits for edges on a set, others read and write, and a
 * task that was told of an edge believes in it until a call was short or found nothing. Whoever is not told of an edge
 * then stands still for ever. Both sides send and check on each of some connections at the same time, in bursts that
 * fill a ring and more, and wait for the other side's in between, so that directions go over to TCP and come back.
 *   reactor   arguments: connections (4), KiB each way on each of them (4096)
 *   oneshot   the same as async-io has it: a task that finds nothing asks for one event, by a change of the registration
 */
#include "common.h"

#include <stdatomic.h>
#include <sys/eventfd.h>

#define WORKERS 2
#define MOST 64
#define LONGEST 400000
/* How far a writer may be ahead of what came the other way, bytes. */
#define AHEAD 500000
#define TURNS 16
/* Nothing moves for so long: seconds. */
#define PATIENCE 15

enum { READS = EPOLLIN, WRITES = EPOLLOUT, ENDS = EPOLLRDHUP };
enum state { IDLE, QUEUED, RUNNING, ONCE_MORE };

struct task {
    struct link *link;
    uint32_t way;
    _Atomic(enum state) state;
    _Atomic uint64_t done;
    _Atomic bool ended;
    uint64_t random;
};

/* Ready for what, in the low half; and how many edges it was told of, in the high one. */
struct link {
    int fd;
    _Atomic uint64_t ready;
    /* What tasks have asked for, of a registration for one event. */
    pthread_mutex_t asking;
    uint32_t asked;
    struct task tasks[2];
};

static struct link links[MOST];

/* Byte `at` of a connection, so that those of two are told apart as well. */
static uint64_t place(const struct link *link, uint64_t at) { return at + (uint64_t)(link - links) * 1000003; }

static int count, set;
static bool oneshot;
static uint64_t length;
static _Atomic int running;
static _Atomic uint64_t moved;

/* Tasks that are to run. */
static struct task *queue[2 * MOST];
static int first, queued;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;

static void enqueue(struct task *task) {
    pthread_mutex_lock(&mutex);
    queue[(first + queued++) % (2 * MOST)] = task;
    pthread_cond_signal(&some);
    pthread_mutex_unlock(&mutex);
}

static void wake(struct task *task) {
    enum state now = task->state;
    for (;;) {
        enum state next = now == IDLE ? QUEUED : now == RUNNING ? ONCE_MORE : now;
        if (next == now)
            return;
        if (atomic_compare_exchange_weak(&task->state, &now, next)) {
            if (next == QUEUED)
                enqueue(task);
            return;
        }
    }
}

/* Under the lock. */
static void ask_for(struct link *link, int operation) {
    struct epoll_event event = {.events = link->asked | EPOLLONESHOT, .data.ptr = link};
    MUST(epoll_ctl(set, operation, link->fd, &event));
}

/* The one event is there: those who asked for it go on, and the others ask again. */
static void answer(struct link *link, uint32_t told) {
    uint32_t both = told & (EPOLLHUP | EPOLLERR) ? READS | WRITES : 0;
    pthread_mutex_lock(&link->asking);
    uint32_t answered = link->asked & (told | both);
    link->asked &= ~answered;
    if (link->asked)
        ask_for(link, EPOLL_CTL_MOD);
    pthread_mutex_unlock(&link->asking);
    for (int k = 0; k < 2; k++)
        if (answered & link->tasks[k].way)
            wake(&link->tasks[k]);
}

static void *driver(void *unused) {
    (void)unused;
    struct epoll_event events[16];
    for (;;) {
        int n = epoll_wait(set, events, 16, -1);
        for (int i = 0; i < n; i++) {
            struct link *link = events[i].data.ptr;
            if (!link)
                return NULL;
            uint32_t told = events[i].events;
            if (oneshot) {
                answer(link, told);
                continue;
            }
            uint64_t bits = (told & ENDS) | (told & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) ? READS : 0) |
                            (told & (EPOLLOUT | EPOLLHUP | EPOLLERR) ? WRITES : 0);
            uint64_t now = link->ready;
            while (!atomic_compare_exchange_weak(&link->ready, &now, (now | bits) + (1ull << 32)))
                ;
            for (int k = 0; k < 2; k++)
                if (bits & link->tasks[k].way)
                    wake(&link->tasks[k]);
        }
    }
}

/* The call was short, or found nothing: not ready, unless another edge came since `seen`. */
static void clear(struct link *link, uint64_t seen, uint32_t way) {
    if (oneshot)
        return;
    while (seen >> 32 == link->ready >> 32) {
        uint64_t now = link->ready;
        if (seen >> 32 == now >> 32 && atomic_compare_exchange_weak(&link->ready, &now, now & ~(uint64_t)way))
            return;
    }
}

/* Where bytes from position `at` on are others than they should be, and how far they are behind or ahead if that is all. */
static void tell_difference(const char *bytes, ssize_t n, uint64_t at) {
    ssize_t k = 0;
    while ((uint8_t)bytes[k] == pattern(at + (uint64_t)k))
        k++;
    uint64_t from = at + (uint64_t)k;
    for (int64_t far = 1; far < 4000000 && n - k >= 64; far = far > 0 ? -far : 1 - far)
        if (is_pattern(bytes + k, 64, from + (uint64_t)far)) {
            say("at %llu, %zd into %zd, comes what belongs %lld later", (unsigned long long)from, k, n, (long long)far);
            break;
        }
    say("at %llu, %zd into %zd, %d in place of %d", (unsigned long long)from, k, n, bytes[k] & 0xff, pattern(from));
    fail(__FILE_NAME__, __LINE__, "other bytes");
}

static void tell_failure(const struct link *link) {
    int error = errno;
    for (int i = 0; i < count; i++)
        if (&links[i] == link || links[i].tasks[0].done < length || links[i].tasks[1].done < length)
            say("%s %d, descriptor %d: received %llu, sent %llu, ready for %llx", &links[i] == link ? "this one," : "", i, links[i].fd,
                (unsigned long long)links[i].tasks[0].done, (unsigned long long)links[i].tasks[1].done,
                (unsigned long long)links[i].ready & 0xffffffff);
    errno = error;
    fail(__FILE_NAME__, __LINE__, "a call fails, or the end comes early");
}

/* One call. False when it is not ready, or over. */
static bool turn(struct task *task, char *bytes) {
    struct link *link = task->link;
    uint64_t seen = link->ready, at = task->done;
    if (task->way == WRITES && at == length && !task->ended) {
        MUST(shutdown(link->fd, SHUT_WR));
        task->ended = true;
        running--;
    }
    /* An end is told once, and what comes before it may still be short. */
    bool ready = oneshot || seen & (task->way == READS ? READS | ENDS : WRITES);
    if (!ready || task->ended)
        return false;
    struct task *other = &link->tasks[task->way == READS];
    size_t n = 1 + next_random(&task->random) % LONGEST;
    ssize_t result;
    if (task->way == READS) {
        result = recv(link->fd, bytes, n, 0);
        if (result < 0 && errno != EAGAIN)
            tell_failure(link);
        if (result == 0) {
            if (at != length)
                tell_failure(link);
            task->ended = true;
            running--;
            return false;
        }
        if (result > 0 && !is_pattern(bytes, (size_t)result, place(link, at)))
            tell_difference(bytes, result, place(link, at));
    } else {
        if (at > other->done + AHEAD)
            return false; /* the reader wakes it */
        n = n > length - at ? length - at : n;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)pattern(place(link, at + i));
        result = send(link->fd, bytes, n, MSG_NOSIGNAL);
        if (result < 0 && errno != EAGAIN)
            tell_failure(link);
    }
    if (result < (ssize_t)n)
        clear(link, seen, task->way);
    if (result < 0 && oneshot) {
        pthread_mutex_lock(&link->asking);
        link->asked |= task->way;
        ask_for(link, EPOLL_CTL_MOD);
        pthread_mutex_unlock(&link->asking);
        return false;
    }
    if (result > 0) {
        task->done += (uint64_t)result;
        moved += (uint64_t)result;
        if (task->way == READS)
            wake(other);
    }
    return true;
}

static void *worker(void *unused) {
    (void)unused;
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (queued == 0 && running > 0)
            pthread_cond_wait(&some, &mutex);
        if (queued == 0) {
            pthread_mutex_unlock(&mutex);
            break;
        }
        struct task *task = queue[first];
        first = (first + 1) % (2 * MOST);
        queued--;
        pthread_mutex_unlock(&mutex);
        task->state = RUNNING;
        int turns = 0;
        while (turns < TURNS && turn(task, bytes))
            turns++;
        enum state now = RUNNING;
        if (turns == TURNS || !atomic_compare_exchange_strong(&task->state, &now, IDLE)) {
            task->state = QUEUED;
            enqueue(task);
        }
        if (running == 0) {
            pthread_mutex_lock(&mutex);
            pthread_cond_broadcast(&some);
            pthread_mutex_unlock(&mutex);
        }
    }
    free(bytes);
    return NULL;
}

/* Says which connections stand still. */
static void watch(void) {
    uint64_t before = 0;
    for (int still = 0; running > 0; sleep_ms(10)) {
        still = moved == before ? still + 1 : 0;
        before = moved;
        if (still < PATIENCE * 100)
            continue;
        for (int i = 0; i < count; i++)
            say("%d: received %llu, sent %llu, ready for %llx", i, (unsigned long long)links[i].tasks[0].done,
                (unsigned long long)links[i].tasks[1].done, (unsigned long long)links[i].ready & 0xffffffff);
        fail(__FILE_NAME__, __LINE__, "some stand still");
    }
}

static void serve_links(void) {
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    running = 2 * count;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++)
            links[i].tasks[k] = (struct task){
                .link = &links[i], .way = k ? WRITES : READS, .random = (uint64_t)(4 * i + 2 * k + is_client + 1)};
    pthread_t threads[WORKERS + 1];
    for (int i = 0; i < WORKERS; i++)
        threads[i] = start_thread(worker, NULL);
    threads[WORKERS] = start_thread(driver, NULL);
    for (int i = 0; i < count; i++) {
        pthread_mutex_init(&links[i].asking, NULL);
        if (oneshot) {
            ask_for(&links[i], EPOLL_CTL_ADD);
            wake(&links[i].tasks[0]);
            wake(&links[i].tasks[1]);
            continue;
        }
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = &links[i]};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, links[i].fd, &event));
    }
    watch();
    int over = MUST(eventfd(1, EFD_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, over, &(struct epoll_event){.events = EPOLLIN}));
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&some);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i <= WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        say("%d: received %llu, sent %llu", i, (unsigned long long)links[i].tasks[0].done,
            (unsigned long long)links[i].tasks[1].done);
}

static void begin(void) {
    count = (int)argument(0, 4);
    length = (uint64_t)argument(1, 4096) << 10;
    CHECK(count > 0 && count <= MOST);
    oneshot = mode_is("oneshot");
}

static void add(int i, int fd) {
    set_nonblocking(fd, true);
    no_delay(fd);
    links[i].fd = fd;
}

void server(void) {
    begin();
    int listener = listen_here();
    for (int i = 0; i < count; i++)
        add(i, accepted(listener));
    serve_links();
}

void client(void) {
    begin();
    for (int i = 0; i < count; i++)
        add(i, connected());
    serve_links();
}
