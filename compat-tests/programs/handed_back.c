/*
 * A stream of a server that left its channel, after both sides had proven that they hold the connection (argument: MiB, 8).
 * The congestion control is reno, which paces no socket by itself; every kernel has it. The transcript has the server's pacing rate as the program is told it and as the kernel has it, and the time of a MiB in
 * microseconds, which `programs_bench` looks at.
 */
#include "common.h"

#include <netinet/tcp.h>
#include <sys/syscall.h>

#define EXCHANGES 200
#define MIB (1 << 20)
#define PIECE (64 << 10)

static double microseconds(void) {
    struct timespec now;
    MUST(clock_gettime(CLOCK_MONOTONIC, &now));
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* By a system call of the program's own: that of libc is answered as the program expects it. */
static uint64_t rate_in_kernel(int fd) {
    uint64_t rate = 1;
    socklen_t size = sizeof rate;
    long result;
#if defined __x86_64__
    register long value __asm__("r10") = (long)&rate, length __asm__("r8") = (long)&size;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_getsockopt), "D"((long)fd), "S"((long)SOL_SOCKET), "d"((long)SO_MAX_PACING_RATE),
                       "r"(value), "r"(length)
                     : "rcx", "r11", "memory");
#elif defined __aarch64__
    register long number __asm__("x8") = SYS_getsockopt, first __asm__("x0") = fd, level __asm__("x1") = SOL_SOCKET;
    register long name __asm__("x2") = SO_MAX_PACING_RATE, value __asm__("x3") = (long)&rate;
    register long length __asm__("x4") = (long)&size;
    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(number), "r"(level), "r"(name), "r"(value), "r"(length)
                     : "memory");
    result = first;
#endif
    CHECK(result == 0);
    return rate;
}

static const char *limit(uint64_t rate) { return rate == UINT64_MAX ? "none" : rate == 0 ? "at-once" : "some"; }

void server(void) {
    /* An earlier run's must not let the client begin: it waits for the port first, then for this. */
    char path[512];
    path_beside(path, sizeof path, "reno");
    unlink(path);
    int listener = listen_here();
    /* A connection that began with bbr would be paced for good. */
    MUST(setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    mark("reno", 1);
    int fd = accepted(listener);
    char byte;
    for (int i = 0; i < EXCHANGES; i++) {
        read_exact(fd, &byte, 1);
        write_all(fd, &byte, 1);
    }
    /* The kernel alone can wait for two bytes. */
    for (int mark = 2; mark > 0; mark--)
        MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    uint64_t told = 1;
    socklen_t size = sizeof told;
    static char piece[PIECE];
    long count = argument(0, 8);
    CHECK(count > 0);
    double start = microseconds();
    for (long i = 0; i < count * (MIB / PIECE); i++)
        write_all(fd, piece, sizeof piece);
    MUST(shutdown(fd, SHUT_WR));
    CHECK(read(fd, &byte, 1) == 0);
    double took = microseconds() - start;
    MUST(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &told, &size));
    say("told %s has %s took %.1f", limit(told), limit(rate_in_kernel(fd)), took / (double)count);
}

void client(void) {
    struct sockaddr_storage address;
    there(&address);
    await_mark("reno");
    int fd = connected();
    char byte = 1;
    for (int i = 0; i < EXCHANGES; i++) {
        write_all(fd, &byte, 1);
        read_exact(fd, &byte, 1);
    }
    static char some[256 << 10];
    uint64_t all = 0;
    for (ssize_t n; (n = MUST(read(fd, some, sizeof some))) > 0;)
        all += (uint64_t)n;
    say("%llu MiB", (unsigned long long)(all >> 20));
}
