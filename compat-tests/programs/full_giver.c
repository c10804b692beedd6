/*
 * The kernel's buffers are small, and the peer reads nothing for a while. The giver has sent more than they hold,
 * with success, and gives the connection to somebody who knows nothing of channels: what that one writes comes
 * after all of it.
 *   stdio    to fdopen
 *   dprintf  to dprintf, twice
 *   spawn    as standard output of a child of posix_spawn
 *   signals  to fdopen, while signals are sent to everything that the giver has started
 */
#include "common.h"

#include <spawn.h>
#include <sys/mman.h>

#define BYTES 120000
#define BUSY 300

extern char **environ;

void helper(int fd) {
    small_buffer(fd, SO_RCVBUF);
    mark("small", 1);
    if (await_mark("sent"))
        sleep_ms(BUSY);
    char *all = malloc(BYTES);
    fill(all, BYTES, 9);
    uint64_t expected = checksum(checksum(SUM_START, all, BYTES), "END\n", 4), sum = SUM_START;
    uint64_t n = read_to_eof(fd, &sum);
    say("%llu bytes, %s", (unsigned long long)n, sum == expected ? "as sent" : "NOT as sent");
}

static pid_t giver;
static volatile int *strays;

static void count(int signal) {
    (void)signal;
    if (getpid() != giver)
        (*strays)++;
}

static void *disturb(void *argument) {
    (void)argument;
    for (int i = 0; i < 3000; i++) {
        kill(0, SIGUSR1);
        struct timespec rest = {0, 20000};
        nanosleep(&rest, NULL);
    }
    return NULL;
}

static void *by_stdio(void *fd) {
    FILE *f = fdopen(*(int *)fd, "w");
    CHECK(f && fputs("END\n", f) >= 0);
    CHECK(fclose(f) == 0);
    return NULL;
}

static void by_a_child(int fd) {
    unsetenv("LD_PRELOAD");
    char *arguments[] = {"echo", "END", NULL};
    pid_t child;
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 1) == 0);
    CHECK(posix_spawn(&child, "/bin/echo", &actions, NULL, arguments, environ) == 0);
    MUST(close(fd));
    join_child(child);
}

void tester(int fd) {
    small_buffer(fd, SO_SNDBUF);
    await_mark("small");
    char *all = malloc(BYTES);
    fill(all, BYTES, 9);
    size_t n = write_some(fd, all, BYTES);
    /* On TCP there is no room for it, and the rest waits for the reader. */
    mark("sent", n == BYTES);
    write_all(fd, all + n, BYTES - n);
    if (mode_is("dprintf")) {
        CHECK(dprintf(fd, "%s", "EN") == 2);
        CHECK(dprintf(fd, "%c\n", 'D') == 2);
    } else if (mode_is("spawn")) {
        by_a_child(fd);
    } else if (mode_is("signals")) {
        giver = getpid();
        strays = mmap(NULL, sizeof *strays, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
        MUST(sigaction(SIGUSR1, &action, NULL));
        pthread_t other = start_thread(disturb, NULL);
        /* Not in this thread: it is the one that the kernel interrupts. */
        pthread_join(start_thread(by_stdio, &fd), NULL);
        pthread_join(other, NULL);
        say("handlers run by others: %d", *strays);
    } else {
        by_stdio(&fd);
    }
    say("given");
}
