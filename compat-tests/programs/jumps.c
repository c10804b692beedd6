/*
 * A handler jumps out of whatever its thread is in, a thousand times a second: waits on a set, poll, select, receives, sends.
 * What a call was just sending or receiving is lost then, so that connection is closed and another one is made in its place. A
 * wait loses nothing: what is there is told by the next one. All others go on.
 *   waits    only waits are jumped out of
 *   all      receives and sends as well
 * Arguments: seed, answers for each thread (400), connections of each thread (4).
 */
#include "races.h"

#include <setjmp.h>
#include <sys/select.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MOST 8
#define THREADS 2
#define LONGEST 60000

/* `given` bytes come behind it, and `asked` ones are to come back. */
struct request {
    uint32_t stream, given, asked;
};

struct link {
    int fd;
    struct request request;
    uint32_t got;
    bool asks;
};

static struct link links[THREADS][MOST];
static int count, answers;
static bool jumps_out_of_all;
static _Atomic uint64_t jumped, renewed;
static _Atomic uint32_t next_stream;
static _Atomic int open_ends;

static __thread sigjmp_buf landing;
static __thread volatile sig_atomic_t armed;

static void tell_streams(void) {
    say("jumps %llu, new connections %llu, open %d", (unsigned long long)jumped, (unsigned long long)renewed, open_ends);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < count; i++)
            if (links[t][i].asks)
                say("thread %d, descriptor %d: stream %u, gave %u, got %u of %u", t, links[t][i].fd, links[t][i].request.stream,
                    links[t][i].request.given, links[t][i].got, links[t][i].request.asked);
}

static void handler(int signal) {
    (void)signal;
    if (armed) {
        armed = 0;
        siglongjmp(landing, 1);
    }
}

/* Whether the call came to its end; else it was jumped out of. */
#define CAME_BACK(may_jump, what)         \
    ({                                    \
        volatile bool back = false;       \
        if (sigsetjmp(landing, 1) == 0) { \
            armed = (may_jump);           \
            what;                         \
            armed = 0;                    \
            back = true;                  \
        } else {                          \
            jumped++;                     \
            here->call = NULL;            \
        }                                 \
        back;                             \
    })

static void begin_jumps(uint64_t *random) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1, .sigev_notify_thread_id = gettid()};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    long pause = 300000 + (long)below(random, 1400000);
    MUST(timer_settime(timer, 0, &(struct itimerspec){{0, pause}, {0, pause}}, NULL));
}

