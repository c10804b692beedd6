// SPDX-License-Identifier: MIT OR Apache-2.0
// soak [SECONDS]: senders and receivers in several network namespaces, killed at any moment and started anew. Messages of
// all sizes, pools of all sizes, endpoints read plainly and in place and given to other processes. Each message is
// compared with what its sender wrote, and follows its sender's last one. At the end no sender waits without a reason.
#define _GNU_SOURCE
#include "nodes.h"
#include "place.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum {
    SPACES = 3,
    RECEIVERS = 9,
    SENDERS = 9,
    ROLES = RECEIVERS + SENDERS + 2,
    FIRST = 6000,
    LARGEST = 300000,
    SEEN = 4096,
};

#define OURS 0x736f616b
#define STRANGE 0x77687921

struct head {
    uint32_t magic, sender, seq, len;
};

/* What all processes see. */
static struct shared {
    atomic_bool stop, broken;
    /* When frames between the nodes were last seen by somebody. */
    _Atomic double untapped;
    atomic_uint senders;
    atomic_ulong sent, received, bytes, in_place, given, remote, refused;
    char words[256];
} *all;

/* What a receiver has of each sender; given away with the endpoint. */
static struct seen {
    uint32_t sender, next;
} seen[SEEN];

static struct node spaces[SPACES];
static unsigned char pattern[LARGEST + 4096], buf[LARGEST];
static unsigned seed;
static pid_t pids[ROLES];
/* Who sees the frames between the nodes. */
static int tap = -1;

static unsigned r(unsigned below) {
    return (unsigned)rand_r(&seed) % below;
}

/* The first is what counts. */
static void __attribute__((format(printf, 1, 2))) broken(const char *format, ...) {
    va_list args;
    if (!atomic_exchange(&all->broken, true)) {
        va_start(args, format);
        vsnprintf(all->words, sizeof all->words, format, args);
        va_end(args);
    }
    _exit(1);
}

static const unsigned char *content(uint32_t sender, uint32_t seq) {
    return pattern + (sender * 31 + seq * 7) % 4096;
}

/* ---- receivers ---- */

static void check(const unsigned char *m, size_t len) {
    struct head h;
    if (len < sizeof h)
        broken("a message of %zu bytes", len);
    memcpy(&h, m, sizeof h);
    if (h.magic != OURS || h.len != len)
        broken("a message of %zu bytes that says it is of kind %x with %u", len, h.magic, h.len);
    if (memcmp(m + sizeof h, content(h.sender, h.seq), len - sizeof h))
        broken("message %u of sender %x, %zu bytes, is not what was sent", h.seq, h.sender, len);
    struct seen *s = &seen[h.sender % SEEN];
    bool far = h.sender >> 31;
    /* Where frames were the way just now, one of them may come late (dp(4)). */
    bool late = far && now() - all->untapped < 2;
    if (s->sender == h.sender && !late && (far ? h.seq < s->next : h.seq != s->next))
        broken("message %u of sender %x came where %u was next", h.seq, h.sender, s->next);
    *s = (struct seen){h.sender, h.seq + 1};
    all->received++;
    all->bytes += len;
    all->remote += far;
}

/* Hands the endpoint over, and what was seen on it. */
static void give(int to, int fd) {
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.h = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec v = {seen, sizeof seen};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.h), &fd, sizeof fd);
    if (sendmsg(to, &m, 0) != sizeof seen)
        broken("an endpoint cannot be given: %s", strerror(errno));
    all->given++;
}

static int get(int from) {
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec v = {seen, sizeof seen};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int fd;
    if (recvmsg(from, &m, MSG_WAITALL) != sizeof seen)
        _exit(0);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

/* Until so many messages have come, or for ever. */
static void receive(int fd, long messages, bool in_place) {
    struct pool pool = {0};
    unsigned batch = 1 + r(20);
    size_t len;
    if (in_place && !pool_open(&pool, fd, 0))
        broken("no reading in place: %s", strerror(errno));
    for (long i = 0; i != messages; i++) {
        if (r(200) == 0)
            pause_ms(r(20));
        if (in_place) {
            unsigned char *m = take(&pool, &len, NULL);
            /* The next one may be waiting for the room of these. */
            if (!m) {
                release(&pool);
                m = take_wait(&pool, &len, NULL);
            }
            if (!m)
                broken("nothing in place: %s", strerror(errno));
            check(m, len);
            if (pool.apart || i % batch == 0 || i + 1 == messages)
                release(&pool);
            all->in_place++;
            continue;
        }
        while (r(2) && !ready(fd, POLLIN, 50))
            ;
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0)
            broken("read: %s", strerror(errno));
        check(buf, n);
    }
    if (in_place)
        pool_unmap(&pool);
}

