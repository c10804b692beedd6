/*
 * A storm of signals over threads that block in receives, sends and waits. Its handler writes a byte to a pipe and one to a
 * connection of its own, inside of whatever the thread was in. Modes: restart (SA_RESTART: receives and sends are never
 * interrupted), interrupt (they may be). Arguments: seed, connections (2), KiB each way (2048).
 */
#include "races.h"

#define MOST 8
#define LONGEST 300000

static struct stream links[MOST];

static int count, told_by_handlers, pipe_ends[2];
static bool restarts;
static uint64_t length;
static _Atomic uint64_t handled, through_pipe, through_connection, from_pipe, from_peer;
static _Atomic int inside;

static void tell_streams(void) {
    for (int i = 0; i < count; i++)
        tell_stream(&links[i]);
    say("handlers %llu, through the pipe %llu, through the connection %llu, from the peer's handlers %llu",
        (unsigned long long)handled, (unsigned long long)through_pipe, (unsigned long long)through_connection,
        (unsigned long long)from_peer);
}

static void handler(int signal) {
    (void)signal;
    int error = errno;
    inside++;
    handled++;
    if (write(pipe_ends[1], "s", 1) == 1)
        through_pipe++;
    if (send(told_by_handlers, "s", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        through_connection++;
    inside--;
    errno = error;
}

/* Whether the call is to be made again. */
static bool interrupted(ssize_t result) {
    if (result >= 0)
        return false;
    HOLDS(errno == EINTR && !restarts);
    return true;
}

static void *reader(void *argument) {
    struct stream *link = argument;
    stand("reader", link->number);
    uint64_t random = random_of(10 + (unsigned)link->number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    for (;;) {
        size_t wanted = some_size(&random, LONGEST);
        int flags = below(&random, 4) == 0 ? MSG_WAITALL : 0;
        ssize_t n = IN("recv", link->fd, recv(link->fd, bytes, wanted, flags));
        if (interrupted(n))
            continue;
        if (n == 0)
            break;
        came(link, bytes, n);
    }
    HOLDS(link->received == length);
    board->running--;
    free(bytes);
    return NULL;
}

static void *writer(void *argument) {
    struct stream *link = argument;
    stand("writer", link->number);
    uint64_t random = random_of(20 + (unsigned)link->number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    while (link->sent < length) {
        size_t n = some_size(&random, LONGEST);
        n = least(n, length - link->sent);
        make_next(link, bytes, n);
        ssize_t result = IN("send", link->fd, send(link->fd, bytes, n, MSG_NOSIGNAL));
        if (interrupted(result))
            continue;
        went(link, result);
        if (below(&random, 16) == 0)
            usleep((unsigned)below(&random, 1000));
    }
    MUST(shutdown(link->fd, SHUT_WR));
    board->running--;
    free(bytes);
    return NULL;
}

/* Takes what handlers wrote, here and there, until the other side's have written their last. */
static void *listener_to_handlers(void *unused) {
    (void)unused;
    stand("handlers' reader", 0);
    uint64_t random = random_of(30);
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, pipe_ends[0], &(struct epoll_event){.events = EPOLLIN, .data.fd = pipe_ends[0]}));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, told_by_handlers, &(struct epoll_event){.events = EPOLLIN, .data.fd = told_by_handlers}));
    struct pollfd entries[2] = {{.fd = pipe_ends[0], .events = POLLIN}, {.fd = told_by_handlers, .events = POLLIN}};
    for (bool over = false; !over;) {
        bool polls = below(&random, 2);
        struct epoll_event events[2];
        int n = polls ? IN("poll", told_by_handlers, poll(entries, 2, -1)) : IN("epoll_wait", set, epoll_wait(set, events, 2, -1));
        if (n < 0)
            HOLDS(errno == EINTR);
        for (int i = 0; i < (polls && n > 0 ? 2 : n); i++) {
            if (polls && !entries[i].revents)
                continue;
            int fd = polls ? entries[i].fd : events[i].data.fd;
            char bytes[4096];
            ssize_t result = IN("read", fd, read(fd, bytes, 1 + below(&random, sizeof bytes)));
            if (interrupted(result))
                continue;
            for (ssize_t k = 0; k < result; k++)
                HOLDS(bytes[k] == 's');
            if (fd == pipe_ends[0]) {
                from_pipe += (uint64_t)result;
            } else if (result > 0) {
                from_peer += (uint64_t)result;
            } else {
                over = true;
            }
            board->moved++;
        }
    }
    board->running--;
    return NULL;
}

static void add(int i, int fd) {
    if (i == count)
        told_by_handlers = fd;
    else
        begin_stream(&links[i], i, fd);
}

static timer_t begin_storm(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = restarts ? SA_RESTART : 0};
    sigemptyset(&action.sa_mask);
    MUST(sigaction(SIGUSR1, &action, NULL));
    /* The process' alarm stays the limit of its time. */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    uint64_t random = random_of(40);
    long pause = 100000 + (long)below(&random, 1000000);
    struct itimerspec times = {{0, pause}, {0, pause}};
    MUST(timer_settime(timer, 0, &times, NULL));
    return timer;
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 2);
    length = (uint64_t)argument(2, 2048) << 10;
    CHECK(count > 0 && count <= MOST);
    restarts = mode_is("restart");
    board->running = 2 * count + 1;
    open_links(count + 1, add);
    MUST(pipe2(pipe_ends, O_CLOEXEC));
    set_nonblocking(pipe_ends[1], true);
    pthread_t threads[2 * MOST];
    for (int i = 0; i < count; i++) {
        threads[2 * i] = start_thread(reader, &links[i]);
        threads[2 * i + 1] = start_thread(writer, &links[i]);
    }
    pthread_t listens = start_thread(listener_to_handlers, NULL);
    timer_t timer = begin_storm();
    watch_races_until(1);
    MUST(timer_delete(timer));
    signal(SIGUSR1, SIG_IGN);
    for (int i = 0; i < 2 * count; i++)
        pthread_join(threads[i], NULL);
    while (inside > 0) /* in the one thread that is left */
        sleep_ms(1);
    mark(is_client ? "client" : "server", through_connection);
    MUST(shutdown(told_by_handlers, SHUT_WR));
    watch_races();
    pthread_join(listens, NULL);
    HOLDS(from_peer == await_mark(is_client ? "server" : "client"));
    set_nonblocking(pipe_ends[0], true);
    char rest[4096];
    for (ssize_t n; (n = read(pipe_ends[0], rest, sizeof rest)) > 0;)
        from_pipe += (uint64_t)n;
    HOLDS(from_pipe == through_pipe);
    say("all bytes came");
}
