// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages between nodes, as frames over virtual Ethernet: in order, whole, and what is lost is counted.
#define _GNU_SOURCE
#include "across.h"
#include "nodes.h"

enum { TO = 4000, MTU = 1500 };

static struct node a, b, c;
static unsigned char buf[1 << 17];

static long send_away(int fd, const void *message, size_t len, const struct node *n, unsigned dpid) {
    return dp_send_to(fd, message, len, n->nid, dpid);
}

static void administration(void) {
    struct node n;
    OK(node_new(&a, 1) && node_new(&b, 2) && node_new(&c, 3), "three nodes");
    FAILS(EINVAL, set_nid(&c, 0), "no node is 0");
    FAILS(EINVAL, set_nid(&c, DP_NID_ALL), "nor all");
    FAILS(EXDEV, set_nid(&a, 1), "a node is numbered by who is there");
    FAILS(ENODEV, attach(&c, "none", 0), "an interface that is not there");
    FAILS(EPROTOTYPE, attach(&c, "lo", 0), "one that is no Ethernet");
    FAILS(EINVAL, attach(&c, "", 0), "one without a name");
    FAILS(EINVAL, attach(&c, "lo", 2), "flags that there are not");
    OK(cable(&a, "to-b", &b, "to-a") && bring_up(&a, "to-b", MTU) && bring_up(&b, "to-a", MTU) &&
           is_running(&a, "to-b") && is_running(&b, "to-a"),
       "a cable");
    FAILS(ENODEV, route(&a, "to-b", &b, "to-a"), "a route over an interface that is not attached");
    OK(!attach(&a, "to-b", 0), "an interface is attached");
    FAILS(EEXIST, attach(&a, "to-b", 0), "once");
    FAILS(EINVAL, forget_route(&a, 0), "a route to nowhere");
    FAILS(ENOENT, forget_route(&a, 2), "one that is not there");
    n = a;
    n.nid = 1;
    FAILS(EINVAL, route(&a, "to-b", &n, "to-b"), "one to itself");
    OK(!route(&a, "to-b", &b, "to-a") && !route(&a, "to-b", &b, "to-a"), "a route, and the same again");
    OK(!attach(&b, "to-a", 0) && !route(&b, "to-a", &a, "to-b"), "and the way back");
    struct dp_ioc_route group = {.nid = 9, .name = "to-b", .mac = {1}};
    enter(&a);
    FAILS(EINVAL, ioctl(a.control, DP_IOC_NART, &group), "no node is a group");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (!become_nobody())
            _exit(9);
        _exit(set_nid(&a, 7) == -1 && errno == EPERM && attach(&a, "to-b", DP_REMOVE) == -1 &&
                      forget_route(&a, 2) == -1 && errno == EPERM
                  ? 0
                  : 1);
    }
    int status;
    OK(waitpid(child, &status, 0) == child && status == 0, "and only by who may");
}

/* What was counted since the last begin_counting(). */
static const char *const counted[] = {"messages-out", "messages-in", "frames-out", "messages-without-frames",
                                      "frames-in", "malformed", "from-strangers", "for-other-nodes", "for-nobody", "of-other-users",
                                      "without-room", "stray-parts", "incomplete-messages"};
enum { COUNTED = sizeof counted / sizeof *counted, LOST = 5 };
static long long began[2][COUNTED];

static void begin_counting(void) {
    for (int i = 0; i < COUNTED; i++) {
        began[0][i] = counter(&a, counted[i]);
        began[1][i] = counter(&b, counted[i]);
    }
}

static long long more(const struct node *n, const char *name) {
    for (int i = 0; i < COUNTED; i++)
        if (!strcmp(counted[i], name))
            return counter(n, name) - began[n == &b][i];
    return -1;
}

