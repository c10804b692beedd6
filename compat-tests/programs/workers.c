/*
 * Processes of one family share sets and connections by inheritance, as the workers of a server do; they come and go by
 * _exit. Modes:
 *   accept   workers accept from one listener, each by a set of its own (EPOLLEXCLUSIVE) or by the one that all inherited,
 *            answer, and hand a connection to the next worker between two answers, or in the midst of a message
 *   shared   both sides are workers that wait on one inherited set for the same connections: whoever is told answers
 * Arguments: seed, connections of each client thread (20) or in all (4), messages on each of them (30; 200).
 */
#include "races.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>

#define WORKERS 3
#define CLIENTS 4
#define MOST 16
#define LONGEST 100000

/* What a worker that goes on with a connection must know. */
struct link {
    int fd;
    unsigned stream;
    /* Of this side; and of the message that is coming, how much is here. */
    uint64_t received, sent;
    size_t length, here;
    bool known;
};

/* Of mode shared, in memory that all workers of a side have. */
struct shared {
    pthread_mutex_t lock;
    struct link link;
    int turn;
};

static struct shared *shared;
static int count, messages, set, over, listener, doors[WORKERS][2];
static bool one_set, edges;

static void tell_streams(void) {
    for (int i = 0; shared && i < count; i++)
        say("%d, descriptor %d: turn %d, %zu of %zu here; received %llu, sent %llu", i, shared[i].link.fd, shared[i].turn,
            shared[i].link.here, shared[i].link.length, (unsigned long long)shared[i].link.received,
            (unsigned long long)shared[i].link.sent);
}

/* Waits where the connection is full. */
static void send_all(struct link *link, const char *bytes, size_t length) {
    for (size_t at = 0; at < length;) {
        ssize_t n = IN("send", link->fd, send(link->fd, bytes + at, length - at, MSG_NOSIGNAL));
        if (n < 0 && errno == EAGAIN) {
            struct pollfd entry = {.fd = link->fd, .events = POLLOUT};
            HOLDS(IN("poll for room", link->fd, poll(&entry, 1, -1)) == 1);
            continue;
        }
        HOLDS(n > 0);
        at += (size_t)n;
        count_bytes((size_t)n);
    }
}

/* A message: its length, its stream, its bytes. The stream's positions are those of bytes alone. */
struct head {
    uint32_t length, stream;
};

static void give(struct link *link, size_t length, char *bytes) {
    struct head head = {(uint32_t)length, link->stream};
    memcpy(bytes, &head, sizeof head);
    make_bytes(bytes + sizeof head, length, 2 * link->stream + is_client, link->sent);
    send_all(link, bytes, sizeof head + length);
    link->sent += length;
}

enum came { WHOLE, LATER, ENDED };

/* What there is of the next message, without waiting. */
static enum came take(struct link *link, char *bytes, uint64_t *random) {
    while (!link->known || link->here < link->length) {
        struct head head;
        size_t wanted = link->known ? some_size(random, link->length - link->here) : sizeof head;
        ssize_t n = recv(link->fd, link->known ? bytes : (char *)&head, wanted, MSG_DONTWAIT | (link->known ? 0 : MSG_PEEK));
        if (n < 0)
            HOLDS(errno == EAGAIN);
        if (n < 0)
            return LATER;
        if (n == 0 && !link->known)
            return ENDED;
        HOLDS(n > 0);
        if (!link->known) {
            if ((size_t)n < sizeof head)
                return LATER;
            HOLDS(recv(link->fd, &head, sizeof head, MSG_DONTWAIT) == (ssize_t)sizeof head);
            HOLDS(link->received == 0 || head.stream == link->stream);
            HOLDS(head.length <= LONGEST);
            *link = (struct link){link->fd, head.stream, link->received, link->sent, head.length, 0, true};
            continue;
        }
        check_bytes(bytes, (size_t)n, 2 * link->stream + !is_client, link->received);
        link->received += (uint64_t)n;
        link->here += (size_t)n;
        count_bytes((size_t)n);
    }
    link->known = false;
    return WHOLE;
}

static void watch_link(struct link *link, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (edges ? EPOLLET : 0u), .data.ptr = link};
    MUST(epoll_ctl(set, operation, link->fd, &event));
}

/* ---- accept ---- */

static struct link *held[256];
static int held_count;

static void hold(struct link link) {
    CHECK(held_count < 256);
    struct link *mine = malloc(sizeof link);
    CHECK(mine);
    *mine = link;
    held[held_count++] = mine;
    watch_link(mine, EPOLL_CTL_ADD);
}

static void let_go(struct link *link) {
    for (int i = 0; i < held_count; i++)
        if (held[i] == link) {
            held[i] = held[--held_count];
            MUST(epoll_ctl(set, EPOLL_CTL_DEL, link->fd, NULL));
            MUST(close(link->fd));
            free(link);
            return;
        }
    HOLDS(!"a link that is held");
}

