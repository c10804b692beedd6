// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages to the other end of a veth pair: without frames while nobody has a say on the way, as frames as soon as somebody
// has; and a sender who remembers the way notices each change of it.
#ifndef ACROSS_H
#define ACROSS_H

#include "nodes.h"

#include <linux/bpf.h>
#include <linux/sockios.h>
#include <linux/pkt_sched.h>
#include <sys/syscall.h>

enum { ACROSS = 4100, MTU_LESS = 1400, MTU_USUAL = 1500 };

static struct across {
    struct node *a, *b;
    const char *at_a, *at_b;
    /* Its target is `to`. */
    int fd, to, held;
} x;

static __u32 xdp_mode;

static bool xdp_is(bool on) {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
        char rest[64];
    } m = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_SETLINK}};
    int fd = on ? x.held : -1;
    __u32 flags = xdp_mode;
    enter(x.b);
    m.i.ifi_index = if_nametoindex(x.at_b);
    struct rtattr *nest = attribute(&m.h, IFLA_XDP | NLA_F_NESTED, NULL, 0);
    attribute(&m.h, IFLA_XDP_FD, &fd, sizeof fd);
    attribute(&m.h, IFLA_XDP_FLAGS, &flags, sizeof flags);
    nested_ends(&m.h, nest);
    return netlink(&m.h);
}

/* A program of BPF that lets everything pass. */
static int passes(int type, int verdict) {
    const struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = verdict},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr load = {.prog_type = type, .insn_cnt = 2, .insns = (uintptr_t)code, .license = (uintptr_t) "GPL"};
    return syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
}

static bool xdp_on_mode(__u32 mode) {
    xdp_mode = mode;
    x.held = passes(BPF_PROG_TYPE_XDP, XDP_PASS);
    return x.held >= 0 && xdp_is(true);
}

static bool xdp_on(void) {
    return xdp_on_mode(XDP_FLAGS_SKB_MODE);
}

static bool xdp_on_native(void) {
    return xdp_on_mode(XDP_FLAGS_DRV_MODE);
}

static bool xdp_off(void) {
    return xdp_is(false) && !close(x.held);
}

/* As tc(8) does it today. */
static bool tcx(int command, bool egress) {
    union bpf_attr m = {0};
    enter(egress ? x.a : x.b);
    m.target_ifindex = if_nametoindex(egress ? x.at_a : x.at_b);
    m.attach_bpf_fd = x.held;
    m.attach_type = egress ? BPF_TCX_EGRESS : BPF_TCX_INGRESS;
    return !syscall(SYS_bpf, command, &m, sizeof m);
}

static bool egress_on(void) {
    x.held = passes(BPF_PROG_TYPE_SCHED_CLS, 0);
    return x.held >= 0 && tcx(BPF_PROG_ATTACH, true);
}

static bool egress_off(void) {
    return tcx(BPF_PROG_DETACH, true) && !close(x.held);
}

static bool ingress_on(void) {
    x.held = passes(BPF_PROG_TYPE_SCHED_CLS, 0);
    return x.held >= 0 && tcx(BPF_PROG_ATTACH, false);
}

static bool ingress_off(void) {
    return tcx(BPF_PROG_DETACH, false) && !close(x.held);
}

static bool queue(int type, int flags) {
    struct {
        struct nlmsghdr h;
        struct tcmsg t;
        char rest[64];
    } m = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)), .nlmsg_type = type, .nlmsg_flags = flags}};
    enter(x.a);
    m.t.tcm_ifindex = if_nametoindex(x.at_a);
    m.t.tcm_parent = TC_H_ROOT;
    m.t.tcm_handle = 1 << 16;
    attribute(&m.h, TCA_KIND, "pfifo", 6);
    return netlink(&m.h);
}

static bool queue_on(void) {
    return queue(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE);
}

static bool queue_off(void) {
    return queue(RTM_DELQDISC, 0);
}

static bool watched(const struct node *n, const char *name, int protocol) {
    x.held = watch(n, name, protocol);
    return x.held >= 0;
}

static bool sender_watched(void) {
    return watched(x.a, x.at_a, ETH_P_ALL);
}

static bool receiver_watched(void) {
    return watched(x.b, x.at_b, ETH_P_ALL);
}

static bool senders_all_watched(void) {
    return watched(x.a, NULL, ETH_P_ALL);
}

static bool receivers_all_watched(void) {
    return watched(x.b, NULL, ETH_P_ALL);
}

static bool receiver_shared(void) {
    return watched(x.b, x.at_b, DP_ETHER_TYPE);
}

static bool receivers_all_shared(void) {
    return watched(x.b, NULL, DP_ETHER_TYPE);
}

static bool nobody_watches(void) {
    return !close(x.held);
}

static bool shorter(void) {
    return bring_up(x.b, x.at_b, MTU_LESS);
}

static bool as_long(void) {
    return bring_up(x.b, x.at_b, MTU_USUAL);
}

