// SPDX-License-Identifier: MIT OR Apache-2.0
// What examples/plain_fd.py does, in C: talks over an endpoint that another program opened, as descriptor 3.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    const char *words[] = {"one", "two", "three"};
    char answer[4096];
    for (int i = 0; i < 3; i++) {
        struct pollfd p = {3, POLLIN, 0};
        ssize_t n;
        if (write(3, words[i], strlen(words[i])) < 0 || poll(&p, 1, -1) != 1 || (n = read(3, answer, sizeof answer)) < 0) {
            perror("descriptor 3");
            return 1;
        }
        printf("%.*s\n", (int)n, answer);
    }
    return write(3, "", 0) < 0;
}