static void hand_over(struct link *link, int to) {
    send_with(doors[to][0], link, sizeof *link, &link->fd, 1);
    let_go(link);
}

static struct link taken_over(int door) {
    struct link link;
    struct iovec piece = {&link, sizeof link};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    ssize_t n = recvmsg(door, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0) {
        HOLDS(errno == EAGAIN);
        return (struct link){.fd = -1};
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    HOLDS(n == (ssize_t)sizeof link && header && header->cmsg_type == SCM_RIGHTS);
    memcpy(&link.fd, CMSG_DATA(header), sizeof link.fd);
    return link;
}

/* Answers what is there; then somebody else may go on with it. */
static void answer(struct link *link, int worker, char *bytes, uint64_t *random) {
    for (;;) {
        enum came came = take(link, bytes, random);
        if (came == ENDED) {
            let_go(link);
            return;
        }
        if (came == WHOLE)
            give(link, link->length, bytes);
        if (below(random, 8) == 0) {
            hand_over(link, (worker + 1) % WORKERS);
            return;
        }
        if (came == LATER)
            return;
    }
}

static void accept_some(void) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        HOLDS(errno == EAGAIN);
        return;
    }
    no_delay(fd);
    hold((struct link){.fd = fd});
}

/* Until it has done its share, and holds nothing. */
static void accepting_worker(int worker, int life) {
    stand("worker", worker);
    uint64_t random = random_of((unsigned)(worker + 10 * life));
    char *bytes = malloc(LONGEST + sizeof(struct head));
    CHECK(bytes);
    if (!one_set) {
        set = MUST(epoll_create1(EPOLL_CLOEXEC));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = &listener}));
    }
    int own = MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(epoll_ctl(own, EPOLL_CTL_ADD, doors[worker][1], &(struct epoll_event){.events = EPOLLIN, .data.ptr = doors}));
    int listening = set;
    set = own;
    if (!one_set)
        MUST(epoll_ctl(own, EPOLL_CTL_ADD, listening, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &listener}));
    for (int turns = 0; turns < 300 || held_count > 0; turns++) {
        struct epoll_event events[8];
        /* The one set that all have inherited is asked now and then, as it is nobody's own. */
        if (one_set) {
            int n = IN("epoll_wait of all", listening, epoll_wait(listening, events, 1, 0));
            HOLDS(n >= 0);
            if (n > 0)
                accept_some();
        }
        int n = IN("epoll_wait", own, epoll_wait(own, events, 8, one_set || turns >= 300 ? 2 : 20));
        HOLDS(n >= 0);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &listener) {
                accept_some();
            } else if (events[i].data.ptr == doors) {
                struct link link = taken_over(doors[worker][1]);
                if (link.fd >= 0)
                    hold(link);
            } else {
                bool there = false;
                for (int k = 0; k < held_count; k++)
                    there |= held[k] == events[i].data.ptr;
                if (there)
                    answer(events[i].data.ptr, worker, bytes, &random);
            }
        }
    }
    step_down();
    _exit(0);
}

static void *asking_thread(void *argument) {
    int thread = (int)(intptr_t)argument;
    stand("client", thread);
    uint64_t random = random_of((unsigned)thread);
    char *bytes = malloc(LONGEST + sizeof(struct head));
    CHECK(bytes);
    for (int i = 0; i < count; i++) {
        struct link link = {.fd = connect_there(), .stream = (unsigned)(thread * 1000 + i)};
        no_delay(link.fd);
        for (int k = (int)below(&random, (size_t)messages); k >= 0; k--) {
            size_t length = some_size(&random, LONGEST);
            give(&link, length, bytes);
            struct head head;
            for (size_t at = 0; at < sizeof head;) {
                ssize_t n = IN("recv of a head", link.fd, recv(link.fd, (char *)&head + at, sizeof head - at, 0));
                HOLDS(n > 0);
                at += (size_t)n;
            }
            HOLDS(head.length == length && head.stream == link.stream);
            for (size_t at = 0; at < length;) {
                ssize_t n = IN("recv", link.fd, recv(link.fd, bytes, length - at, 0));
                HOLDS(n > 0);
                check_bytes(bytes, (size_t)n, 2 * link.stream, link.received);
                link.received += (uint64_t)n;
                at += (size_t)n;
                count_bytes((size_t)n);
            }
        }
        MUST(close(link.fd));
    }
    board->running--;
    free(bytes);
    return NULL;
}

/* ---- shared ---- */