/* How many messages went without frames, of one that arrives; -1 if it does not. */
static long long one_goes(void) {
    static unsigned n;
    unsigned got;
    long long before = counter(x.a, "messages-without-frames");
    n++;
    if (write(x.fd, &n, sizeof n) != sizeof n || !ready(x.to, POLLIN, 1000) || read(x.to, &got, sizeof got) != sizeof got || got != n)
        return -1;
    return counter(x.a, "messages-without-frames") - before;
}

/* One is sent, and does not arrive: for this reason. */
static bool one_is_lost(const char *why) {
    long long before = why ? counter(x.b, why) : 0;
    char c;
    bool sent = write(x.fd, "x", 1) == 1, came = ready(x.to, POLLIN, 50) && read(x.to, &c, 1) == 1;
    for (int i = 0; why && i < 1000 && counter(x.b, why) == before; i++)
        pause_ms(1);
    return sent && !came && (!why || counter(x.b, why) == before + 1);
}

static bool address_is(const struct node *n, const char *name, const unsigned char *mac) {
    struct ifreq r = {0};
    r.ifr_hwaddr.sa_family = 1; /* ARPHRD_ETHER */
    memcpy(r.ifr_hwaddr.sa_data, mac, 6);
    return enter(n) && iface_call(SIOCSIFHWADDR, name, &r);
}

static void addresses(const struct node *n, const char *name, const char *whose, const char *why) {
    static const unsigned char another[6] = {2, 0, 0, 0, 0, 9};
    struct ifreq r = {0};
    bool good = enter(n) && iface_call(SIOCGIFHWADDR, name, &r) && one_goes() == 1;
    OK(good && address_is(n, name, another) && one_is_lost(why), "%s address is another one", whose);
    OK(address_is(n, name, (void *)r.ifr_hwaddr.sa_data) && one_goes() == 1, "and is what it was");
}

static void who_has_a_say(void) {
    static const struct {
        const char *what;
        bool (*on)(void), (*off)(void);
    } all[] = {
        {"somebody watches the sender's interface", sender_watched, nobody_watches},
        {"the receiver's", receiver_watched, nobody_watches},
        {"all of the sender's namespace", senders_all_watched, nobody_watches},
        {"all of the receiver's", receivers_all_watched, nobody_watches},
        {"somebody takes such frames, too", receiver_shared, nobody_watches},
        {"from all interfaces", receivers_all_shared, nobody_watches},
        {"a queueing discipline", queue_on, queue_off},
        {"a program at the sender's interface", egress_on, egress_off},
        {"one at the receiver's", ingress_on, ingress_off},
        {"one of XDP", xdp_on, xdp_off},
        {"one of XDP in the interface", xdp_on_native, xdp_off},
        {"the receiver takes shorter frames", shorter, as_long},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool good = one_goes() == 1, on = all[i].on();
        long long with = one_goes();
        bool off = all[i].off();
        OK(good && on && with == 0 && off && one_goes() == 1, "%s: frames, and none then", all[i].what);
    }
    int other = watch(x.b, x.at_b, ETH_P_IP), others = watch(x.b, NULL, ETH_P_IP);
    OK(other >= 0 && others >= 0 && one_goes() == 1, "who takes frames of another kind has no say");
    close(other);
    close(others);
}

/* A bridge over the receiver's interface takes all that comes. */
static void bridged(void) {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
        char rest[128];
    } m = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
    attribute(&m.h, IFLA_IFNAME, "bridge", 7);
    struct rtattr *info = attribute(&m.h, IFLA_LINKINFO, NULL, 0);
    attribute(&m.h, IFLA_INFO_KIND, "bridge", 6);
    nested_ends(&m.h, info);
    enter(x.b);
    struct ifreq r = {.ifr_ifindex = if_nametoindex(x.at_b)};
    bool good = netlink(&m.h) && one_goes() == 1 && enter(x.b) && iface_call(SIOCBRADDIF, "bridge", &r);
    long long before = counter(x.a, "messages-without-frames");
    good = good && write(x.fd, "x", 1) == 1;
    pause_ms(50);
    char c;
    OK(good && counter(x.a, "messages-without-frames") == before && read(x.to, &c, 1) == -1, "a bridge takes frames");
    OK(enter(x.b) && iface_call(SIOCBRDELIF, "bridge", &r) && one_goes() == 1 && cut(x.b, "bridge"), "and is gone");
}

/* Packets that the interface's statistics have, in a column from the left. */
static long long packets(const struct node *n, const char *name, int column) {
    char line[512];
    long long value = -1;
    FILE *f = enter(n) ? fopen("/proc/thread-self/net/dev", "r") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        char *at = strchr(line, ':');
        char *begin = line + strspn(line, " ");
        if (!at || strlen(name) != (size_t)(at - begin) || strncmp(begin, name, at - begin))
            continue;
        strtok(at + 1, " ");
        for (int i = 1; i < column; i++)
            strtok(NULL, " ");
        value = atoll(strtok(NULL, " "));
    }
    if (f)
        fclose(f);
    return value;
}

