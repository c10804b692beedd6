/*
 * Exchanges on one connection (argument: how many, 400) between two processes on one CPU, each of which sleeps in
 * epoll_wait meanwhile, or in mode "poll" in poll; in mode "closed" the client closes its set after some of them, and goes on
 * in poll. The server answers when the client certainly sleeps, so each answer wakes
 * it, however busy the machine is. The client marks how many bytes it got over TCP ("bells"), which on a channel are bells.
 */
#include "common.h"

#include <sched.h>

static void on_one_cpu(void) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    MUST(sched_getaffinity(0, sizeof all, &all));
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    MUST(sched_setaffinity(0, sizeof one, &one));
}

static int set_of(int fd) {
    if (mode_is("poll"))
        return -1; /* what is in a set relies on the kernel */
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    return set;
}

static long take(int set, int fd) {
    struct epoll_event event;
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    long number;
    if (set < 0)
        CHECK(MUST(poll(&entry, 1, -1)) == 1 && entry.revents == POLLIN);
    else
        CHECK(MUST(epoll_wait(set, &event, 1, -1)) == 1 && event.data.fd == fd && event.events == EPOLLIN);
    read_exact(fd, &number, sizeof number);
    return number;
}

/* tcpi_bytes_received; libc's struct tcp_info ends before it. */
static uint64_t over_tcp(int fd) {
    uint64_t info[32];
    socklen_t length = sizeof info;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length));
    CHECK(length >= 136);
    return info[16];
}

/* Whether the kernel has a process asleep, by its line in /proc/PID/stat. */
static bool is_asleep(int stat) {
    char line[512];
    ssize_t n = MUST(pread(stat, line, sizeof line - 1, 0));
    line[n] = 0;
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[2] == 'S';
}

static void await_its_sleep(int stat) {
    for (uint64_t start = now_ms(); !is_asleep(stat);) {
        CHECK(now_ms() - start < 5000);
        usleep(20);
    }
}

void server(void) {
    int fd = accepted(listen_here()), set = set_of(fd);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)await_mark("client-pid"));
    int stat = MUST(open(path, O_RDONLY | O_CLOEXEC));
    on_one_cpu();
    for (long i = 0, count = argument(0, 400); i < count; i++) {
        CHECK(take(set, fd) == i);
        await_its_sleep(stat);
        write_all(fd, &i, sizeof i);
    }
    say("echoed");
}

void client(void) {
    int fd = connected(), set = set_of(fd);
    mark("client-pid", (uint64_t)getpid());
    on_one_cpu();
    uint64_t before = over_tcp(fd);
    long count = argument(0, 400);
    for (long i = 0; i < count; i++) {
        if (i == 20 && mode_is("closed")) {
            MUST(close(set)); /* who relied on the kernel is gone */
            set = -1;
            before = over_tcp(fd);
        }
        write_all(fd, &i, sizeof i);
        CHECK(take(set, fd) == i);
    }
    mark("bells", over_tcp(fd) - before);
    say("%ld exchanges", count);
}