static void connect_anew(struct link *link, int set) {
    /* A connect that a signal interrupts goes on by itself, which is not tried here. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    link->fd = connect_there();
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    no_delay(link->fd);
    link->asks = false;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, link->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = link}));
}

static void renew(struct link *link, int set) {
    renewed++;
    MUST(close(link->fd));
    connect_anew(link, set);
}

static void send_request(struct link *link, char *bytes) {
    size_t length = sizeof link->request + link->request.given;
    memcpy(bytes, &link->request, sizeof link->request);
    make_bytes(bytes + sizeof link->request, link->request.given, link->request.stream, 0);
    for (size_t at = 0; at < length;) {
        ssize_t n = IN("send", link->fd, send(link->fd, bytes + at, length - at, MSG_NOSIGNAL));
        if (n < 0)
            HOLDS(errno == EINTR);
        at += n > 0 ? (size_t)n : 0;
    }
}

/* One that has something; NULL: a signal came between. */
static struct link *wait_for_one(struct link *mine, int set, unsigned way) {
    struct epoll_event event;
    if (way < 3) {
        int n = way ? IN("epoll_wait", set, epoll_wait(set, &event, 1, -1)) : IN("epoll_pwait", set, epoll_pwait(set, &event, 1, 5000, NULL));
        HOLDS(n == 1 || (n < 0 && errno == EINTR));
        return n == 1 ? event.data.ptr : NULL;
    }
    if (way == 3) {
        fd_set readable;
        int most = 0;
        FD_ZERO(&readable);
        for (int i = 0; i < count; i++) {
            FD_SET(mine[i].fd, &readable);
            most = mine[i].fd > most ? mine[i].fd : most;
        }
        int n = IN("select", set, select(most + 1, &readable, NULL, NULL, NULL));
        HOLDS(n > 0 || (n < 0 && errno == EINTR));
        for (int i = 0; n > 0 && i < count; i++)
            if (FD_ISSET(mine[i].fd, &readable))
                return &mine[i];
        return NULL;
    }
    struct pollfd entries[MOST];
    for (int i = 0; i < count; i++)
        entries[i] = (struct pollfd){.fd = mine[i].fd, .events = POLLIN};
    int n = IN("poll", set, poll(entries, (nfds_t)count, -1));
    HOLDS(n > 0 || (n < 0 && errno == EINTR));
    for (int i = 0; n > 0 && i < count; i++)
        if (entries[i].revents)
            return &mine[i];
    return NULL;
}

static void *asker(void *argument) {
    struct link *mine = argument;
    int number = (int)((struct link(*)[MOST])mine - links);
    stand("asker", number);
    uint64_t random = random_of(10 + (unsigned)number);
    char *bytes = malloc(sizeof(struct request) + LONGEST);
    CHECK(bytes);
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < count; i++)
        connect_anew(&mine[i], set);
    begin_jumps(&random);
    for (int done = 0; done < answers;) {
        for (int i = 0; i < count; i++) {
            struct link *link = &mine[i];
            if (link->asks)
                continue;
            uint32_t given = (uint32_t)some_size(&random, LONGEST), asked = (uint32_t)some_size(&random, LONGEST);
            link->request = (struct request){next_stream++, given, asked};
            link->got = 0;
            link->asks = true;
            if (!CAME_BACK(jumps_out_of_all, send_request(link, bytes)))
                renew(link, set);
        }
        struct link *volatile ready = NULL;
        unsigned way = (unsigned)below(&random, 5);
        if (!CAME_BACK(true, ready = wait_for_one(mine, set, way)) || !ready)
            continue;
        struct link *link = ready;
        volatile ssize_t n = 0;
        volatile int error = 0;
        size_t wanted = some_size(&random, LONGEST);
        if (!link->asks) {
            /* A connection that asks for nothing has nothing, and no end. */
            HOLDS(recv(link->fd, bytes, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
            continue;
        }
        if (!CAME_BACK(jumps_out_of_all, {
                n = IN("recv", link->fd, recv(link->fd, bytes, wanted, 0));
                error = errno;
            })) {
            renew(link, set);
            continue;
        }
        if (n < 0) {
            HOLDS(error == EINTR);
            continue;
        }
        HOLDS(n > 0);
        check_bytes(bytes, (size_t)n, link->request.stream, 500000 + link->got);
        link->got += (uint32_t)n;
        HOLDS(link->got <= link->request.asked);
        count_bytes((size_t)n);
        if (link->got == link->request.asked) {
            link->asks = false;
            done++;
        }
    }
    armed = 0;
    signal(SIGUSR1, SIG_IGN);
    for (int i = 0; i < count; i++)
        MUST(close(mine[i].fd));
    board->running--;
    free(bytes);
    return NULL;
}

/* As many bytes as are wanted. False: the end, or a reset, came before. */
static bool take(int fd, void *to, size_t length) {
    for (size_t at = 0; at < length;) {
        ssize_t n = IN("recv", fd, recv(fd, (char *)to + at, length - at, 0));
        if (n < 0)
            HOLDS(errno == ECONNRESET);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static void *answerer(void *argument) {
    int fd = (int)(intptr_t)argument;
    stand("answerer", fd);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    struct request request;
    while (take(fd, &request, sizeof request)) {
        HOLDS(request.given <= LONGEST && request.asked <= LONGEST);
        if (!take(fd, bytes, request.given))
            break;
        check_bytes(bytes, request.given, request.stream, 0);
        make_bytes(bytes, request.asked, request.stream, 500000);
        size_t at = 0;
        while (at < request.asked) {
            ssize_t n = IN("send", fd, send(fd, bytes + at, request.asked - at, MSG_NOSIGNAL));
            if (n < 0) {
                HOLDS(errno == EPIPE || errno == ECONNRESET);
                break;
            }
            at += (size_t)n;
        }
        count_bytes(at);
    }
    MUST(close(fd));
    free(bytes);
    step_down();
    open_ends--;
    return NULL;
}

/* All connections come to their end. */
static void answer(void) {
    int listener = listen_here();
    set_nonblocking(listener, true);
    for (;;) {
        struct pollfd entry = {.fd = listener, .events = POLLIN};
        int n = MUST(poll(&entry, 1, 10));
        board->moved += n == 0; /* the askers' watchdog is enough */
        int fd = n ? accept(listener, NULL, NULL) : -1;
        if (fd >= 0) {
            no_delay(fd);
            open_ends++;
            pthread_detach(start_thread(answerer, (void *)(intptr_t)fd));
        } else if (is_marked("over")) {
            break;
        }
    }
    for (int i = 0; open_ends > 0; i++, sleep_ms(5))
        HOLDS(i < PATIENCE * 200);
}

static void race(void) {
    begin_races();
    answers = (int)argument(1, 400);
    count = (int)argument(2, 4);
    CHECK(count > 0 && count <= MOST);
    jumps_out_of_all = mode_is("all");
    if (is_client) {
        struct sigaction action = {.sa_handler = handler};
        MUST(sigaction(SIGUSR1, &action, NULL));
        board->running = THREADS;
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            threads[i] = start_thread(asker, links[i]);
        watch_races();
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        mark("over", 1);
    } else {
        answer();
    }
    say("all answers came");
}
