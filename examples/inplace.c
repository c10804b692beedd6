/* Receiving in place: messages are read where the sender put them, several at a time, and then released.
 *
 *     cc inplace.c -ldp && ./a.out
 */
#include <dp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SINK = 3011, MESSAGES = 1000, BATCH = 10 };

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dp_errno_text());
    exit(1);
}

/* Message i has i bytes, each of them i modulo 256. */
static void source(void) {
    char message[MESSAGES];
    int fd = dp_open(0); /* any number will do */
    if (fd < 0 || dp_target(fd, 0, SINK) < 0) die("dp_open");
    for (int i = 0; i < MESSAGES; i++) {
        memset(message, i, i);
        if (dp_write(fd, message, i) != i) die("dp_write");
    }
    dp_close(fd); /* what was sent still arrives */
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        source();
        return 0;
    }
    int fd = dp_open(SINK);
    if (fd < 0) die("dp_open");
    dpmmap_t pool = {1 << 20, NULL}; /* room for what was sent and not released */
    if (dp_mmap(fd, &pool) < 0) die("dp_mmap");

    long bytes = 0;
    for (int i = 0; i < MESSAGES; i++) {
        char *message;
        ssize_t n = dp_read(fd, &message);
        if (n < 0) die("dp_read");
        for (ssize_t b = 0; b < n; b++) {
            if (message[b] != (char)i) die("the message");
        }
        bytes += n;
        /* All of the batch stay where they are until here. */
        if (i % BATCH == BATCH - 1 && dp_fsync(fd, BATCH) < 0) die("dp_fsync");
    }
    printf("%d messages, %ld bytes, none copied by the receiver\n", MESSAGES, bytes);
    waitpid(child, NULL, 0);
    return dp_close(fd) < 0;
}
