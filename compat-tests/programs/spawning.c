/*
 * Processes are made in every way, by two threads at the same time, beside threads that stream on connections of their own: the
 * children end at once, execute something, wait in a set that they inherited, or send on a connection on which their parent
 * receives meanwhile. Arguments: seed, processes of each thread (60), connections that stream (2).
 */
#include "races.h"

#include <spawn.h>

#define MOST 6
#define FORKERS 2
#define LONGEST 100000
#define AHEAD 400000

extern char **environ;

/* The first ones stream, the last ones are the forkers'. */
static struct link {
    struct stream stream;
    int set;
    _Atomic bool over;
} links[MOST + FORKERS];

static int streams;
static long processes;
static _Atomic int forkers_left;

static void tell_streams(void) {
    for (int i = 0; i < streams + FORKERS; i++) {
        tell_stream(&links[i].stream);
        if (links[i].over)
            say("over");
    }
}

static void *reader(void *argument) {
    struct link *link = argument;
    stand("reader", link->stream.number);
    uint64_t random = random_of(10 + (unsigned)link->stream.number);
    char *bytes = malloc(LONGEST);
    CHECK(bytes);
    bool waits = below(&random, 2);
    for (;;) {
        struct epoll_event event;
        if (waits && IN("epoll_wait", link->set, epoll_wait(link->set, &event, 1, -1)) < 0) {
            HOLDS(errno == EINTR); /* a fork beside it may end a wait */
            continue;
        }
        size_t wanted = some_size(&random, LONGEST);
        ssize_t n = IN("recv", link->stream.fd, recv(link->stream.fd, bytes, wanted, waits ? MSG_DONTWAIT : 0));
        if (n < 0) {
            HOLDS(waits && errno == EAGAIN);
            continue;
        }
        if (n == 0)
            break;
        came(&link->stream, bytes, n);
    }
    link->over = true;
    board->running--;
    free(bytes);
    return NULL;
}

static void send_bytes(struct link *link, uint64_t at, size_t length) {
    static __thread char bytes[LONGEST];
    make_bytes(bytes, length, bytes_of(&link->stream, true), at);
    for (size_t done = 0; done < length;) {
        ssize_t n = IN("send", link->stream.fd, send(link->stream.fd, bytes + done, length - done, MSG_NOSIGNAL));
        HOLDS(n > 0);
        done += (size_t)n;
    }
    count_bytes(length);
}

/* As long as processes are made. */
static void *writer(void *argument) {
    struct link *link = argument;
    stand("writer", link->stream.number);
    uint64_t random = random_of(20 + (unsigned)link->stream.number);
    while (forkers_left > 0) {
        if (link->stream.sent > link->stream.received + AHEAD && !link->over) {
            usleep(200);
            continue;
        }
        size_t n = some_size(&random, LONGEST);
        send_bytes(link, link->stream.sent, n);
        link->stream.sent += n;
    }
    MUST(shutdown(link->stream.fd, SHUT_WR));
    board->running--;
    return NULL;
}

static void wait_for_end(pid_t child) {
    int status;
    HOLDS(IN("waitpid", child, waitpid(child, &status, 0)) == child);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static char *const just_true[] = {"true", NULL};

/* In a child that was forked. */
static _Noreturn void live(int way, struct link *link, size_t n, int number) {
    struct epoll_event event;
    switch (way) {
    case 0:
        stand("child that sends", number);
        send_bytes(link, link->stream.sent, n);
        step_down();
        break;
    case 1: /* what is told there is its parent's to take */
        epoll_wait(links[number % streams].set, &event, 1, 2);
        break;
    case 2:
        execve("/bin/true", just_true, environ);
        _exit(1);
    }
    _exit(0);
}

static void *forker(void *argument) {
    struct link *link = argument;
    int number = link->stream.number - streams;
    stand("forker", number);
    uint64_t random = random_of(30 + (unsigned)number);
    for (long i = 0; i < processes; i++) {
        int way = (int)below(&random, 7);
        size_t n = some_size(&random, LONGEST);
        if (way < 4) {
            pid_t child = MUST(fork());
            if (child == 0)
                live(way, link, n, number);
            if (below(&random, 4) == 0)
                usleep((unsigned)below(&random, 500));
            wait_for_end(child);
            if (way == 0)
                link->stream.sent += n;
        } else if (way == 4) {
            pid_t child = vfork();
            if (child == 0) {
                execve("/bin/true", just_true, environ);
                _exit(1);
            }
            wait_for_end(MUST(child));
        } else if (way == 5) {
            pid_t child;
            HOLDS(posix_spawn(&child, "/bin/true", NULL, NULL, just_true, environ) == 0);
            wait_for_end(child);
        } else {
            send_bytes(link, link->stream.sent, n);
            link->stream.sent += n;
        }
        board->moved++;
    }
    MUST(shutdown(link->stream.fd, SHUT_WR));
    forkers_left--;
    board->running--;
    return NULL;
}

static void add(int i, int fd) {
    begin_stream(&links[i].stream, i, fd);
    /* One of them is open in what is executed. */
    MUST(fcntl(fd, F_SETFD, i == 0 && seed % 4 == 0 ? 0 : FD_CLOEXEC));
    links[i].set = MUST(epoll_create1(seed % 4 == 1 ? 0 : EPOLL_CLOEXEC));
    MUST(epoll_ctl(links[i].set, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}));
}

static void race(void) {
    begin_races();
    processes = argument(1, 60);
    streams = (int)argument(2, 2);
    CHECK(streams > 0 && streams <= MOST);
    forkers_left = FORKERS;
    board->running = 2 * (streams + FORKERS);
    open_links(streams + FORKERS, add);
    pthread_t threads[2 * (MOST + FORKERS)];
    int n = 0;
    for (int i = 0; i < streams + FORKERS; i++) {
        threads[n++] = start_thread(reader, &links[i]);
        threads[n++] = start_thread(i < streams ? writer : forker, &links[i]);
    }
    watch_races();
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    say("all bytes came");
}
