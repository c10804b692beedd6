/*
 * Short connections, some thousands, of clients half of which are killed in the middle of them; the others close in every way.
 * The server's threads wait in one set, and each connection that is served by whoever is told of it comes to its end.
 * Arguments: seed, clients in all (60), connections of each (40).
 */
#include "races.h"

#define AT_ONCE 6
#define LONGEST 30000
#define WORKERS 3
#define MOST_OPEN 4096

struct head {
    uint32_t stream, given, asked;
};

/* By descriptor: a connection as far as it was read. */
static struct served {
    struct head head;
    uint32_t has, got, answered;
    bool answers;
    /* Of one connection after the other; served so often. */
    uint32_t life, calls;
    _Atomic bool busy;
} served[MOST_OPEN];

static int set, listener;
static _Atomic int open_ends, accepted_ends;
static _Atomic bool over;

static void tell_streams(void) {
    say("open %d, accepted %d", open_ends, accepted_ends);
    for (int fd = 0; fd < MOST_OPEN; fd++)
        if (served[fd].busy)
            say("served: descriptor %d, its connection %u, for the %uth time: stream %u, head %u, got %u of %u, answered %u of %u", fd,
                served[fd].life, served[fd].calls, served[fd].head.stream, served[fd].has, served[fd].got, served[fd].head.given,
                served[fd].answered, served[fd].head.asked);
}

static void rearm(int fd, uint32_t events) {
    served[fd].busy = false;
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
}

static void end_of(int fd) {
    served[fd].busy = false;
    open_ends--;
    board->moved++;
    MUST(close(fd));
}

static bool is_end(ssize_t n) {
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n < 0)
        HOLDS(errno == ECONNRESET || errno == EPIPE);
    return n <= 0;
}

/* Until nothing more can be done. */
static void serve(int fd) {
    struct served *one = &served[fd];
    one->calls++;
    /* For one event: nobody else is told of it meanwhile. */
    HOLDS(!atomic_exchange(&one->busy, true));
    static __thread char bytes[LONGEST];
    for (;;) {
        ssize_t n;
        if (one->answers) {
            uint32_t rest = one->head.asked - one->answered;
            make_bytes(bytes, rest, one->head.stream + 7, one->answered);
            n = IN("send", fd, send(fd, bytes, rest, MSG_DONTWAIT | MSG_NOSIGNAL));
            if (is_end(n))
                return end_of(fd);
            if (n < 0)
                return rearm(fd, EPOLLOUT);
            one->answered += (uint32_t)n;
            if (one->answered == one->head.asked)
                one->has = one->got = one->answered = one->answers = 0;
        } else if (one->has < sizeof one->head) {
            n = IN("recv", fd, recv(fd, (char *)&one->head + one->has, sizeof one->head - one->has, MSG_DONTWAIT));
            if (is_end(n))
                return end_of(fd);
            if (n < 0)
                return rearm(fd, EPOLLIN);
            one->has += (uint32_t)n;
        } else {
            HOLDS(one->head.given > 0 && one->head.given <= LONGEST && one->head.asked > 0 && one->head.asked <= LONGEST);
            n = IN("recv", fd, recv(fd, bytes, one->head.given - one->got, MSG_DONTWAIT));
            if (is_end(n))
                return end_of(fd);
            if (n < 0)
                return rearm(fd, EPOLLIN);
            check_bytes(bytes, (size_t)n, one->head.stream, one->got);
            one->got += (uint32_t)n;
            one->answers = one->got == one->head.given;
        }
        board->moved++;
    }
}

static void *worker(void *argument) {
    stand("worker", (int)(intptr_t)argument);
    while (!over) {
        struct epoll_event event;
        int n = IN("epoll_wait", set, epoll_wait(set, &event, 1, 200));
        HOLDS(n >= 0);
        if (n == 1 && event.data.fd != listener)
            serve(event.data.fd);
        for (int fd; n == 1 && event.data.fd == listener;) {
            fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd < 0 && errno != EAGAIN)
                HOLDS(errno == ECONNABORTED);
            if (fd < 0)
                break;
            HOLDS(fd < MOST_OPEN);
            no_delay(fd);
            served[fd] = (struct served){.life = served[fd].life + 1};
            open_ends++;
            accepted_ends++;
            struct epoll_event register_it = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fd};
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &register_it));
        }
    }
    step_down();
    return NULL;
}