static void sharing_worker(int worker, int life, bool stays) {
    stand("worker", worker);
    uint64_t random = random_of((unsigned)(worker + 10 * life));
    char *bytes = malloc(LONGEST + sizeof(struct head));
    CHECK(bytes);
    int turns = stays ? -1 : 20 + (int)below(&random, 100);
    while (board->running > 0 && turns != 0) {
        struct epoll_event event;
        int n = IN("epoll_wait", set, epoll_wait(set, &event, 1, stays ? -1 : 50));
        HOLDS(n >= 0);
        turns -= turns > 0;
        struct shared *one = n > 0 ? event.data.ptr : NULL;
        if (!one)
            continue;
        IN("lock", one->link.fd, pthread_mutex_lock(&one->lock));
        bool some = false;
        while (one->turn < messages && take(&one->link, bytes, &random) == WHOLE) {
            some = true;
            int next = one->turn + 1;
            one->turn += 2;
            if (next < messages)
                give(&one->link, some_size(&random, LONGEST), bytes);
            if (one->turn >= messages)
                board->running--;
        }
        pthread_mutex_unlock(&one->lock);
        if (!some && !edges)
            usleep(100);
    }
    free(bytes);
    step_down();
}

static void add(int i, int fd) {
    set_nonblocking(fd, i % 2);
    shared[i] = (struct shared){.link = {.fd = fd, .stream = (unsigned)i}, .turn = is_client ? 0 : 1};
    pthread_mutexattr_t ours;
    pthread_mutexattr_init(&ours);
    pthread_mutexattr_setpshared(&ours, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared[i].lock, &ours);
}

/* ---- the processes ---- */

static pid_t start_worker(int worker, int life) {
    pid_t child = MUST(fork());
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mode_is("accept"))
        accepting_worker(worker, life);
    sharing_worker(worker, life, false);
    _exit(0);
}

static void *stays(void *unused) {
    (void)unused;
    sharing_worker(WORKERS, 0, true);
    return NULL;
}

/* Those that end are replaced, until nothing runs; then they are stopped. */
static void keep_workers(void) {
    pid_t workers[WORKERS];
    int lives = 0;
    for (int i = 0; i < WORKERS; i++)
        workers[i] = start_worker(i, lives++);
    uint64_t before = 0;
    for (int still = 0; board->running > 0; sleep_ms(2)) {
        int status;
        for (int i = 0; i < WORKERS; i++)
            if (waitpid(workers[i], &status, WNOHANG) == workers[i]) {
                HOLDS(status == 0);
                workers[i] = start_worker(i, lives++);
            }
        if (mode_is("accept") && is_marked("over"))
            board->running = 0;
        still = board->moved == before ? still + 1 : 0;
        before = board->moved;
        if (still > PATIENCE * 500)
            give_up(__LINE__, "nothing moves");
    }
    if (mode_is("accept"))
        for (int i = 0; i < WORKERS; i++)
            kill(workers[i], SIGKILL);
    for (int i = 0; i < WORKERS; i++)
        waitpid(workers[i], NULL, 0);
}

static void race_accept(void) {
    count = (int)argument(1, 20);
    messages = (int)argument(2, 30);
    if (is_client) {
        board->running = CLIENTS;
        pthread_t threads[CLIENTS];
        for (intptr_t i = 0; i < CLIENTS; i++)
            threads[i] = start_thread(asking_thread, (void *)i);
        watch_races();
        for (int i = 0; i < CLIENTS; i++)
            pthread_join(threads[i], NULL);
        mark("over", 1);
        return;
    }
    for (int i = 0; i < WORKERS; i++) {
        MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, doors[i]));
        set_nonblocking(doors[i][1], true);
    }
    listener = listen_here();
    set_nonblocking(listener, true);
    if (one_set) {
        set = MUST(epoll_create1(EPOLL_CLOEXEC));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &listener}));
    }
    board->running = 1;
    keep_workers();
}

static void race_shared(void) {
    count = (int)argument(1, 4);
    messages = (int)argument(2, 200);
    CHECK(count > 0 && count <= MOST && messages > 1);
    shared = shared_memory(sizeof *shared * MOST);
    board->running = count;
    open_links(count, add);
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN | (edges ? EPOLLET : 0u), .data.ptr = &shared[i]};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, shared[i].link.fd, &event));
    }
    pthread_t thread = start_thread(stays, NULL);
    if (!is_client) {
        stand("first words", 0);
        static char bytes[LONGEST + sizeof(struct head)];
        for (int i = 0; i < count; i++) {
            pthread_mutex_lock(&shared[i].lock);
            give(&shared[i].link, 1000, bytes);
            pthread_mutex_unlock(&shared[i].lock);
        }
        step_down();
    }
    keep_workers();
    over = MUST(eventfd(1, EFD_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, over, &(struct epoll_event){.events = EPOLLIN}));
    pthread_join(thread, NULL);
}

static void race(void) {
    begin_races();
    uint64_t random = random_of(1);
    one_set = below(&random, 2);
    edges = below(&random, 2);
    if (mode_is("accept"))
        race_accept();
    else
        race_shared();
    say("all messages came");
}
