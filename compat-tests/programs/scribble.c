/*
 * A client with the shim that writes random values all over the memory it shares with the server, while it uses
 * its connections (arguments: milliseconds, seed, 1 to write into the rings only, 2 into the control lines only).
 * What becomes of itself does not matter. Ends after the mark `over`, so that one can see how the server is in between.
 */
#include "arena.h"

#define CONNECTIONS 3

static char *arena;
static volatile bool stop;

static uint64_t evil(uint64_t *state, uint64_t old) {
    uint64_t random = next_random(state);
    switch (random % 8) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return old + 1;
    case 3: return old ^ (1ull << (random >> 8) % 64);
    case 4: return old + (random >> 8) % 5000;
    case 5: return random & UINT32_MAX;
    case 6: return (old & UINT32_MAX) | (random << 32);
    default: return random;
    }
}

static void *scribble(void *unused) {
    (void)unused;
    uint64_t state = (uint64_t)argument(1, 1) * 2654435761u + 1;
    struct arena_header header = *(struct arena_header *)arena;
    size_t ring = (size_t)header.lines * 64, slots = arena_slot_at(&header, 0), length = arena_length(&header);
    size_t shorts = slots + ARENA_CHUNK * ARENA_SLOT, rings = shorts + ARENA_CHUNK * ARENA_SHORT;
    while (!stop) {
        size_t at;
        uint64_t random = next_random(&state);
        long only = argument(2, 0);
        unsigned kind = only == 1 ? 7 : only == 2 ? random % 6 : random % 10;
        if (kind < 4)
            at = slots + (random >> 8) % (CONNECTIONS * ARENA_SLOT);
        else if (kind < 5)
            at = 4096 + (random >> 8) % 4096;
        else if (kind < 6)
            at = (random >> 8) % arena_first(&header);
        else if (random & 128)
            at = shorts + (random >> 8) % (CONNECTIONS * ARENA_SHORT) / 64 * 64;
        else
            at = rings + (random >> 8) % (CONNECTIONS * 2 * ring) / 64 * 64;
        at &= ~(size_t)7;
        if (at + 8 > length)
            continue;
        volatile uint64_t *word = (void *)(arena + at);
        *word = evil(&state, *word);
        if (random % 64 == 0)
            sleep_ms(random % 128 == 0);
    }
    return NULL;
}

static int fresh(void) {
    int fd = connect_there();
    set_nonblocking(fd, true);
    return fd;
}

/* Traffic as it may come; a connection that ends in any way is replaced. */
static void use(int fds[], uint64_t *state) {
    char buffer[30000] = {0};
    for (int i = 0; i < CONNECTIONS; i++) {
        size_t n = 1 + next_random(state) % (*state % 4 ? 500 : sizeof buffer);
        ssize_t sent = send(fds[i], buffer, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        ssize_t got = recv(fds[i], buffer, sizeof buffer, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN) || (sent < 0 && errno != EAGAIN)) {
            close(fds[i]);
            fds[i] = fresh();
        }
    }
    struct pollfd entry = {.fd = fds[next_random(state) % CONNECTIONS], .events = POLLIN};
    poll(&entry, 1, 1);
}

void client(void) {
    int fds[CONNECTIONS];
    uint64_t state = (uint64_t)argument(1, 1);
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = fresh();
    uint64_t end = now_ms() + 5000;
    while (!(arena = arena_of_ours()) && now_ms() < end)
        for (int i = 0; i < 10; i++)
            use(fds, &state);
    CHECK(arena);
    for (int i = 0; i < 100; i++)
        use(fds, &state);
    mark("scribbling", 1);
    pthread_t thread = start_thread(scribble, NULL);
    end = now_ms() + (uint64_t)argument(0, 500);
    while (now_ms() < end)
        use(fds, &state);
    stop = true;
    pthread_join(thread, NULL);
    mark("scribbled", 1);
    await_mark("over");
}

void server(void) {}