static void serve_all(void) {
    listener = listen_here();
    set_nonblocking(listener, true);
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener}));
    pthread_t threads[WORKERS];
    for (intptr_t i = 0; i < WORKERS; i++)
        threads[i] = start_thread(worker, (void *)i);
    await_mark("over");
    /* What was in the backlog is accepted, and all that was accepted ends. */
    uint64_t before = 0;
    for (int still = 0, done = 0; done < 50; sleep_ms(5)) {
        done = open_ends == 0 ? done + 1 : 0;
        still = board->moved == before && open_ends ? still + 1 : 0;
        before = board->moved;
        HOLDS(still <= PATIENCE * 200);
    }
    over = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

/* One connection. */
static void live_once(uint32_t stream, uint64_t *random) {
    static char bytes[LONGEST + sizeof(struct head)];
    int fd = connect_there();
    no_delay(fd);
    int rounds = 1 + (int)below(random, 12);
    for (int k = 0; k < rounds; k++) {
        struct head head = {stream, (uint32_t)some_size(random, LONGEST), (uint32_t)some_size(random, LONGEST)};
        memcpy(bytes, &head, sizeof head);
        make_bytes(bytes + sizeof head, head.given, stream, 0);
        write_all(fd, bytes, sizeof head + head.given);
        if (k + 1 == rounds && below(random, 3) == 0)
            break; /* it closes with the answer unread, or not come yet */
        for (size_t at = 0; at < head.asked;) {
            ssize_t n = IN("recv", fd, recv(fd, bytes, head.asked - at, 0));
            HOLDS(n > 0);
            check_bytes(bytes, (size_t)n, stream + 7, at);
            at += (size_t)n;
        }
    }
    switch (below(random, 4)) {
    case 0:
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)));
        break;
    case 1:
        shutdown(fd, SHUT_WR);
        break;
    }
    close(fd);
}

static pid_t begin_client(int number, int connections) {
    pid_t child = MUST(fork());
    if (child > 0)
        return child;
    stand("client", number);
    uint64_t random = random_of(100 + (unsigned)number);
    for (int i = 0; i < connections; i++) {
        live_once((uint32_t)(number * 100 + i), &random);
        board->moved++;
    }
    step_down();
    board->running--;
    _exit(0);
}

static void race(void) {
    begin_races();
    int clients = (int)argument(1, 60), connections = (int)argument(2, 40);
    signal(SIGPIPE, SIG_IGN);
    if (!is_client) {
        serve_all();
        say("all connections ended");
        return;
    }
    stand("main", 0);
    uint64_t random = random_of(1);
    pid_t living[AT_ONCE] = {0};
    bool doomed[AT_ONCE] = {false};
    int begun = 0, ended = 0;
    uint64_t before = 0;
    board->running = clients; /* not counted on */
    for (int still = 0; ended < clients;) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (living[i] == 0 && begun < clients) {
                doomed[i] = below(&random, 2);
                living[i] = begin_client(begun++, connections);
            }
            if (living[i] && doomed[i] && below(&random, 12) == 0)
                kill(living[i], SIGKILL);
            int status;
            if (living[i] && waitpid(living[i], &status, WNOHANG) == living[i]) {
                HOLDS(WIFSIGNALED(status) ? doomed[i] && WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
                for (int k = 0; k < PLACES; k++)
                    if (board->places[k].process == living[i])
                        board->places[k].thread = 0;
                living[i] = 0;
                ended++;
            }
        }
        still = board->moved == before ? still + 1 : 0;
        before = board->moved;
        HOLDS(still <= PATIENCE * 500);
        usleep(2000);
    }
    mark("over", 1);
    say("all clients ended");
}
