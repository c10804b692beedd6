/*
 * Connections in use go from process to process (SCM_RIGHTS), at any byte of a message, and on both sides at the same time:
 * between the one that made them, one that was executed with the same environment, and one without LD_PRELOAD. Who has given one
 * away keeps its copy for a while. Arguments: seed, connections (16), messages on each (60).
 */
#include "races.h"

#define MOST 64
#define LONGEST 60000
#define HOLDERS 2
#define THREADS 2
/* How long one waits for more before it gives the connection away, ms. */
#define BRIEF 2

/* A connection, as far as it has come. Without a descriptor: it is through. */
struct state {
    int link;
    uint32_t message;
    size_t done;
    uint64_t in, out;
};

static int count, doors[HOLDERS + 1][2], self;
static uint32_t messages;
static _Atomic int through;
static _Atomic uint64_t passes;

static void tell_streams(void) { say("through %d, passes here %llu", through, (unsigned long long)passes); }

static size_t size_of(int link, uint32_t message) {
    uint64_t random = (seed * 31 + (uint64_t)link) * 65537 + message * 0x9e3779b97f4a7c15ull + 1;
    for (int i = 0; i < 8; i++)
        next_random(&random);
    return some_size(&random, LONGEST);
}

static void give(const struct state *state, const int *fd, int to) {
    note("sendmsg to a door", to);
    send_with(doors[to][1], state, sizeof *state, fd, fd != NULL);
    here->call = NULL;
    passes++;
    board->moved++;
}

/* False: there is nobody any more who gives. */
static bool get(struct state *state, int *fd) {
    struct iovec piece = {state, sizeof *state};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    ssize_t n = IN("recvmsg from a door", doors[self][0], recvmsg(doors[self][0], &message, MSG_CMSG_CLOEXEC));
    if (n == 0)
        return false;
    HOLDS(n == sizeof *state);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *fd = -1;
    if (header) {
        HOLDS(header->cmsg_type == SCM_RIGHTS);
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    }
    return true;
}

static bool await(int fd, short events, uint64_t *random) {
    if (below(random, 2)) {
        struct pollfd entry = {.fd = fd, .events = events};
        return IN("poll", fd, poll(&entry, 1, BRIEF)) == 1;
    }
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = (uint32_t)events | (below(random, 2) ? EPOLLET : 0u)};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    int n = IN("epoll_wait", fd, epoll_wait(set, &event, 1, BRIEF));
    close(set);
    return n == 1;
}

/* As long as something can be done, and for so many calls. */
static void serve(struct state *state, int fd, uint64_t *random, char *bytes) {
    for (size_t calls = 1 + below(random, 40); calls > 0 && state->message < messages; calls--) {
        size_t size = size_of(state->link, state->message), rest = size - state->done;
        bool mine = (state->message % 2 == 0) == is_client;
        unsigned stream = (unsigned)state->link * 2 + (mine == is_client);
        ssize_t n;
        if (mine) {
            make_bytes(bytes, rest, stream, state->out);
            n = IN("send", fd, send(fd, bytes, rest, MSG_DONTWAIT | MSG_NOSIGNAL));
        } else {
            size_t wanted = some_size(random, rest);
            n = IN("recv", fd, recv(fd, bytes, wanted, MSG_DONTWAIT));
        }
        if (n < 0) {
            HOLDS(errno == EAGAIN);
            if (!await(fd, mine ? EPOLLOUT : EPOLLIN, random))
                return;
            continue;
        }
        HOLDS(n > 0);
        if (!mine)
            check_bytes(bytes, (size_t)n, stream, state->in);
        *(mine ? &state->out : &state->in) += (uint64_t)n;
        state->done += (size_t)n;
        count_bytes((size_t)n);
        if (state->done == size) {
            state->message++;
            state->done = 0;
        }
    }
}

/* Serves what is given to this process. */
static void *holder(void *argument) {
    int number = (int)(intptr_t)argument;
    stand("holder", self * THREADS + number);
    uint64_t random = random_of(20 + (unsigned)(self * THREADS + number));
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    struct state state;
    int kept[4] = {-1, -1, -1, -1};
    for (int fd; get(&state, &fd);) {
        if (fd < 0 && self == 0) {
            if (state.link < 0)
                break;
            through++;
            board->moved++;
            continue;
        }
        HOLDS(fd >= 0);
        serve(&state, fd, &random, bytes);
        if (state.message == messages) {
            give(&state, NULL, 0);
            close(fd);
            continue;
        }
        give(&state, &fd, (int)below(&random, HOLDERS + 1));
        int *place = &kept[below(&random, 4)];
        if (*place >= 0)
            MUST(close(*place));
        *place = fd;
        if (below(&random, 2)) {
            MUST(close(fd));
            *place = -1;
        }
    }
    for (int i = 0; i < 4; i++)
        if (kept[i] >= 0)
            MUST(close(kept[i]));
    free(bytes);
    step_down();
    return NULL;
}

/* An executed one: its number, whose side it is on, and its doors. */
void other_role(const char *role) {
    (void)role;
    board = shared_memory(sizeof *board);
    seed = (uint64_t)argument(0, 1);
    messages = (uint32_t)argument(2, 60);
    self = (int)argument(3, 0);
    is_client = argument(4, 0);
    for (int i = 0; i <= HOLDERS; i++) {
        doors[i][0] = i == self ? (int)argument(5, 0) : -1;
        doors[i][1] = (int)argument(6 + i, 0);
    }
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(holder, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static pid_t execute(int number) {
    pid_t child = MUST(fork());
    if (child > 0)
        return child;
    char words[10][24];
    long const numbers[10] = {(long)seed, count, messages, number, is_client, doors[number][0], doors[0][1], doors[1][1], doors[2][1]};
    char *arguments[16] = {program_argv[0], "holder", program_argv[2], ""};
    for (int i = 0; i < 9; i++) {
        snprintf(words[i], sizeof words[i], "%ld", numbers[i]);
        arguments[4 + i] = words[i];
    }
    for (int i = 0; i <= HOLDERS; i++) {
        if (i == number)
            MUST(fcntl(doors[i][0], F_SETFD, 0));
        MUST(fcntl(doors[i][1], F_SETFD, 0));
    }
    if (number == 2)
        unsetenv("LD_PRELOAD");
    execv("/proc/self/exe", arguments);
    fail("passed.c", __LINE__, "execv");
}

static void add(int i, int fd) {
    struct state state = {.link = i};
    give(&state, &fd, 0);
    MUST(close(fd));
}

static void race(void) {
    begin_races();
    count = (int)argument(1, 16);
    messages = (uint32_t)argument(2, 60);
    CHECK(count > 0 && count <= MOST);
    for (int i = 0; i <= HOLDERS; i++)
        MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, doors[i]));
    pid_t children[HOLDERS];
    for (int i = 0; i < HOLDERS; i++)
        children[i] = execute(i + 1);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(holder, (void *)i);
    stand("main", 0);
    open_links(count, add);
    uint64_t before = 0;
    for (int still = 0; through < count; sleep_ms(5)) {
        still = board->moved == before ? still + 1 : 0;
        before = board->moved;
        HOLDS(still <= PATIENCE * 200);
    }
    /* An end for each thread, here and there. */
    for (int i = 0; i < THREADS; i++)
        give(&(struct state){.link = -1}, NULL, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i <= HOLDERS; i++)
        for (int k = 0; k < THREADS; k++)
            MUST(shutdown(doors[i][1], SHUT_WR));
    for (int i = 0; i < HOLDERS; i++)
        join_child(children[i]);
    say("all messages came");
}
