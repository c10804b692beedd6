// SPDX-License-Identifier: MIT OR Apache-2.0
// usage: remote ROUNDS: 1 byte there and back between two nodes over virtual Ethernet, medians, by UDP and endpoints.
#define _GNU_SOURCE
#include "nodes.h"
#include "turns.h"

enum { LEN = 1, PORT = 5000, TO = 4000 };

static struct node a, b;

static void udp(int p[2]) {
    const struct node *n[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        enter(n[i]);
        p[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in mine = {AF_INET, htons(PORT), {htonl(0x0a000001 + i)}, {0}};
        if (bind(p[i], (void *)&mine, sizeof mine))
            broken = true;
    }
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in other = {AF_INET, htons(PORT), {htonl(0x0a000002 - i)}, {0}};
        if (connect(p[i], (void *)&other, sizeof other))
            broken = true;
    }
}

static void endpoints(int p[2]) {
    p[0] = endpoint_at(&a, TO, 0, 0);
    p[1] = endpoint_at(&b, TO, 0, 0);
    for (int i = 0; i < 2; i++) {
        struct dp_ioc_addr target = {2 - i, TO};
        if (ioctl(p[i], DP_IOC_TARGET, &target))
            broken = true;
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, p[2];
    if (!node_new(&a, 1) || !node_new(&b, 2) || !connect_nodes(&a, "to-b", &b, "to-a", 1500) || !set_ip(&a, "to-b", 1) ||
        !set_ip(&b, "to-a", 2)) {
        perror("remote: two nodes with a cable between them");
        return 1;
    }
    for (long cpu = 0; cpu < (sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1); cpu++) {
        double best[2] = {1e9, 1e9};
        for (int i = 0; i < REPEATS && !broken; i++) {
            udp(p);
            double m = median(p, LEN, rounds, cpu);
            best[0] = m < best[0] ? m : best[0];
            endpoints(p);
            m = median(p, LEN, rounds, cpu);
            best[1] = m < best[1] ? m : best[1];
        }
        printf("# 1 byte there and back between two nodes, %s: UDP %.2f us, endpoints %.2f us: %.3f of UDP's time (emulated)\n",
               cpu ? "two CPUs" : "one CPU", best[0], best[1], best[1] / best[0]);
    }
    if (broken)
        puts("# a message was lost: these are no figures");
    return broken;
}
