// SPDX-License-Identifier: MIT OR Apache-2.0
// Namespaces, what an administrator changes, and messages between nodes when memory and copies fail (fault.h).
#define _GNU_SOURCE
#include "fault.h"
#include "nodes.h"

/* Calls that send nothing come first. */
enum { NUMBER = 5000, CHANGES = 4 };

static struct node a, b;
static int fd, other;
static char buf[5000];

static void nothing(void) {
}

static long new_namespace(void) {
    return unshare(CLONE_NEWNET);
}

static bool has_a_table(long result) {
    int there = dp_new(NUMBER, 4096, 0);
    bool good = !result && there >= 0;
    close(there);
    return enter(&a) && good;
}

static long attaches(void) {
    return attach(&a, "x0", 0);
}

static bool is_attached(long result) {
    return !result && !attach(&a, "x0", DP_REMOVE);
}

static long names_node(void) {
    return route(&a, "v0", &b, "v1");
}

static bool is_named(long result) {
    return !result && !forget_route(&a, 2) && !route(&a, "v0", &b, "v1");
}

static long numbers_node(void) {
    return set_nid(&a, 1);
}

static bool is_good(long result) {
    return !result;
}

static long sends_away(void) {
    return dp_send_to(other, buf, 100, 2, NUMBER);
}

static void has_target(void) {
    ioctl(other, DP_IOC_TARGET, &(struct dp_ioc_addr){2, NUMBER});
}

/* Not so short that no copy of it could fail. */
static long writes_away(void) {
    return write(other, buf, 1000);
}

static long sends_parts(void) {
    return dp_send_to(other, buf, 5000, 2, NUMBER);
}

static long sends_to_all(void) {
    return dp_send_to(other, buf, 100, DP_NID_ALL, NUMBER);
}

/* What fails below the driver is a lost frame. The next message is not, and nothing comes in pieces. */
static bool goes_on(long result) {
    static char got[5000];
    long n = result, came = 0;
    bool good = result > 0 && dp_send_to(other, buf, n, 2, NUMBER) == n;
    while (ready(fd, POLLIN, came ? 20 : 2000)) {
        came++;
        good &= read(fd, got, sizeof got) == n && !memcmp(got, buf, n);
    }
    return good && came >= 1;
}

/* In softirq, where nothing is a call's: some of all that the driver asks for. */
static void receiving(void) {
    static char got[5000];
    int came = 0;
    bool good = fault_set("failslab", "times", "%lu", ~0u) && fault_set("failslab", "probability", "%lu", 20);
    for (int i = 0; i < 300; i++) {
        sends_parts();
        while (ready(fd, POLLIN, 1)) {
            came++;
            good &= read(fd, got, sizeof got) == 5000 && !memcmp(got, buf, 5000);
        }
    }
    good &= fault_set("failslab", "probability", "%lu", 0);
    OK(good && came > 0 && came < 300, "%d of 300 messages of several frames, while memory is short", came);
    OK(goes_on(sends_parts()), "and the next one");
}

int main(void) {
    static const struct call calls[] = {
        {"a namespace", nothing, new_namespace, has_a_table},
        {"DP_IOC_ATTACH_IF", nothing, attaches, is_attached},
        {"DP_IOC_NART", nothing, names_node, is_named},
        {"DP_IOC_NODE", nothing, numbers_node, is_good},
        {"a message to another node", nothing, sends_away, goes_on},
        {"one to the target", has_target, writes_away, goes_on},
        {"one of several frames", nothing, sends_parts, goes_on},
        {"one to all nodes", nothing, sends_to_all, goes_on},
    };
    OK(fault_begin(), "the kernel lets the driver's allocations and copies fail");
    OK(node_new(&a, 1) && node_new(&b, 2) && connect_nodes(&a, "v0", &b, "v1", 1500) && cable(&a, "x0", &b, "x1"), "two nodes");
    fd = endpoint_at(&b, NUMBER, 1 << 20, O_NONBLOCK);
    other = endpoint_at(&a, 0, 0, 0);
    memset(buf, 'n', 5000);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        fault_each(&calls[i]);
    OK(counter(&a, "messages-without-frames") > 0, "without frames");
    int watcher = watch(&a, "v0", ETH_P_ALL);
    long long spared = counter(&a, "messages-without-frames");
    for (size_t i = CHANGES; i < sizeof calls / sizeof *calls; i++)
        fault_each(&calls[i]);
    receiving();
    OK(counter(&a, "messages-without-frames") == spared, "and as frames");
    close(watcher);
    close(fd);
    close(other);
    return tap_end();
}
