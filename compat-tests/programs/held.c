/*
 * A client with much longer rings than the server has itself takes a stream, and then reads nothing: what the server holds
 * for it, in memory that it shares with the client, is bounded by its own settings.
 */
#include "common.h"

#define STREAM (128u << 20)
#define OWN (4u << 20)

/* Resident bytes of what is mapped of arenas. */
static unsigned long held(void) {
    FILE *f = fopen("/proc/self/smaps", "r");
    CHECK(f);
    char line[512];
    bool arena = false;
    unsigned long sum = 0, kib;
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            arena = strstr(line, "memfd:dp-arena") != NULL;
        else if (arena && sscanf(line, "Rss: %lu kB", &kib) == 1)
            sum += kib * 1024;
    }
    fclose(f);
    return sum;
}

void server(void) {
    int fd = accepted(listen_here());
    static char block[256 * 1024];
    for (unsigned n = 0; n < STREAM; n += sizeof block)
        write_all(fd, block, sizeof block);
    await_mark("taken");
    for (int idle = 0; idle < 20;) {
        if (send(fd, block, sizeof block, MSG_DONTWAIT) > 0) {
            idle = 0;
        } else {
            idle++;
            sleep_ms(1);
        }
    }
    CHECK(held() < 3ul * OWN);
    mark("filled", 1);
    close(fd);
    say("held no more than its own settings say");
}

void client(void) {
    if (!getenv("DP_RING_LONG")) {
        MUST(setenv("DP_RING_LONG", "67108864", 1));
        execv("/proc/self/exe", program_argv);
        CHECK(!"exec");
    }
    int fd = connected();
    static char block[256 * 1024];
    for (unsigned n = 0; n < STREAM; n += sizeof block)
        read_exact(fd, block, sizeof block);
    mark("taken", 1);
    await_mark("filled");
    close(fd);
}