static void statistics(void) {
    enum { MESSAGES = 100, OF_OTHERS = 20, RECEIVED = 1, SENT = 9 };
    static char big[2000];
    char got[2000];
    bool good = true;
    long long sent = packets(x.a, x.at_a, SENT), received = packets(x.b, x.at_b, RECEIVED);
    long long before = counter(x.a, "messages-without-frames"), frames = counter(x.a, "frames-out");
    for (int i = 0; i < MESSAGES; i++)
        good &= write(x.fd, big, sizeof big) == sizeof big && read(x.to, got, sizeof got) == sizeof got;
    frames = counter(x.a, "frames-out") - frames;
    sent = packets(x.a, x.at_a, SENT) - sent;
    received = packets(x.b, x.at_b, RECEIVED) - received;
    good &= frames == 2 * MESSAGES && counter(x.a, "messages-without-frames") - before == MESSAGES;
    OK(good && sent >= frames && sent < frames + OF_OTHERS && received >= frames && received < frames + OF_OTHERS,
       "interfaces count %lld packets sent, %lld received, for %lld frames that were not", sent, received, frames);
}

static void what_is_remembered(void) {
    addresses(x.a, x.at_a, "the sender's", "from-strangers");
    addresses(x.b, x.at_b, "the receiver's", NULL);
    OK(!forget_route(x.b, x.a->nid) && one_is_lost("from-strangers"), "the receiver does not know the sender");
    OK(!route(x.b, x.at_b, x.a, x.at_a) && one_goes() == 1, "and knows it");
    OK(enter(x.a) && !set_nid(x.a, 60) && one_is_lost("from-strangers"), "the sender is another node");
    OK(enter(x.a) && !set_nid(x.a, x.a->nid) && one_goes() == 1, "and is itself");
    OK(enter(x.b) && !set_nid(x.b, 50) && one_is_lost("for-other-nodes"), "the receiver is another node");
    OK(enter(x.b) && !set_nid(x.b, x.b->nid) && one_goes() == 1, "and is itself");
    FAILS(EHOSTUNREACH, forget_route(x.a, x.b->nid) ? 0 : write(x.fd, "x", 1), "the sender does not know the receiver");
    OK(!route(x.a, x.at_a, x.b, x.at_b) && one_goes() == 1, "and knows it");
    OK(!attach(x.b, x.at_b, DP_REMOVE) && one_is_lost(NULL), "the receiver's interface is detached");
    OK(!attach(x.b, x.at_b, 0) && one_goes() == 1, "and attached");
    close(x.to);
    long long nobody = counter(x.b, "for-nobody");
    OK(write(x.fd, "x", 1) == 1 && write(x.fd, "x", 1) == 1 && counter(x.b, "for-nobody") == nobody + 2, "the receiver is gone");
    x.to = endpoint_at(x.b, ACROSS, 0, O_NONBLOCK);
    OK(one_goes() == 1 && one_goes() == 1, "another has its number");
}

static void pages_and_room(void) {
    enum { LEN = 30000 };
    static char got[LEN];
    char *fresh = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long long before = counter(x.a, "messages-without-frames");
    memset(got, 'x', LEN);
    bool good = write(x.fd, fresh, LEN) == LEN && ready(x.to, POLLIN, 1000) && read(x.to, got, LEN) == LEN;
    good = good && got[0] == 0 && !memcmp(got, got + 1, LEN - 1);
    OK(good && counter(x.a, "messages-without-frames") == before + 1, "of pages that were not there before");
    munmap(fresh, LEN);
    long taken = 0, room = counter(x.b, "without-room");
    for (int i = 0; i < 1000; i++)
        good &= write(x.fd, got, 1000) == 1000;
    while (read(x.to, got, LEN) == 1000)
        taken++;
    OK(good && taken > 0 && taken < 1000 && counter(x.b, "without-room") - room == 1000 - taken, "a pool that is full: %ld of 1000", taken);
    OK(one_goes() == 1, "and the next arrives");
}

static void across(struct node *a, const char *at_a, struct node *b, const char *at_b) {
    x = (struct across){.a = a, .b = b, .at_a = at_a, .at_b = at_b};
    x.fd = endpoint_at(a, 0, 0, 0);
    x.to = endpoint_at(b, ACROSS, 64 << 10, O_NONBLOCK);
    struct dp_ioc_addr target = {b->nid, ACROSS};
    OK(x.fd >= 0 && x.to >= 0 && !ioctl(x.fd, DP_IOC_TARGET, &target) && one_goes() == 1, "a target at the other end");
    who_has_a_say();
    bridged();
    statistics();
    what_is_remembered();
    pages_and_room();
    close(x.fd);
    close(x.to);
}

#endif
