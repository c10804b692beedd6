/* Two threads share one endpoint: one sends, the other receives. What they send, another process returns.
 *
 *     cc -pthread threads.c -ldp && ./a.out
 */
#include <dp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ECHO = 3031, MESSAGES = 10000 };

static int shared;

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dp_errno_text());
    exit(1);
}

/* Returns every message to whoever sent it. */
static void echo(void) {
    int fd = dp_open(ECHO), nid, dpid;
    if (fd < 0) die("dp_open");
    for (int i = 0; i < MESSAGES; i++) {
        char message[sizeof i];
        ssize_t n = dp_recvfrom(fd, message, sizeof message, &nid, &dpid);
        if (n != sizeof message) die("dp_recvfrom");
        if (dp_sendto(fd, message, n, nid, dpid) < 0) die("dp_sendto");
    }
    dp_close(fd);
}

static void *send_all(void *unused) {
    for (int i = 0; i < MESSAGES; i++) {
        if (dp_write(shared, &i, sizeof i) < 0) die("dp_write");
    }
    return unused;
}

static void *receive_all(void *sum) {
    for (int i = 0; i < MESSAGES; i++) {
        char *message;
        int value;
        if (dp_read(shared, &message) != sizeof value) die("dp_read");
        memcpy(&value, message, sizeof value);
        *(long *)sum += value;
        if (dp_fsync(shared, 1) < 0) die("dp_fsync");
    }
    return NULL;
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        echo();
        return 0;
    }
    shared = dp_open(0);
    if (shared < 0 || dp_target(shared, 0, ECHO) < 0) die("dp_open");
    pthread_t sender, receiver;
    long sum = 0;
    if (pthread_create(&sender, NULL, send_all, NULL) != 0) abort();
    if (pthread_create(&receiver, NULL, receive_all, &sum) != 0) abort();
    pthread_join(sender, NULL);
    pthread_join(receiver, NULL);
    printf("sent %d, received %d, sum %ld\n", MESSAGES, MESSAGES, sum);
    waitpid(child, NULL, 0);
    return dp_close(shared) < 0;
}
