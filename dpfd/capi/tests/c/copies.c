/* Copies of descriptors: dup, fork, numbers that change their meaning, openers that go away. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static int number_of(int fd) { return (int)stat_of(fd).dpid; }

static void dup_is_the_same_endpoint(void) {
    int to = endpoint(0), fd = endpoint(number_of(to)), copy = dup(fd);
    CHECK(number_of(copy) == number_of(fd));
    CHECK(dp_write(copy, "a", 1) == 1);
    expect(to, "a");
    int high = fcntl(fd, F_DUPFD, 700);
    CHECK(close(fd) == 0 && dp_close(copy) == 0);
    CHECK(dp_write(high, "b", 1) == 1); /* the original's number is gone, the endpoint is not */
    expect(to, "b");
    int copied = dup(to); /* takes the original's number */
    CHECK(copied == fd && number_of(copied) == number_of(to));
    CHECK(dp_write(high, "c", 1) == 1);
    expect(copied, "c");
    CHECK(close(copied) == 0);
    int again = dp_open(0); /* takes it once more */
    CHECK(again == fd && number_of(again) != number_of(high));
    FAILS(dp_write(again, "x", 1), EDESTADDRREQ, "no target");
    CHECK(dp_write(high, "d", 1) == 1);
    expect(to, "d");
    CHECK(dup2(high, again) == again && dp_close(high) == 0);
    CHECK(dp_write(again, "e", 1) == 1);
    expect(to, "e");
    CHECK(dp_close(again) == 0 && dp_close(to) == 0);
}

static void many_come_and_go(void) {
    int low = dup(0), to = endpoint(0);
    CHECK(close(low) == 0);
    for (int i = 0; i < 300; i++) {
        int fd = endpoint(number_of(to));
        CHECK(dp_write(fd, "x", 1) == 1);
        expect(to, "x");
        CHECK((i % 2 ? dp_close(fd) : close(fd)) == 0);
    }
    CHECK(dp_close(to) == 0);
    /* What each of them had is given back, a moment later. */
    int fd = -1;
    for (int tries = 0; tries < 2000; tries++) {
        usleep(1000);
        fd = dup(0);
        CHECK(close(fd) == 0);
        int open_ones = 0;
        for (int i = 0; i < 1000; i++) open_ones += fcntl(i, F_GETFD) >= 0;
        if (open_ones < 40) return;
    }
    CHECK(!"descriptors are left");
}

/* Messages that waited when the last descriptor was closed are nobody's, and not what comes from its number. */
static void closed_with_messages(void) {
    for (int moved = 0; moved < 2; moved++) {
        int to = endpoint(0), fd = endpoint(number_of(to));
        if (moved) to = out_of_the_way(to);
        CHECK(dp_write(fd, "first", 5) == 5);
        expect(to, "first"); /* in place from here on */
        CHECK(dp_write(fd, "second", 6) == 6);
        if (moved) CHECK(close(to) == 0);
        else make_null(to);
        char *at;
        ssize_t n = dp_read(to, &at);
        /* One that is at hand may still come: the kernel is not asked for it. */
        if (n == 6) n = dp_read(to, &at);
        CHECK(n == -1 && errno == (moved ? EBADF : ENOTSOCK));
        CHECK(strstr(dp_errno_text(), moved ? "not open" : "no endpoint"));
        CHECK((moved || close(to) == 0) && dp_close(fd) == 0);
    }
}

/* A child of a fork sends and receives plainly; the parent's service carries it. */
static void fork_is_plain(void) {
    int to = endpoint(0), fd = endpoint(number_of(to));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *at;
        CHECK(stat_of(fd).own == 0);
        FAILS(dp_target(fd, 0, 2000), EOPNOTSUPP, "opened by another process");
        FAILS(dp_sendto(fd, "x", 1, 0, 2000), EOPNOTSUPP, "opened by another process");
        CHECK(dp_write(fd, "from the child", 14) == 14);
        CHECK(dp_write(fd, "", 0) == 0);
        CHECK(dp_read(fd, &at) == 4 && memcmp(at, "pong", 4) == 0);
        int nid = -1, dpid = -1;
        CHECK(dp_peer(fd, &nid, &dpid) == 0 && nid == 0 && dpid > 0);
        CHECK(stat_of(fd).loaned == 1 && dp_fsync(fd, 1) == 0);
        char into[8] = "????";
        nid = dpid = -1;
        CHECK(dp_recvfrom(fd, into, 3, &nid, &dpid) == 6 && memcmp(into, "cop?", 4) == 0);
        CHECK(nid == 0 && dpid > 0 && stat_of(fd).loaned == 0);
        FAILS(dp_fsync(fd, 1), EINVAL, "only 0");
        CHECK(dp_option(fd, DP_OPT_NONBLOCK, 1) == 0);
        FAILS(dp_read(fd, &at), EAGAIN, "at the moment");
        FAILS(dp_recvfrom(fd, into, 3, NULL, NULL), EAGAIN, "at the moment");
        /* Endpoints of its own, with a number that the parent used, too. */
        CHECK(dp_close(fd) == 0);
        int a = endpoint(0), b = endpoint(number_of(a));
        CHECK(stat_of(a).own == 1 && dp_write(b, "own", 3) == 3);
        expect(a, "own");
        _exit(0);
    }
    expect(to, "from the child");
    expect(to, "");
    CHECK(dp_sendto(to, "pong", 4, 0, number_of(fd)) == 4);
    CHECK(dp_sendto(to, "copied", 6, 0, number_of(fd)) == 6);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(dp_close(fd) == 0 && dp_close(to) == 0);
}

/* With the process that opened an endpoint it ends, wherever copies are. */
static void the_opener_goes(int ready[2]) {
    int gone[2];
    CHECK(pipe(gone) == 0);
    pid_t opener = fork();
    if (opener == 0) {
        int fd = endpoint(0);
        pid_t heir = fork();
        if (heir > 0) {
            CHECK(read(gone[0], &heir, 1) == 1); /* the heir is set up */
            kill(getpid(), SIGKILL);
        }
        char *at, one = 1;
        CHECK(write(gone[1], &one, 1) == 1);
        int n = dp_read(fd, &at), e = errno;
        char ok = n == -1 && e == EPIPE && strstr(dp_errno_text(), "has ended") && dp_write(fd, "x", 1) == -1;
        CHECK(write(ready[1], &ok, 1) == 1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(opener, &status, 0) == opener && WIFSIGNALED(status));
    struct pollfd p = {ready[0], POLLIN, 0};
    char ok = 0;
    CHECK(poll(&p, 1, 5000) == 1); /* else the heir holds what it waits for */
    CHECK(read(ready[0], &ok, 1) == 1 && ok);
}

int main(int argc, char **argv) {
    int ready[2];
    CHECK(pipe(ready) == 0);
    if (argc > 1 && strcmp(argv[1], "opener") == 0) {
        the_opener_goes(ready);
    } else {
        dup_is_the_same_endpoint();
        many_come_and_go();
        closed_with_messages();
        fork_is_plain();
    }
    puts("ok");
    return 0;
}
