/*
 * For programs that ask what a connection's ends have told each other: over the loopback that takes a moment.
 */
#ifndef COMPAT_SETTLED_H
#define COMPAT_SETTLED_H

#include "common.h"

#include <sched.h>

/*
 * Everything that this machine's programs have sent over the loopback so far has arrived, and so have the kernel's answers:
 * packets lie in a queue of the processor that sent them, and on a busy machine for as long as a thread of the kernel has to
 * wait for its turn. So one packet more goes through each of the queues, and behind the answers to what was in it.
 */
static void drain_loopback(void) {
    static int ends[2];
    if (!ends[0]) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        for (int i = 0; i < 2; i++)
            ends[i] = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        MUST(bind(ends[1], (void *)&address, length));
        MUST(getsockname(ends[1], (void *)&address, &length));
        MUST(connect(ends[0], (void *)&address, length));
    }
    cpu_set_t ours;
    MUST(sched_getaffinity(0, sizeof ours, &ours));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &ours))
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        MUST(sched_setaffinity(0, sizeof one, &one));
        for (int round = 0; round < 3; round++) {
            char byte = 0;
            MUST(send(ends[0], &byte, 1, 0));
            MUST(recv(ends[1], &byte, 1, 0));
        }
    }
    MUST(sched_setaffinity(0, sizeof ours, &ours));
}

/* What both sides have sent so far has arrived, and so have the answers to it. */
static void settle_loopback(void) {
    sleep_ms(1);
    drain_loopback();
}

#endif
