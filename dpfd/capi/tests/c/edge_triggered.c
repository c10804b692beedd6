/* A program that is told only of what comes (EPOLLET), and reads until there is nothing, is told of every message. */
#include "check.h"
#include <sys/epoll.h>
#include <sys/wait.h>

enum { COUNT = 20000, SOON = 20000 };

static int sender(int to) {
    int fd = endpoint(to);
    for (int i = 0; i < COUNT; i++) {
        CHECK(dp_write(fd, &i, sizeof i) == sizeof i);
        if (i % 500 == 0) usleep(1000);
    }
    CHECK(dp_close(fd) == 0);
    return 0;
}

int main(void) {
    int ready[2], number = 2110;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) return read(ready[0], &number, sizeof number) == sizeof number ? sender(number) : 1;
    int fd = dp_open(number), epoll = epoll_create1(0);
    CHECK(fd >= 0 && epoll >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(dp_option(fd, DP_OPT_SPIN, 0) == 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    char *at;
    FAILS(dp_read(fd, &at), EAGAIN, "");
    CHECK(write(ready[1], &number, sizeof number) == sizeof number);
    for (int next = 0; next < COUNT;) {
        CHECK(epoll_wait(epoll, &event, 1, SOON) == 1);
        while (dp_read(fd, &at) >= 0) {
            CHECK(memcmp(at, &next, sizeof next) == 0);
            CHECK(dp_fsync(fd, 1) == 0);
            next++;
        }
        CHECK(errno == EAGAIN);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}