static uint64_t some_size(void) {
    static const uint64_t sizes[] = {0, 4096, 5000, 16384, 65536, 1 << 20};
    return sizes[r(6)];
}

static void receiver(int slot) {
    bool in_place = r(2);
    int fd, s[2];
    /* Who had the number may not be quite dead. */
    while ((fd = dp_new(FIRST + slot, some_size(), 0)) < 0) {
        if (errno != EADDRINUSE)
            broken("number %d: %s", FIRST + slot, strerror(errno));
        pause_ms(2);
    }
    if (r(2))
        receive(fd, -1, in_place);
    /* An heir, who has the endpoint only by what comes over the socket. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s))
        broken("socketpair: %s", strerror(errno));
    if (fork() == 0) {
        close(fd);
        close(s[0]);
        receive(get(s[1]), -1, in_place || r(2));
    }
    close(s[1]);
    receive(fd, r(300), in_place);
    give(s[0], fd);
    _exit(0);
}

/* ---- senders ---- */

static size_t some_length(size_t most) {
    static const size_t bounds[] = {200, 200, 200, 200, 4000, 4000, 4000, 60000, 60000, LARGEST};
    size_t bound = bounds[r(r(5) ? 7 : 10)];
    return sizeof(struct head) + r((bound < most ? bound : most) - sizeof(struct head));
}

/* One of three ways; false: not now. */
static bool sends(int fd, const void *message, size_t len, unsigned nid, unsigned dpid, unsigned way) {
    struct dp_ioc_sendto s = {(uintptr_t)message, len, {nid, dpid}, way == 2 ? DP_SEND_NOWAIT : 0, 0};
    long n = way == 0 && nid == 0 ? dp_aim(fd, dpid) ? -1 : write(fd, message, len) : ioctl(fd, DP_IOC_SENDTO, &s);
    if (n < 0 && way == 2 && errno == EAGAIN) {
        all->refused++;
        ready(fd, POLLOUT, r(50));
        return false;
    }
    if (n != (long)len)
        broken("sending %zu bytes to %u/%u: %ld, %s", len, nid, dpid, n, strerror(errno));
    return true;
}

static void sender(int space) {
    uint32_t me = ++all->senders, seq[2][RECEIVERS] = {0};
    int fd = dp_new(0, some_size(), 0);
    if (fd < 0)
        broken("a sender: %s", strerror(errno));
    while (!all->stop) {
        /* The first two namespaces are nodes; what is for the other one may be lost on its way. */
        bool far = space < 2 && r(8) == 0;
        int to = r(RECEIVERS / SPACES) * SPACES + (far ? !space : space);
        uint32_t *next = &seq[far][to];
        struct head h = {OURS, me | (uint32_t)far << 31, *next, some_length(far ? 60000 : LARGEST)};
        memcpy(buf, &h, sizeof h);
        memcpy(buf + sizeof h, content(h.sender, h.seq), h.len - sizeof h);
        if (sends(fd, buf, h.len, far ? spaces[!space].nid : 0, FIRST + to, r(3))) {
            ++*next;
            all->sent++;
        }
    }
    _exit(0);
}

/* Another user: refused, or left at a number that nobody has opened and never read. */
static void stranger(void) {
    struct head h = {STRANGE, 0, 0, sizeof h};
    if (!become_nobody())
        broken("cannot be nobody");
    for (;;) {
        int fd = dp_new(0, 4096, 0);
        for (int i = 0; i < 20; i++) {
            struct dp_ioc_sendto s = {(uintptr_t)&h, sizeof h, {0, FIRST + r(RECEIVERS)}, DP_SEND_NOWAIT, 0};
            if (ioctl(fd, DP_IOC_SENDTO, &s) < 0 && errno != EACCES && errno != EAGAIN)
                broken("a stranger's message: %s", strerror(errno));
            pause_ms(1);
        }
        close(fd);
    }
}

/* Lines of /proc/net/dp below the first. */
static int listed(void) {
    char line[512];
    int n = -1;
    FILE *f = fopen("/proc/thread-self/net/dp", "r");
    while (f && fgets(line, sizeof line, f))
        n++;
    if (f)
        fclose(f);
    return n;
}

static void watcher(void) {
    for (;; pause_ms(5))
        if (listed() < 0)
            broken("no list");
}

/* ---- who starts and ends them ---- */

static void start(int role) {
    fflush(stdout);
    unsigned start = r(1 << 30);
    pid_t pid = fork();
    if (pid) {
        pids[role] = pid;
        setpgid(pid, pid);
        return;
    }
    setpgid(0, 0);
    close(tap);
    seed = start;
    int space = role < RECEIVERS + SENDERS ? role % SPACES : (int)r(SPACES);
    if (!enter(&spaces[space]))
        broken("no namespace");
    if (role < RECEIVERS)
        receiver(role);
    else if (role < RECEIVERS + SENDERS)
        sender(space);
    else if (role == ROLES - 1)
        stranger();
    watcher();
}

static bool is_sender(int role) {
    return role >= RECEIVERS && role < RECEIVERS + SENDERS;
}

/* Of those that have ended, also heirs. */
static void reap(void) {
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* With its heir, who may come a while later. */
static void end(int role, int later) {
    kill(pids[role], SIGKILL);
    if (later)
        pause_ms(later);
    kill(-pids[role], SIGKILL);
    reap();
}

static bool all_are_gone(void) {
    for (int i = 0; i < SPACES; i++)
        if (!enter(&spaces[i]) || listed() != 0)
            return false;
    return true;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 10, until = now() + seconds, patience = 60;
    int kills = 0;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seed = time(NULL);
    printf("# seed %u\n", seed);
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = r(256);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    bool good = node_new(&spaces[2], 3) && node_new(&spaces[0], 1) && node_new(&spaces[1], 2);
    OK(good && connect_nodes(&spaces[0], "v0", &spaces[1], "v1", 1500), "%d namespaces, two of them nodes", SPACES);
    for (int role = 0; role < ROLES; role++)
        start(role);
    while (now() < until && !all->broken) {
        pause_ms(r(seconds < 5 ? 40 : 150));
        int role = r(ROLES);
        end(role, r(4) ? 0 : 1 + r(20));
        start(role);
        kills++;
        /* Now and then somebody watches: then there are frames. */
        if (r(8) == 0) {
            bool watched = tap >= 0;
            all->untapped = now();
            close(tap);
            tap = watched ? -1 : watch(&spaces[0], "v0", ETH_P_ALL);
        }
    }
    close(tap);
    /* Nobody is killed any more, and all receivers are there: each sender comes to the end of its message. */
    for (int role = 0; role < RECEIVERS; role++) {
        end(role, 0);
        start(role);
    }
    all->stop = true;
    int waiting = SENDERS;
    for (until = now() + patience; waiting && now() < until; pause_ms(10)) {
        reap();
        waiting = 0;
        for (int role = 0; role < ROLES; role++)
            waiting += is_sender(role) && kill(pids[role], 0) == 0;
    }
    OK(!all->broken, "%lu messages sent, %lu received, %lu MiB, %d kills, %s", all->sent, all->received,
       all->bytes >> 20, kills, all->broken ? all->words : "each as it was sent");
    OK(!waiting, "no sender waits for ever");
    printf("# in place %lu, from the other node %lu, refused for want of room %lu, endpoints given away %lu, senders %u\n",
           all->in_place, all->remote, all->refused, all->given, all->senders);
    long long spared = counter(&spaces[0], "messages-without-frames"), out = counter(&spaces[0], "messages-out");
    OK(spared > 0 && spared < out, "from one node to the other %lld messages, %lld of them without frames", out, spared);
    OK(all->received && all->in_place && all->remote && all->refused && all->given, "all of it took place");
    for (int role = 0; role < ROLES; role++)
        end(role, 0);
    for (until = now() + patience; !(good = all_are_gone()) && now() < until; pause_ms(50))
        reap();
    OK(good, "no endpoint is left");
    /* What was left for numbers that nobody opened outlives its senders by ten seconds. */
    sleep(12);
    return tap_end();
}
