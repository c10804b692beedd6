/*
 * For programs whose threads or processes race: bytes that tell where they belong, and a watchdog that tells who hangs.
 * Each thread has a place on a board, which all processes of a side share, and says there in which call it is. Where
 * nothing moves for a while the board is printed, with what the kernel says of each thread.
 */
#ifndef COMPAT_RACES_H
#define COMPAT_RACES_H

#include "common.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define PLACES 128
/* Nothing moves for so long, in seconds: less than the 30 that the harness waits. */
#define PATIENCE 12

struct place {
    char who[24];
    _Atomic pid_t process, thread;
    /* A literal, which is at the same address in all processes of a side; NULL outside of calls. */
    const char *_Atomic call;
    _Atomic int fd;
    _Atomic uint64_t since, calls, bytes;
};

static struct board {
    /* Streams, or whatever else has to be done, that are not through. */
    _Atomic int running;
    /* Whatever moves on. */
    _Atomic uint64_t moved;
    _Atomic bool failed;
    struct place places[PLACES];
} *board;

static __thread struct place *here;
static uint64_t seed;

static __attribute__((unused)) void *shared_memory(size_t length) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Before the first thread or child. The first argument of a mode is the seed. */
static void begin_races(void) {
    board = shared_memory(sizeof *board);
    seed = (uint64_t)argument(0, 1);
    say("seed %llu", (unsigned long long)seed);
}

/* A place of the board is this thread's. */
static void stand(const char *who, int number) {
    pid_t nobody = 0;
    int place = 0;
    while (!atomic_compare_exchange_strong(&board->places[place].thread, &nobody, gettid())) {
        nobody = 0;
        CHECK(++place < PLACES);
    }
    here = &board->places[place];
    snprintf(here->who, sizeof here->who, "%s %d", who, number);
    here->process = getpid();
    here->calls = here->bytes = 0;
}

/* For threads and children of which there are many, one after the other. */
static __attribute__((unused)) void step_down(void) {
    here->call = NULL;
    here->thread = 0;
    here = NULL;
}

static void note(const char *call, int fd) {
    here->fd = fd;
    here->since = now_ms();
    here->calls++;
    here->call = call;
}

/* A call that may sleep, with the thread's place telling of it. */
#define IN(what, where, expression)           \
    ({                                        \
        note(what, where);                    \
        __auto_type in_result = (expression); \
        int in_error = errno;                 \
        here->call = NULL;                    \
        errno = in_error;                     \
        in_result;                            \
    })

static __attribute__((unused)) void count_bytes(size_t bytes) {
    board->moved += bytes;
    if (here)
        here->bytes += bytes;
}

static __attribute__((unused)) uint64_t random_of(unsigned what) {
    uint64_t state = (seed * 2 + is_client + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)what * 0xbf58476d1ce4e5b9ull;
    for (int i = 0; i < 8; i++)
        next_random(&state);
    return state;
}

static size_t below(uint64_t *random, size_t limit) { return (size_t)((next_random(random) >> 20) % limit); }

/* 1 to most: as often short as long. */
static size_t some_size(uint64_t *random, size_t most) {
    size_t size = 1 + below(random, (size_t)1 << below(random, 20));
    return size < most ? size : most;
}

/* Byte `at` of a stream: those of two streams are told apart as well. */
static uint64_t origin(unsigned stream, uint64_t at) { return at + (uint64_t)stream * 1000003; }

static __attribute__((unused)) void make_bytes(char *to, size_t n, unsigned stream, uint64_t at) {
    for (size_t i = 0; i < n; i++)
        to[i] = (char)pattern(origin(stream, at + i));
}

static void kernel_says(pid_t process, pid_t thread) {
    char path[64], text[128];
    const char *const files[] = {"wchan", "syscall"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", process, thread, files[i]);
        FILE *file = fopen(path, "r");
        if (file && fgets(text, sizeof text, file)) {
            text[strcspn(text, "\n")] = 0;
            printf(", %s", text);
        }
        if (file)
            fclose(file);
    }
}

