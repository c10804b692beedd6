// SPDX-License-Identifier: MIT OR Apache-2.0
// One endpoint in several hands: duplicates, children, other processes, threads; network namespaces.
#define _GNU_SOURCE
#include "tap.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

static unsigned char buf[4096];

static int echo(int fd) {
    for (int i = 0; i < 100; i++) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 || write(fd, buf, n) != n)
            return 1;
    }
    return 0;
}

static void children(void) {
    int p[2];
    dp_pair(p, 0, 0);
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(echo(p[1]));
    bool good = true;
    for (int i = 0; i < 100; i++)
        good &= write(p[0], &i, 4) == 4 && read(p[0], buf, 9) == 4 && !memcmp(buf, &i, 4);
    int status;
    waitpid(child, &status, 0);
    OK(good && status == 0, "a child reads and writes its parent's endpoint");
    close2(p);

    /* cat knows nothing of endpoints: what comes in goes out. An empty message is what it takes for the end. */
    dp_pair(p, 0, 0);
    child = fork();
    if (!child) {
        dup2(p[1], 0);
        dup2(p[1], 1);
        execl("/bin/cat", "cat", NULL);
        _exit(127);
    }
    good = true;
    for (int i = 0; i < 50; i++)
        good &= write(p[0], &i, 4) == 4 && read(p[0], buf, 9) == 4 && !memcmp(buf, &i, 4);
    write(p[0], "", 0);
    waitpid(child, &status, 0);
    OK(good && status == 0, "an executed program does");
    close2(p);
}

static void passing(void) {
    int p[2], s[2];
    dp_pair(p, 0, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    fflush(stdout);
    pid_t child = fork();
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec byte = {"x", 1};
    struct msghdr m = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (!child) {
        close2(p);
        char c;
        byte = (struct iovec){&c, 1};
        if (recvmsg(s[1], &m, 0) != 1)
            _exit(1);
        int fd = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&m));
        _exit(echo(fd));
    }
    control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.h), &p[1], sizeof(int));
    sendmsg(s[0], &m, 0);
    unsigned n = dp_number(p[1]);
    close(p[1]);
    bool good = true;
    for (int i = 0; i < 100; i++)
        good &= write(p[0], &i, 4) == 4 && read(p[0], buf, 9) == 4 && !memcmp(buf, &i, 4);
    int status;
    waitpid(child, &status, 0);
    OK(good && status == 0, "a descriptor passed over a socket outlives its opener's");
    int again = dp_new(n, 0, 0);
    OK(again >= 0, "and ends with its last holder");
    close(again);
    close(p[0]);
    close2(s);
}

struct end {
    int fd;
    bool good;
};

static void *in(void *arg) {
    struct end *e = arg;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t got;
        e->good &= read(e->fd, &got, 8) == 8 && got == i;
    }
    return NULL;
}

static void *out(void *arg) {
    struct end *e = arg;
    for (uint64_t i = 0; i < 3000; i++)
        e->good &= write(e->fd, &i, 8) == 8;
    return NULL;
}

static void *take_some(void *arg) {
    struct end *e = arg;
    long n = 0;
    while (read(e->fd, buf, 8) == 8)
        n++;
    return (void *)n;
}

static void threads(void) {
    int p[2];
    pthread_t t[4];
    dp_pair(p, 4096, 0);
    struct end e[4] = {{p[0], true}, {p[1], true}, {p[0], true}, {p[1], true}};
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, i < 2 ? out : in, &e[i]);
    bool good = true;
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        good &= e[i].good;
    }
    OK(good, "two threads on each end, both ways");

    long sum = 0;
    struct end r = {p[1], true};
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, take_some, &r);
    for (uint64_t i = 0; i < 4000; i++)
        write(p[0], &i, 8);
    for (int i = 0; i < 4; i++)
        write(p[0], "", 0);
    for (int i = 0; i < 4; i++) {
        void *n;
        pthread_join(t[i], &n);
        sum += (long)n;
    }
    OK(sum == 4000, "four threads share the messages of one endpoint");
    close2(p);
}

static volatile long blocked;

static void *read_blocked(void *fd) {
    blocked = read(*(int *)fd, buf, 9);
    return NULL;
}

