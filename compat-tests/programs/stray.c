/*
 * A peer writes to a connection by a system call of its own, which no library sees, while the receiver waits: whatever the
 * receiver makes of it, the wait is over. On TCP these bytes are data; of a channel nobody knows where they belong.
 *   read     a blocking receive
 *   epoll    a set, and a receive that does not wait
 */
#include "common.h"

#include <sys/syscall.h>

static void write_by_hand(int fd, const char *from, size_t length) {
    long result;
#if defined __x86_64__
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_write), "D"((long)fd), "S"(from), "d"(length)
                     : "rcx", "r11", "memory");
#elif defined __aarch64__
    register long number __asm__("x8") = SYS_write, first __asm__("x0") = fd;
    register const char *second __asm__("x1") = from;
    register size_t third __asm__("x2") = length;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
    result = first;
#endif
    CHECK(result == (long)length);
}

void server(void) {
    int fd = accepted(listen_here());
    char buffer[64];
    mark("waiting", 1);
    if (mode_is("epoll")) {
        int set = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        say("told: %d", MUST(epoll_wait(set, &event, 1, 10000)));
    }
    ssize_t n = recv(fd, buffer, sizeof buffer, mode_is("epoll") ? MSG_DONTWAIT : 0);
    say("came back: %s", n == 3 || (n < 0 && errno == ECONNRESET) ? "yes" : "no");
    mark("back", 1);
    close(fd);
}

void client(void) {
    int fd = connected();
    await_mark("waiting");
    sleep_ms(50);
    write_by_hand(fd, "raw", 3);
    await_mark("back");
    close(fd);
    say("written");
}