static void tell_board(void) {
    say("running %d, moved %llu", board->running, (unsigned long long)board->moved);
    for (int i = 0; i < PLACES; i++) {
        struct place *place = &board->places[i];
        if (place->thread == 0)
            continue;
        const char *call = place->call;
        printf("%s: %s of %d for %llu ms, call %llu, %llu bytes", place->who, call ? call : "nothing", place->fd,
               (unsigned long long)(now_ms() - place->since), (unsigned long long)place->calls,
               (unsigned long long)place->bytes);
        kernel_says(place->process, place->thread);
        putchar('\n');
    }
}

/* What the program itself knows of the streams. */
static void tell_streams(void);

static __attribute__((noreturn)) void give_up(int line, const char *what) {
    int error = errno;
    if (!atomic_exchange(&board->failed, true)) {
        tell_streams();
        tell_board();
        errno = error;
        fail("races", line, what);
    }
    for (;;) /* another one tells */
        pause();
}

#define HOLDS(condition)                        \
    do {                                        \
        if (!(condition))                       \
            give_up(__LINE__, #condition);      \
    } while (0)

static __attribute__((unused)) void check_bytes(const char *bytes, size_t n, unsigned stream, uint64_t at) {
    if (is_pattern(bytes, n, origin(stream, at)))
        return;
    size_t k = 0;
    while ((uint8_t)bytes[k] == pattern(origin(stream, at + k)))
        k++;
    say("stream %u at %llu, %zu into %zu: %d in place of %d", stream, (unsigned long long)(at + k), k, n, bytes[k] & 0xff,
        pattern(origin(stream, at + k)));
    for (int64_t far = 1; far < 1000000 && n - k >= 32; far = far > 0 ? -far : 1 - far)
        if (is_pattern(bytes + k, 32, origin(stream, at + k) + (uint64_t)far)) {
            say("what comes belongs %lld later", (long long)far);
            break;
        }
    give_up(__LINE__, "other bytes");
}

/* A connection, and how far it has come in both directions. */
struct stream {
    int number, fd;
    _Atomic uint64_t received, sent;
};

/* Which bytes go there: this side's, or the peer's. */
static __attribute__((unused)) unsigned bytes_of(const struct stream *stream, bool mine) {
    return (unsigned)stream->number * 2 + (mine == is_client);
}

static __attribute__((unused)) void begin_stream(struct stream *stream, int number, int fd) {
    stream->number = number;
    stream->fd = fd;
}

static __attribute__((unused)) void tell_stream(const struct stream *stream) {
    say("%d, descriptor %d: received %llu, sent %llu", stream->number, stream->fd, (unsigned long long)stream->received,
        (unsigned long long)stream->sent);
}

/* Bytes that were received are the next ones. */
static __attribute__((unused)) void came(struct stream *stream, const char *bytes, ssize_t n) {
    check_bytes(bytes, (size_t)n, bytes_of(stream, false), stream->received);
    stream->received += (uint64_t)n;
    count_bytes((size_t)n);
}

/* The next bytes to send, and so many of them were. */
static __attribute__((unused)) void make_next(const struct stream *stream, char *bytes, size_t n) {
    make_bytes(bytes, n, bytes_of(stream, true), stream->sent);
}

static __attribute__((unused)) void went(struct stream *stream, ssize_t n) {
    HOLDS(n > 0);
    stream->sent += (uint64_t)n;
    count_bytes((size_t)n);
}

static __attribute__((unused)) size_t least(size_t a, uint64_t b) { return a < b ? a : (size_t)b; }

/* The program: both sides do the same, or ask which they are. */
static void race(void);

void server(void) { race(); }

void client(void) { race(); }

/* Connections in the same order on both sides. */
static __attribute__((unused)) void open_links(int count, void (*add)(int link, int fd)) {
    int listener = is_client ? -1 : listen_here();
    for (int i = 0; i < count; i++) {
        int fd = is_client ? connected() : accepted(listener);
        no_delay(fd);
        add(i, fd);
    }
    if (!is_client)
        close(listener);
}

/* Until no more than `rest` run. */
static void watch_races_until(int rest) {
    uint64_t before = 0;
    for (int still = 0; board->running > rest; sleep_ms(5)) {
        still = board->moved == before ? still + 1 : 0;
        before = board->moved;
        if (still > PATIENCE * 200)
            give_up(__LINE__, "nothing moves");
    }
}

static __attribute__((unused)) void watch_races(void) { watch_races_until(0); }

#endif