static void closing(void) {
    int p[2];
    pthread_t t;
    dp_pair(p, 0, 0);
    unsigned n = dp_number(p[1]);
    blocked = -9;
    pthread_create(&t, NULL, read_blocked, &p[1]);
    pause_ms(30);
    int fd = p[1];
    close(fd);
    write(p[0], "1", 1);
    pthread_join(t, NULL);
    OK(blocked == 1, "a read that was under way at the close ends with the next message");
    int again = dp_new(n, 0, 0);
    OK(again >= 0, "then the endpoint is gone");
    close(again);
    close(p[0]);
}

static volatile bool large_is_open;

static void *open_large(void *fd) {
    *(int *)fd = dp_new(0, 1 << 28, 0);
    large_is_open = true;
    return NULL;
}

/* The table of numbers is everybody's. */
static void beside_a_large_one(void) {
    int large = -1, small = 0;
    double began = now(), longest = 0;
    pthread_t t;
    pthread_create(&t, NULL, open_large, &large);
    while (!large_is_open && small >= 0) {
        double from = now();
        small = dp_new(0, 4096, 0);
        close(small);
        longest = now() - from > longest ? now() - from : longest;
    }
    double all = now() - began;
    pthread_join(t, NULL);
    OK(small >= 0 && large >= 0 && longest < all / 2, "while a large pool is made others open theirs");
    printf("# it took %.2f s, none of them longer than %.2f s\n", all, longest);
    close(large);
}

static int elsewhere(int number) {
    if (unshare(CLONE_NEWNET))
        return 1;
    int fd = dp_new(number, 0, O_NONBLOCK), other = dp_new(0, 0, O_NONBLOCK);
    if (fd < 0 || dp_send_to(other, "here", 4, 0, number) != 4)
        return 2;
    return read(fd, buf, 9) == 4 ? 0 : 3;
}

static int keeps_its_namespace(int fd) {
    if (unshare(CLONE_NEWNET))
        return 1;
    return write(fd, "there", 5) == 5 ? 0 : 2;
}

/* Opened as a user without privilege; what the program is afterwards, in namespaces of its own, does not count. */
static int takes_a_low_number(int low) {
    int fd = become_nobody() ? open(DP_DEVICE, O_RDWR) : -1;
    if (fd < 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return 1;
    if (ioctl(fd, DP_IOC_OPEN, &(struct dp_ioc_open){low, 0, 0}) != -1 || errno != EACCES)
        return 2;
    return dp_new(low, 0, 0) >= 0 ? 0 : 3;
}

static void namespaces(void) {
    int fd = dp_new(4200, 0, O_NONBLOCK), from = dp_new(0, 0, 0);
    dp_aim(from, 4200);
    OK(child_says(elsewhere, 4200) == 0, "another network namespace has its own numbers");
    FAILS(EAGAIN, read(fd, buf, 9), "nothing came from there");
    OK(child_says(keeps_its_namespace, from) == 0 && read(fd, buf, 9) == 5, "an endpoint stays where it was opened");
    close(fd);
    close(from);
    OK(child_says(takes_a_low_number, 1) == 0, "the right to a number below 1024 is that of whoever opened the device");
}

static void killing(void) {
    int to = dp_new(4300, 65536, 0);
    bool good = true;
    for (int round = 0; round < 10; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            int fd = dp_new(0, 4096, 0);
            dp_aim(fd, 4300);
            for (uint64_t i = 0;; i++) {
                number(buf, i, 8 + i % 100);
                write(fd, buf, 8 + i % 100);
            }
        }
        uint64_t i = 0;
        for (; i < 200 + (uint64_t)round * 37; i++)
            good &= read(to, buf, sizeof buf) == (ssize_t)(8 + i % 100) && is_number(buf, i, 8 + i % 100);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        for (; ready(to, POLLIN, 0); i++)
            good &= read(to, buf, sizeof buf) == (ssize_t)(8 + i % 100) && is_number(buf, i, 8 + i % 100);
    }
    OK(good, "what a killed sender had sent is there, whole and in order");
    close(to);
    int from = dp_new(0, 4096, 0);
    dp_aim(from, 4301);
    for (int round = 0; round < 10; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            int fd = dp_new(4301, 4096, 0);
            while (read(fd, buf, sizeof buf) >= 0)
                ;
        }
        for (int i = 0; i < 500; i++)
            good &= write(from, buf, 100) == 100;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    OK(good, "a killed receiver is a missing target");
    close(from);
}

int main(void) {
    children();
    passing();
    threads();
    closing();
    beside_a_large_one();
    namespaces();
    killing();
    return tap_end();
}
