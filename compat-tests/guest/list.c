// SPDX-License-Identifier: MIT OR Apache-2.0
// /proc/net/dp: who is in it, what it tells to whom, and that it survives what happens meanwhile.
#define _GNU_SOURCE
#include "tap.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define LIST "/proc/net/dp"
#define COLUMNS 15
#define MANY 5000

enum { DPID, UID, TARGET, SENT, SENT_BYTES, PARKED, LOST, RECEIVED, RECEIVED_BYTES, FULL, CORRUPT, POOL, LEFT, NEXT, IN_PLACE };

static char text[4 << 20], buf[65536];

/* All of it, by reads of this size; how many bytes. */
static size_t read_all(int fd, char *to, size_t piece) {
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(fd, to + n, piece)) > 0;)
        n += got;
    to[n] = 0;
    return n;
}

static size_t read_list(char *to, size_t piece) {
    int fd = open(LIST, O_RDONLY);
    size_t n = read_all(fd, to, piece);
    close(fd);
    return n;
}

/* The columns of an endpoint in what was read; "-" is -2. */
static bool line_in(const char *list, unsigned dpid, long long column[COLUMNS]) {
    for (const char *at = strchr(list, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        char word[COLUMNS][24];
        int n = 0, used = 0;
        const char *rest = at + 1;
        for (; n < COLUMNS && sscanf(rest, "%23s%n", word[n], &used) == 1; n++)
            rest += used;
        if (n != COLUMNS || strtoul(word[0], NULL, 10) != dpid)
            continue;
        for (int i = 0; i < COLUMNS; i++)
            column[i] = strcmp(word[i], "-") ? atoll(word[i]) : -2;
        return *rest == '\n';
    }
    return false;
}

static bool line(unsigned dpid, long long column[COLUMNS]) {
    read_list(text, sizeof text - 1);
    return line_in(text, dpid, column);
}

static bool listed(unsigned dpid) {
    long long c[COLUMNS];
    return line(dpid, c);
}

static bool as_stat_says(int fd) {
    struct dp_ioc_stat s = dp_stat(fd);
    long long c[COLUMNS];
    const long long want[COLUMNS] = {s.dpid, geteuid(), s.target_dpid, s.sent, s.sent_bytes, s.backlog, s.lost, s.received,
                                     s.received_bytes, s.full, s.corrupt, s.pool, s.pool_left, s.next_len, s.in_place};
    return line(s.dpid, c) && !memcmp(c, want, sizeof c);
}

static void lines(void) {
    char word[16] = "";
    read_list(text, sizeof text - 1);
    OK(sscanf(text, "%15s", word) == 1 && !strcmp(word, "dpid") && strlen(text) == strcspn(text, "\n") + 1,
       "without endpoints: a header and nothing else");
    struct stat st;
    OK(!stat(LIST, &st) && (st.st_mode & 0777) == 0444, "everybody may read it, nobody write");
    int fd = open(DP_DEVICE, O_RDWR);
    size_t before = strlen(text);
    OK(read_list(text, sizeof text - 1) == before, "an open file without a number has no line");
    struct dp_ioc_open o = {4400, 0, 65536};
    OK(!ioctl(fd, DP_IOC_OPEN, &o) && as_stat_says(fd), "with its number it has one");
    size_t width = strcspn(text, "\n");
    OK(strlen(text) == 2 * (width + 1) && text[2 * width + 1] == '\n', "as wide as the header");
    int again = dup(fd);
    close(fd);
    OK(listed(4400), "it stays with the last descriptor");
    close(again);
    OK(read_list(text, sizeof text - 1) == before, "and goes with it");
}

static void counters(void) {
    int p[2];
    long long c[COLUMNS], d[COLUMNS];
    dp_pair(p, 65536, O_NONBLOCK);
    for (int i = 0; i < 10; i++)
        write(p[0], buf, 100 + i);
    for (int i = 0; i < 4; i++)
        read(p[1], buf, 200);
    OK(line(dp_number(p[0]), c) && line(dp_number(p[1]), d), "both ends have a line");
    OK(c[SENT] == 10 && c[SENT_BYTES] == 1045 && c[RECEIVED] == 0 && c[TARGET] == d[DPID] && c[LEFT] == c[POOL] && c[NEXT] == -1,
       "ten messages sent");
    OK(d[RECEIVED] == 4 && d[RECEIVED_BYTES] == 406 && d[SENT] == 0 && d[POOL] == 65536 && d[LEFT] < d[POOL] && d[NEXT] == 104,
       "four received, the next is waiting");
    dp_send_to(p[0], "x", 1, 0, 4401);
    OK(line(dp_number(p[0]), c) && c[PARKED] == 1 && c[SENT] == 11 && !listed(4401),
       "a number with messages that nobody has opened is no endpoint");
    while (write(p[0], buf, 9000) == 9000)
        ;
    OK(line(dp_number(p[0]), c) && c[FULL] > 0, "a full pool is counted");
    struct dp_ioc_pool in_place = {0, 0, 0};
    OK(!ioctl(p[1], DP_IOC_POOL, &in_place) && line(dp_number(p[1]), d) && d[IN_PLACE] == 1, "reading in place shows");
    OK(as_stat_says(p[0]) && as_stat_says(p[1]), "all as DP_IOC_STAT says");
    int to = dp_new(4401, 0, 0);
    OK(as_stat_says(to) && line(dp_number(p[0]), c) && c[PARKED] == 0, "once opened it is one");
    close(to);
    close2(p);
}

static int sees_no_counters(int other) {
    if (!become_nobody())
        return 1;
    long long c[COLUMNS];
    if (!line(other, c) || c[DPID] != other || c[UID] != 0)
        return 2;
    for (int i = TARGET; i < COLUMNS; i++)
        if (c[i] != -2)
            return 3;
    int own = dp_new(0, 4096, 0);
    return own >= 0 && as_stat_says(own) ? 0 : 4;
}

static int opens_it_for(int other) {
    long long c[COLUMNS];
    if (setegid(NOBODY) || seteuid(NOBODY))
        return 1;
    int fd = open(LIST, O_RDONLY);
    if (seteuid(0) || setegid(0))
        return 2;
    read_all(fd, text, sizeof text - 1);
    return line_in(text, other, c) && c[SENT] == -2 && as_stat_says(dp_new(0, 0, 0)) ? 0 : 3;
}

static int sees_other_users(int arg) {
    (void)arg;
    fflush(stdout);
    int ready_pipe[2], n = 0;
    long long c[COLUMNS];
    if (pipe(ready_pipe))
        return 1;
    pid_t child = fork();
    if (!child) {
        if (!become_nobody())
            _exit(1);
        n = dp_number(dp_new(0, 8192, 0));
        write(ready_pipe[1], &n, sizeof n);
        pause();
    }
    bool good = read(ready_pipe[0], &n, sizeof n) == sizeof n && line(n, c) && c[UID] == NOBODY && c[POOL] == 8192;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return good && !listed(n) ? 0 : 2;
}

static void users(void) {
    int fd = dp_new(4402, 0, 0);
    OK(child_says(sees_no_counters, 4402) == 0, "another user sees number and user of it, and all of its own");
    OK(child_says(opens_it_for, 4402) == 0, "who opened the list counts, not who reads it");
    OK(child_says(sees_other_users, 0) == 0, "root sees all, and a killed process's endpoint goes with it");
    close(fd);
}

static int sees_its_own(int flags) {
    if (unshare(CLONE_NEWNET | flags))
        return 1;
    size_t header = read_list(text, sizeof text - 1);
    if (header != strcspn(text, "\n") + 1)
        return 2;
    int own = dp_new(4404, 4096, 0);
    long long c[COLUMNS];
    if (own < 0 || !line(4404, c) || c[POOL] != 4096 || strlen(text) != 2 * header)
        return 3;
    /* Where no user is mapped they are all nobody. */
    return c[UID] == (flags ? NOBODY : 0) ? 0 : 4;
}

static int opens_it_here(int here) {
    int fd = open(LIST, O_RDONLY);
    if (unshare(CLONE_NEWNET))
        return 1;
    read_all(fd, text, 50);
    long long c[COLUMNS];
    return line_in(text, here, c) && !listed(here) ? 0 : 2;
}

static void namespaces(void) {
    int fd = dp_new(4403, 0, 0);
    OK(child_says(sees_its_own, 0) == 0, "another network namespace sees its own endpoint, and no other");
    OK(!listed(4404) && listed(4403), "which is not seen from here");
    OK(child_says(sees_its_own, CLONE_NEWUSER) == 0, "users are told as the reader's namespace calls them");
    OK(child_says(opens_it_here, 4403) == 0, "an open list stays with its namespace");
    bool good = true;
    for (int i = 0; i < 30; i++)
        good &= child_says(sees_its_own, 0) == 0;
    OK(good, "30 namespaces come and go");
    close(fd);
}

static void pieces(void) {
    static char other[4 << 20];
    int fds[40];
    for (int i = 0; i < 40; i++)
        fds[i] = dp_new(0, 4096, 0);
    size_t n = read_list(text, sizeof text - 1);
    bool good = n > 40 * 100;
    for (size_t piece = 1; piece < 400; piece += 1 + piece / 3)
        good &= read_list(other, piece) == n && !memcmp(text, other, n);
    OK(good, "in pieces of 1 to 400 bytes it is the same");
    int fd = open(LIST, O_RDONLY);
    for (size_t at = 0; at < n; at += 333) {
        ssize_t got = pread(fd, other, sizeof other, at);
        good &= got > 0 && (size_t)got <= n - at && !memcmp(text + at, other, got);
    }
    OK(good && pread(fd, other, 9, n) == 0, "from anywhere in it, too");
    lseek(fd, 0, SEEK_SET);
    read(fd, other, 200);
    for (int i = 0; i < 39; i++)
        close(fds[i]);
    n = read_all(fd, other, 100);
    long long c[COLUMNS];
    OK(n > 0 && n < 400 && line_in(other, dp_number(fds[39]), c), "endpoints that went in the middle of it are left out");
    close(fds[39]);
    close(fd);
}

static volatile bool over;
static volatile unsigned long comings;

/* Odd numbers; the even ones stay. */
static void *come_and_go(void *arg) {
    unsigned r = (uintptr_t)arg * 7919 + 1;
    while (!over) {
        int fd[8];
        for (int i = 0; i < 8; i++) {
            r = r * 1664525 + 1013904223;
            fd[i] = dp_new(20001 + 2 * (r >> 8) % (2 * MANY), 4096, 0);
        }
        for (int i = 0; i < 8; i++)
            if (fd[i] >= 0)
                close(fd[i]);
        __atomic_fetch_add(&comings, 8, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Every number once, in order, and all that stay. */
static bool whole(const char *list, int *seen) {
    unsigned last = 0;
    int stay = 0;
    *seen = 0;
    for (const char *at = strchr(list, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        unsigned n = strtoul(at + 1, NULL, 10);
        if (n <= last)
            return false;
        last = n;
        stay += n % 2 == 0 && n >= 20000 && n < 20000 + 2 * MANY;
        ++*seen;
    }
    return stay == MANY;
}

static void many(void) {
    static int fd[MANY];
    struct rlimit most = {MANY + 200, MANY + 200};
    pthread_t t[3];
    bool good = !setrlimit(RLIMIT_NOFILE, &most);
    double begin = now();
    for (int i = 0; i < MANY; i++)
        good &= (fd[i] = dp_new(20000 + 2 * i, 4096, 0)) >= 0;
    OK(good, "%d endpoints", MANY);
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, come_and_go, (void *)i);
    int seen = 0, most_seen = 0;
    static const size_t piece[] = {37, 200, 4096, 100000, sizeof text - 1};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        read_list(text, piece[i]);
        good &= whole(text, &seen);
        most_seen = seen > most_seen ? seen : most_seen;
    }
    over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    OK(good, "each is listed once, in order, while others come and go (%lu came, %d lines)", comings, most_seen);
    read_list(text, sizeof text - 1);
    OK(whole(text, &seen) && seen == MANY, "and those that went are gone");
    fflush(stdout);
    pid_t reader = fork();
    if (!reader) {
        /* Its descriptors would keep the endpoints. */
        for (int i = 0; i < MANY; i++)
            close(fd[i]);
        for (;;)
            read_list(text, 300);
    }
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    kill(reader, SIGKILL);
    waitpid(reader, NULL, 0);
    OK(read_list(text, 4096) == strcspn(text, "\n") + 1, "all closed while it is read: a header is left (%.1f s)", now() - begin);
}

int main(void) {
    lines();
    counters();
    users();
    namespaces();
    pieces();
    many();
    return tap_end();
}
