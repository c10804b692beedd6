/*
 * A peer that says what is not so, in the memory that it shares with the server: what does that cost the server?
 * It prints whether its calls rested: now and then is right, again and again would be a wait on the peer's word. The peer natively, or on a connection that is no channel, can say nothing.
 *
 *     bells  bells counted and never sent: a close
 *     dump   how large a core dump the server's own channels make
 */
#include "arena.h"

#include <sys/resource.h>

#define ROUNDS 10
#define LIVE 3

/* Calls what() with the wake word of each live slot's edge towards the server: offer 128, word 64, cursor 64, sender 64. */
static void each_edge(void (*what)(uint64_t *word)) {
    static char *arena;
    if (!arena)
        arena = arena_of_ours();
    for (size_t i = 0; arena && i < 2 * ROUNDS; i++) {
        char *slot = arena + arena_slot_at((struct arena_header *)arena, i);
        if ((*(uint64_t *)slot & 0xff) == LIVE)
            what((uint64_t *)(slot + 128));
    }
}

static void count_bell(uint64_t *word) { __atomic_fetch_add(word, 1ull << 32, __ATOMIC_SEQ_CST); }

/* How often this thread has given its processor away. */
static long rests(void) {
    struct rusage usage;
    MUST(getrusage(RUSAGE_THREAD, &usage));
    return usage.ru_nvcsw;
}

static void bells_server(int listener) {
    long sum = 0;
    for (int k = 0; k < ROUNDS; k++) {
        char word;
        int fd = accepted(listener);
        read_exact(fd, &word, 1);
        long before = rests();
        close(fd);
        sum += rests() - before;
    }
    fprintf(stderr, "closes: %ld rests\n", sum);
    /* Ten in a second, and a busy machine makes this last some. */
    say("ten closes %s\n", sum < 20 * ROUNDS ? "go on" : "wait");
}

static void bells_client(void) {
    for (int k = 0; k < ROUNDS; k++) {
        char byte = 'q';
        int fd = connected();
        each_edge(count_bell);
        write_all(fd, &byte, 1);
        while (read(fd, &byte, 1) > 0)
            ;
        close(fd);
    }
}

/* What a dump would hold of shared memory, from the kernel's own flags of each mapping. */
static void dump_server(int listener) {
    char line[512];
    bool ours = false;
    unsigned long pages = 0;
    int fd = accepted(listener);
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file);
    unsigned long size = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            ours = strstr(line, "/memfd:dp") != NULL;
            size = to - from;
        } else if (ours && !strncmp(line, "VmFlags:", 8) && !strstr(line, " dd")) {
            pages += size / 4096;
        }
    }
    fclose(file);
    say("pages of channels in a dump: %lu\n", pages);
    close(fd);
}

void server(void) {
    int listener = listen_here();
    if (mode_is("bells"))
        bells_server(listener);
    else
        dump_server(listener);
}

void client(void) {
    if (mode_is("bells"))
        bells_client();
    else
        close(connected());
}
