// SPDX-License-Identifier: MIT OR Apache-2.0
// usage: talk OWN [TO]: prints what arrives at endpoint OWN, up to an empty message; with TO sends each line of its
// input there, and an empty message at the end. All of it with plain system calls.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dp_ioctl.h"

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: talk OWN [TO]\n");
        return 2;
    }
    struct dp_ioc_open own = {atoi(argv[1]), 0, 0};
    int fd = open(DP_DEVICE, O_RDWR);
    if (fd < 0 || ioctl(fd, DP_IOC_OPEN, &own)) {
        perror(DP_DEVICE);
        return 1;
    }
    char line[4096];
    if (argc == 3) {
        struct dp_ioc_addr to = {0, atoi(argv[2])};
        if (ioctl(fd, DP_IOC_TARGET, &to)) {
            perror("target");
            return 1;
        }
        while (fgets(line, sizeof line, stdin))
            if (write(fd, line, strlen(line)) < 0)
                perror("write");
        return write(fd, "", 0) < 0;
    }
    for (ssize_t n; (n = read(fd, line, sizeof line)) > 0;)
        printf("endpoint %u got %zd bytes: %.*s", own.dpid, n, (int)n, line);
    return 0;
}
