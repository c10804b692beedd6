/*
 * What fork costs a server with a connection: children that only end, one after the other (argument: how many, 100).
 * The transcript has the page faults of a child, and the median time of a fork and its wait in microseconds. They differ from
 * run to run: a test looks at the one, `programs_bench` at the other.
 */
#include "common.h"

#include <sys/resource.h>

#define MOST 10000

static double microseconds(void) {
    struct timespec now;
    MUST(clock_gettime(CLOCK_MONOTONIC, &now));
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static long faults_of_children(void) {
    struct rusage usage;
    MUST(getrusage(RUSAGE_CHILDREN, &usage));
    return usage.ru_minflt;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double fork_once(void) {
    double start = microseconds();
    pid_t pid = MUST(fork());
    if (pid == 0)
        _exit(0);
    MUST(waitpid(pid, NULL, 0));
    return microseconds() - start;
}

void server(void) {
    static double took[MOST];
    int fd = accepted(listen_here());
    long count = argument(0, 100);
    CHECK(count > 0 && count <= MOST);
    for (int i = 0; i < 10; i++)
        fork_once();
    long before = faults_of_children();
    for (long i = 0; i < count; i++)
        took[i] = fork_once();
    long faults = (faults_of_children() - before) / count;
    qsort(took, (size_t)count, sizeof took[0], by_size);
    say("faults %ld median %.1f", faults, took[count / 2]);
    char byte = 1;
    write_all(fd, &byte, 1);
    close(fd);
}

void client(void) {
    int fd = connected();
    char byte;
    read_exact(fd, &byte, 1);
    close(fd);
}