/* Whether they go as frames, or there are none to be seen. */
static void messages(bool frames) {
    begin_counting();
    int to = endpoint_at(&b, TO, 1 << 20, O_NONBLOCK), fd = endpoint_at(&a, 0, 0, 0);
    struct dp_ioc_addr peer, target = {2, TO};
    bool good = !ioctl(fd, DP_IOC_TARGET, &target);
    OK(good && dp_stat(fd).target_nid == 2 && dp_stat(fd).target_dpid == TO, "a target on another node");
    OK(ready(fd, POLLOUT, 0) == POLLOUT, "for which there is room always");
    OK(write(fd, "hello", 5) == 5 && ready(to, POLLIN, 10000) == POLLIN && read(to, buf, 99) == 5 && !memcmp(buf, "hello", 5),
       "a message arrives");
    OK(!ioctl(to, DP_IOC_PEER, &peer) && peer.nid == 1 && peer.dpid == dp_number(fd), "and tells from whom");
    good = dp_send_to(to, "answer", 6, peer.nid, peer.dpid) == 6 && ready(fd, POLLIN, 10000) && read(fd, buf, 99) == 6;
    OK(good && !memcmp(buf, "answer", 6), "an answer goes back");
    OK(write(fd, "", 0) == 0 && ready(to, POLLIN, 10000) && read(to, buf, 99) == 0, "an empty message is one");
    good = true;
    uint64_t i;
    for (i = 0; i < 3000 && good; i++) {
        size_t len = i % 50 == 49 ? 1 + i * 21 : i % 3000;
        number(buf, i, len);
        good &= write(fd, buf, len) == (ssize_t)len && ready(to, POLLIN, 10000);
        good &= read(to, buf, sizeof buf) == (ssize_t)len && is_number(buf, i, len);
    }
    OK(good, "3000 of 0 to 62979 bytes, each whole (%lu)", i);
    for (i = 0; i < 5000 && good; i++) {
        number(buf, i, 20);
        good &= write(fd, buf, 20) == 20;
    }
    for (i = 0; i < 5000 && good; i++)
        good &= ready(to, POLLIN, 10000) && read(to, buf, 99) == 20 && is_number(buf, i, 20);
    OK(good, "5000 without waiting, in order");
    number(buf, 1, DP_REMOTE_MAX);
    OK(write(fd, buf, DP_REMOTE_MAX) == DP_REMOTE_MAX && ready(to, POLLIN, 10000) &&
           read(to, buf, sizeof buf) == DP_REMOTE_MAX && is_number(buf, 1, DP_REMOTE_MAX),
       "the longest");
    FAILS(EMSGSIZE, write(fd, buf, DP_REMOTE_MAX + 1), "one byte more");
    FAILS(EFAULT, dp_send_to(fd, (void *)8, 100, 2, TO), "nobody's memory");
    FAILS(EFAULT, dp_send_to(fd, (void *)8, 10000, 2, TO), "nor in parts");
    void *volatile nowhere = (void *)8;
    FAILS(EFAULT, write(fd, nowhere, 100), "nor to the target");
    FAILS(EHOSTUNREACH, dp_send_to(fd, "x", 1, 77, TO), "a node of which nobody knows where it is");
    FAILS(EINVAL, dp_send_to(fd, "x", 1, DP_NID_ALL + 1, TO), "no node");
    target.nid = 77;
    FAILS(EHOSTUNREACH, ioctl(fd, DP_IOC_TARGET, &target), "nor as a target");
    OK(dp_send_to(fd, "self", 4, 1, dp_number(fd)) == 4 && read(fd, buf, 99) == 4, "this node by its number is here");
    long long out = more(&a, "messages-out"), spared = more(&a, "messages-without-frames");
    OK(out == 8003 && dp_stat(fd).sent == 8004 && more(&b, "messages-in") == out,
       "all counted: %lld", out);
    OK(spared == (frames ? 0 : out), "%lld without frames", spared);
    good = more(&a, "frames-out") == more(&b, "frames-in") && more(&a, "frames-out") > out;
    for (i = LOST; i < COUNTED; i++)
        good &= more(&b, counted[i]) == 0;
    OK(good, "none lost");
    close(to);
    close(fd);
}

static void losses(void) {
    begin_counting();
    int fd = endpoint_at(&a, 0, 0, 0), to;
    OK(send_away(fd, "x", 1, &b, TO) == 1 && more(&b, "for-nobody") == 1, "a number that nobody has opened");
    to = endpoint_at(&b, TO, 64 << 10, O_NONBLOCK);
    bool good = true;
    for (int i = 0; i < 100; i++)
        good &= send_away(fd, buf, 1000, &b, TO) == 1000;
    long got = 0;
    while (read(to, buf, sizeof buf) == 1000)
        got++;
    OK(good && got > 40 && got < 64 && more(&b, "without-room") == 100 - got, "a pool that is full: %ld of 100", got);
    OK(send_away(fd, "y", 1, &b, TO) == 1 && read(to, buf, 9) == 1, "and the next arrives");
    OK(!forget_route(&b, 1) && send_away(fd, "x", 1, &b, TO) == 1 && more(&b, "from-strangers") == 1, "a stranger");
    OK(!route(&b, "to-a", &a, "to-b") && enter(&b) && !set_nid(&b, 5) && send_away(fd, "x", 1, &b, TO) == 1 &&
           more(&b, "for-other-nodes") == 1,
       "what is for another node");
    OK(enter(&b) && !set_nid(&b, 2), "which is this one again");
    close(to);
    fflush(stdout);
    int up[2], done[2];
    good = !pipe(up) && !pipe(done);
    pid_t child = fork();
    if (!child) {
        enter(&b);
        if (!become_nobody())
            _exit(9);
        int mine = dp_new(TO, 0, O_NONBLOCK);
        if (write(up[1], "", 1) != 1 || read(done[0], buf, 1) != 1)
            _exit(8);
        _exit(read(mine, buf, 9) == -1 && errno == EAGAIN ? 0 : 1);
    }
    good &= read(up[0], buf, 1) == 1 && send_away(fd, "x", 1, &b, TO) == 1 && more(&b, "of-other-users") == 1;
    good &= write(done[1], "", 1) == 1;
    int status;
    OK(waitpid(child, &status, 0) == child && status == 0 && good, "another user's endpoint");
    close2(up);
    close2(done);
    close(fd);
}

