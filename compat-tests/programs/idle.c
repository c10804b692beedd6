/*
 * Both ends connected, used, then silent for some seconds (argument, 1). Modes say how the server waits:
 * recv, poll, epoll. stderr gets the numbers for benchmarks:
 *     {"side":"server","cpu_us":123,"voluntary":4,"involuntary":0,"wall_ms":1000}
 */
#include "common.h"

#include <sys/resource.h>

static uint64_t cpu_us(const struct rusage *usage) {
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static void report(const struct rusage *before, uint64_t start) {
    struct rusage after;
    MUST(getrusage(RUSAGE_SELF, &after));
    uint64_t used = cpu_us(&after) - cpu_us(before);
    long voluntary = after.ru_nvcsw - before->ru_nvcsw;
    fprintf(stderr, "{\"side\":\"%s\",\"cpu_us\":%llu,\"voluntary\":%ld,\"involuntary\":%ld,\"wall_ms\":%llu}\n",
            is_client ? "client" : "server", (unsigned long long)used, voluntary,
            after.ru_nivcsw - before->ru_nivcsw, (unsigned long long)(now_ms() - start));
    /* A spinning or ticking side would be far above: 5 % of the time, 100 wake-ups a second. */
    uint64_t seconds = (uint64_t)argument(0, 1);
    say("idle: little CPU: %s, few wake-ups: %s", used < 50000 * seconds + 10000 ? "yes" : "no",
        voluntary < 100 * (long)seconds ? "yes" : "no");
}

void server(void) {
    int fd = accepted(listen_here());
    struct rusage before;
    char byte;
    MUST(getrusage(RUSAGE_SELF, &before));
    uint64_t start = now_ms();
    if (mode_is("poll")) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        CHECK(MUST(poll(&entry, 1, -1)) == 1);
    } else if (mode_is("epoll")) {
        int set = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        CHECK(MUST(epoll_wait(set, &event, 1, -1)) == 1);
    }
    read_exact(fd, &byte, 1);
    report(&before, start);
    write_all(fd, &byte, 1);
    CHECK(read(fd, &byte, 1) == 0);
}

void client(void) {
    int fd = connected();
    struct rusage before;
    MUST(getrusage(RUSAGE_SELF, &before));
    uint64_t start = now_ms();
    sleep_ms((unsigned)argument(0, 1) * 1000);
    report(&before, start);
    exchange(fd, 1, 1);
    close(fd);
}
