// SPDX-License-Identifier: MIT OR Apache-2.0
// What is counted by counts.c: ROUNDS times 64 bytes there and back over each, as many writes that wake nobody, and 64
// bytes there and back between two nodes.
// The functions mark_1_... begin a phase each, in the order of their names; mark_9_none is for what is in between.
#define _GNU_SOURCE
#include "nodes.h"
#include "turns.h"

enum { LEN = 64, ROUNDS = 2000, WAITING = 400, TO = 4000 };

#define MARK(name)                                             \
    __attribute__((noinline, no_icf)) static void mark_##name(void) {  \
        /* Each its own, or the compiler makes one of them. */ \
        __asm__ volatile("# " #name ::: "memory");             \
    }
MARK(1_endpoints)
MARK(2_AF_UNIX)
MARK(3_TCP)
MARK(4_write)
MARK(5_pipe_write)
MARK(6_nodes)
MARK(9_none)

static void rounds(int p[2], void (*mark)(void)) {
    enum { BEFORE = 100 };
    char b[LEN] = "ping";
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < BEFORE + ROUNDS; i++)
            if (!all(p[1], b, LEN) || write(p[1], b, LEN) != LEN)
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < BEFORE + ROUNDS; i++) {
        if (i == BEFORE)
            mark();
        broken |= write(p[0], b, LEN) != LEN || !all(p[0], b, LEN);
    }
    mark_9_none();
    int status;
    broken |= waitpid(child, &status, 0) != child || status;
    close2(p);
}

static void writes(int from, int to, void (*mark)(void)) {
    char b[LEN] = "";
    for (int done = 0; done < ROUNDS; done += WAITING) {
        broken |= write(from, b, LEN) != LEN || !all(to, b, LEN);
        mark();
        for (int i = 0; i < WAITING; i++)
            broken |= write(from, b, LEN) != LEN;
        mark_9_none();
        for (int i = 0; i < WAITING; i++)
            broken |= !all(to, b, LEN);
    }
}

static void node_pair(int p[2]) {
    static struct node n[2];
    broken |= !node_new(&n[0], 1) || !node_new(&n[1], 2) || !connect_nodes(&n[0], "to-b", &n[1], "to-a", 1500);
    for (int i = 0; i < 2; i++)
        p[i] = endpoint_at(&n[i], TO, 0, 0);
    for (int i = 0; i < 2; i++)
        broken |= ioctl(p[i], DP_IOC_TARGET, &(struct dp_ioc_addr){2 - i, TO}) != 0;
}

int main(void) {
    int p[2];
    on_cpu(0);
    dp_pair(p, 0, 0);
    rounds(p, mark_1_endpoints);
    broken |= socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    rounds(p, mark_2_AF_UNIX);
    tcp_pair(p);
    rounds(p, mark_3_TCP);
    dp_pair(p, 0, 0);
    writes(p[0], p[1], mark_4_write);
    close2(p);
    broken |= pipe(p);
    writes(p[1], p[0], mark_5_pipe_write);
    node_pair(p);
    rounds(p, mark_6_nodes);
    if (broken)
        puts("# a message was lost: these are no figures");
    return broken;
}
