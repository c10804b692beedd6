/* Two processes: ping-pong, in place and copied, all sizes. Its argument: how many round trips. */
#include "check.h"
#include <sys/wait.h>

enum { SERVER = 2101, CLIENT = 2102 };
static const size_t sizes[] = {0, 1, 8, 56, 57, 1000, 4096, 70000, 200000, 1 << 20, DP_MESSAGE_MAX};
static char out[DP_MESSAGE_MAX], back[DP_MESSAGE_MAX];

static void fill(size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) out[i] = (char)(i * 31 + seed);
}

static int server(int rounds) {
    int fd = dp_open(SERVER), nid, dpid;
    CHECK(fd >= 0);
    for (int i = 0; i < rounds; i++) {
        char *at;
        if (i % 3 == 0) {
            nid = dpid = -1;
            ssize_t n = dp_recvfrom(fd, out, sizeof out, &nid, &dpid);
            CHECK(n >= 0 && nid == 0 && dpid == CLIENT && stat_of(fd).loaned == 0);
            CHECK(dp_sendto(fd, out, n, nid, dpid) == n);
            continue;
        }
        ssize_t n = dp_read(fd, &at);
        CHECK(n >= 0 && at != NULL);
        CHECK(dp_peer(fd, &nid, &dpid) == 0 && nid == 0 && dpid == CLIENT);
        CHECK(dp_sendto(fd, at, n, nid, dpid) == n);
        CHECK(dp_fsync(fd, 1) == 0);
    }
    CHECK(dp_close(fd) == 0);
    return 0;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, of_each = sizeof sizes / sizeof *sizes;
    pid_t child = fork(); /* before the first call: each has its own library */
    if (child == 0) return server(rounds + 2 * of_each);
    int fd = dp_open(CLIENT);
    CHECK(fd >= 0 && dp_target(fd, 0, SERVER) == 0); /* which may not be there yet */
    char *at;
    for (int i = 0; i < rounds; i++) {
        CHECK(dp_write(fd, &i, sizeof i) == sizeof i);
        CHECK(dp_read(fd, &at) == sizeof i && memcmp(at, &i, sizeof i) == 0);
        CHECK(dp_fsync(fd, 1) == 0);
    }
    for (int i = 0; i < of_each; i++) {
        fill(sizes[i], i);
        CHECK(dp_write(fd, out, sizes[i]) == (ssize_t)sizes[i]);
        CHECK(dp_read(fd, &at) == (ssize_t)sizes[i] && at != NULL && memcmp(at, out, sizes[i]) == 0);
        CHECK(dp_fsync(fd, 1) == 0);
    }
    for (int i = 0; i < of_each; i++) {
        fill(sizes[i], i);
        CHECK(dp_write(fd, out, sizes[i]) == (ssize_t)sizes[i]);
        size_t room = sizes[i] / 2; /* the rest is gone, and said to be */
        memset(back, '?', sizeof back);
        CHECK(dp_recvfrom(fd, back, room, NULL, NULL) == (ssize_t)sizes[i]);
        CHECK(memcmp(back, out, room) == 0 && back[room] == '?');
    }
    dpstat_t st = stat_of(fd);
    CHECK(st.sent == (uint64_t)rounds + 2 * of_each && st.loaned == 0 && st.next_len == -1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}
