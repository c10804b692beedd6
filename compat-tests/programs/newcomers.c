/*
 * The client meets one server after another, each a program of its own that ends before the next begins, and tells how
 * many mappings it has at times. First argument: servers; second: after how many it tells first; third: threads that do
 * the same at once. With more than one there is another that receives on a connection whose number is closed meanwhile.
 * Fourth: 1: before the others it meets one from which a thread receives all the time: its buffer cannot be written to, and
 * the handler of that fault comes back when all the others have been met.
 */
#include "common.h"

#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* So many that the set looks at the channel by itself. */
#define EXCHANGES (set < 0 ? 60 : 600)

extern char **environ;

/* A server of one connection: its port goes to standard output. */
void other_role(const char *role) {
    CHECK(strcmp(role, "host") == 0);
    int listener = listen_for_starter();
    echo_until_eof(MUST(accept(listener, NULL, NULL)));
}

static atomic_int shown = -1;
static atomic_uint numbers;
static int set = -1; /* the one thread waits in it for all its servers */
static atomic_bool over;

static unsigned mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    unsigned lines = 0;
    for (int c; (c = getc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static int connected_to_another(pid_t *child) {
    int out[2];
    MUST(pipe2(out, O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, out[1], 1) == 0);
    char *arguments[] = {program_argv[0], "host", program_argv[2], NULL};
    CHECK(posix_spawn(child, "/proc/self/exe", &actions, NULL, arguments, environ) == 0);
    CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
    close(out[1]);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CHECK(read(out[0], &there.sin_port, sizeof there.sin_port) == sizeof there.sin_port);
    close(out[0]);
    /* Not for those that are started meanwhile. */
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(connect(fd, (struct sockaddr *)&there, sizeof there));
    return fd;
}

static void meet_one(void) {
    pid_t child;
    int fd = connected_to_another(&child);
    if (set >= 0)
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}));
    for (int i = 0; i < EXCHANGES; i++) {
        char out[10], in[10];
        fill(out, sizeof out, (uint64_t)i);
        write_all(fd, out, sizeof out);
        struct epoll_event event;
        CHECK(set < 0 || epoll_wait(set, &event, 1, 10000) == 1);
        read_exact(fd, in, sizeof in);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    if (argument(2, 1) > 1) {
        /* A number that no connection with bytes under way gets soon. */
        int high = MUST(fcntl(fd, F_DUPFD_CLOEXEC, 200 + (int)(atomic_fetch_add(&numbers, 1) % 700)));
        MUST(close(fd));
        atomic_store(&shown, high);
        sched_yield();
        MUST(close(high));
    } else {
        MUST(shutdown(fd, SHUT_WR));
        char byte;
        CHECK(read(fd, &byte, 1) == 0);
        MUST(close(fd));
    }
    join_child(child);
}

static void *receive_under_it(void *none) {
    char some[16];
    while (!atomic_load(&over)) {
        int fd = atomic_load(&shown);
        for (int i = 0; i < 64 && fd >= 0; i++) {
            ssize_t n = recv(fd, some, sizeof some, MSG_DONTWAIT);
            CHECK(n == -1 && (errno == EAGAIN || errno == EBADF));
        }
        sched_yield();
    }
    return none;
}

static void *meet(void *first) {
    for (long i = 1; i <= argument(0, 200); i++) {
        meet_one();
        if (first && i == argument(1, 100))
            say("then %u", mappings());
    }
    return NULL;
}

static char *page;
static int held = -1;
static atomic_bool is_inside, may_go;

/* The buffer cannot be written to until all is over; another fault is one. */
static void faults(int number, siginfo_t *info, void *context) {
    (void)context;
    if ((char *)info->si_addr < page || (char *)info->si_addr >= page + 4096) {
        signal(number, SIG_DFL);
        return;
    }
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_go))
        sleep_ms(1);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *receive_meanwhile(void *none) {
    ssize_t n = recv(held, page, 10, 0);
    CHECK(n == 10 ? memcmp(page, "0123456789", 10) == 0 : n == -1 && errno == EBADF);
    return none;
}

/* A thread is in the middle of a receive, of a connection that is over. */
static pthread_t hold(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = faults, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGSEGV, &action, NULL));
    pid_t child;
    int fd = connected_to_another(&child);
    for (int i = 0; i < 200; i++)
        exchange(fd, 10, (uint64_t)i);
    held = MUST(fcntl(fd, F_DUPFD_CLOEXEC, 900));
    MUST(close(fd));
    write_all(held, "0123456789", 10);
    struct pollfd entry = {.fd = held, .events = POLLIN};
    CHECK(poll(&entry, 1, 10000) == 1);
    pthread_t thread = start_thread(receive_meanwhile, NULL);
    while (!atomic_load(&is_inside))
        sleep_ms(1);
    MUST(close(held)); /* With bytes unread: the server is told of a reset. */
    MUST(waitpid(child, NULL, 0));
    return thread;
}

/* As long as memory rests that was in use before, and then some more come. */
static void let_go(pthread_t thread) {
    for (int i = 0; i < 4; i++) {
        sleep_ms(300);
        meet_one();
    }
    atomic_store(&may_go, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

void client(void) {
    bool holds = argument(3, 0);
    pthread_t inside = holds ? hold() : pthread_self();
    long threads = argument(2, 1);
    pthread_t all[16], receiver = pthread_self();
    CHECK(threads <= 16);
    if (threads == 1)
        set = MUST(epoll_create1(EPOLL_CLOEXEC));
    else
        receiver = start_thread(receive_under_it, NULL);
    for (long i = 1; i < threads; i++)
        all[i] = start_thread(meet, NULL);
    say("first %u", mappings());
    meet(all);
    for (long i = 1; i < threads; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    atomic_store(&over, true);
    if (threads > 1)
        CHECK(pthread_join(receiver, NULL) == 0);
    if (holds)
        let_go(inside);
    say("last %u", mappings());
}

void server(void) {}