/* Frames that a program makes itself. */
static void hostile(void) {
    unsigned seed = 1;
    enter(&a);
    int s = socket(AF_PACKET, SOCK_DGRAM, 0), to = endpoint_at(&b, TO, 1 << 20, O_NONBLOCK);
    struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(DP_ETHER_TYPE), .sll_halen = 6};
    struct ifreq q = {0};
    enter(&b);
    iface_call(SIOCGIFHWADDR, "to-a", &q);
    memcpy(where.sll_addr, q.ifr_hwaddr.sa_data, 6);
    enter(&a);
    where.sll_ifindex = if_nametoindex("to-b");
    long long before = counter(&b, "frames-in"), sent = 0;
    for (int i = 0; i < 20000; i++) {
        unsigned char f[200];
        for (size_t k = 0; k < sizeof f; k++)
            f[k] = rand_r(&seed);
        /* Mostly almost right, so that all places are reached. */
        static const unsigned char right[] = {1, 0, 0, 100, 0, 1, 0, 9, 0, 2, TO >> 8, TO & 255, 0, 0, 0, 0};
        if (i % 4)
            memcpy(f, right, sizeof right);
        if (i % 8 > 2) {
            memset(f + 20, 0, 12);
            f[19] = i / 64; /* the message, a few frames each */
            f[22] = 2;      /* of 512 bytes */
            f[26] = rand_r(&seed) % 3 / 2;
            f[27] = rand_r(&seed) % 6 * 100;
        }
        size_t len = i % 16 ? sizeof f : (size_t)rand_r(&seed) % sizeof f;
        sent += sendto(s, f, len, 0, (void *)&where, sizeof where) == (ssize_t)len;
        if (i % 100 == 0)
            while (read(to, buf, sizeof buf) >= 0)
                ;
    }
    OK(sent == 20000 && counter(&b, "frames-in") - before == sent, "20000 frames of a program's own");
    OK(counter(&b, "malformed") > 100 && counter(&b, "stray-parts") > 100 && counter(&b, "incomplete-messages") > 100,
       "harm nobody: %lld malformed, %lld strays, %lld incomplete", counter(&b, "malformed"),
       counter(&b, "stray-parts"), counter(&b, "incomplete-messages"));
    while (read(to, buf, sizeof buf) >= 0)
        ;
    int fd = endpoint_at(&a, 0, 0, 0);
    number(buf, 3, 9999);
    OK(send_away(fd, buf, 9999, &b, TO) == 9999 && read(to, buf, sizeof buf) == 9999 && is_number(buf, 3, 9999),
       "and what is sent then arrives");
    close(s);
    close(to);
    close(fd);
}

static void all_nodes(void) {
    OK(connect_nodes(&a, "to-c", &c, "to-a", 9000), "a third node, with longer frames");
    int fd = endpoint_at(&a, 0, 0, 0), at_b = endpoint_at(&b, TO, 0, O_NONBLOCK), at_c = endpoint_at(&c, TO, 0, O_NONBLOCK);
    number(buf, 7, 20000);
    bool good = dp_send_to(fd, buf, 20000, DP_NID_ALL, TO) == 20000;
    good &= ready(at_b, POLLIN, 10000) && read(at_b, buf, sizeof buf) == 20000 && is_number(buf, 7, 20000);
    good &= ready(at_c, POLLIN, 10000) && read(at_c, buf, sizeof buf) == 20000 && is_number(buf, 7, 20000);
    OK(good, "a message for all arrives at all");
    OK(cut(&a, "to-c") && attach(&a, "to-c", DP_REMOVE) == -1 && errno == ENODEV, "an interface that goes is detached");
    FAILS(EHOSTUNREACH, send_away(fd, "x", 1, &c, TO), "and nobody is behind it");
    OK(dp_send_to(fd, "x", 1, DP_NID_ALL, TO) == 1 && ready(at_b, POLLIN, 10000) && read(at_b, buf, 9) == 1,
       "those behind the others are reached");
    struct ifreq down = {0};
    OK(enter(&b) && iface_call(SIOCSIFFLAGS, "to-a", &down), "the other side goes down");
    FAILS(ENETDOWN, send_away(fd, "x", 1, &b, TO), "which its senders are told");
    OK(enter(&b) && !attach(&b, "to-a", DP_REMOVE), "detached by hand");
    close(at_b);
    close(at_c);
    close(fd);
}

int main(void) {
    administration();
    messages(false);
    losses();
    across(&a, "to-b", &b, "to-a");
    int watcher = watch(&a, "to-b", ETH_P_ALL);
    OK(watcher >= 0, "somebody watches");
    messages(true);
    losses();
    close(watcher);
    hostile();
    all_nodes();
    /* The nodes go with this process, and their interfaces with them. */
    return tap_end();
}
