// Operations of several at once on one connection. Each sender has a mark, and its bytes tell the mark and count on: so it is known
// of each byte whose it is, and whether those of one sender are all there, and in their order, however they are mixed with others'.
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "interp.h"

// A byte is mark * TURN + its place modulo TURN.
enum { MARKS = 4, TURN = 64 };

static struct name named(struct line *line) {
    struct name *name = find(word(line, 1));
    return name ? *name : (struct name){.fd = -1};
}

// hold: who begins to mark or gather from now on waits; go: all of them begin
static void hold(struct line *line, uint32_t on) {
    atomic_store(held, on);
    if (!on) syscall(SYS_futex, held, FUTEX_WAKE, 1 << 20, NULL, NULL, 0);
    say(line, "ok");
}

static void until_go(void) {
    while (atomic_load(held)) syscall(SYS_futex, held, FUTEX_WAIT, 1, NULL, NULL, 0);
}

// A word among the arguments that begins like that: what is behind it.
static const char *behind(struct line *line, const char *start) {
    for (int at = 2; at < line->words; at++)
        if (!strncmp(line->word[at], start, strlen(start))) return line->word[at] + strlen(start);
    return "";
}

// mark NAME MARK COUNT SIZE [by=CALL]: so many sends of so many bytes; what one does not take, the next one gets
static void mark(struct line *line) {
    struct name name = named(line);
    unsigned which = (unsigned)number(line, 2, 0) % MARKS;
    size_t size = (size_t)number(line, 4, 10);
    char *bytes = malloc(size + TURN + 1);
    const char *call = *behind(line, "by=") ? behind(line, "by=") : "send";
    for (size_t i = 0; i < size + TURN; i++) bytes[i] = (char)(which * TURN + i % TURN);
    until_go();
    uint64_t at = name.stream ? atomic_load(&name.stream->marked[which]) : 0, before = at;
    ssize_t n = 0;
    for (long i = number(line, 3, 1); i > 0 && n >= 0; i--)
        for (size_t done = 0; done < size && n >= 0; done += n > 0 ? (size_t)n : 0, at += n > 0 ? (size_t)n : 0)
            n = give(call, name.fd, bytes + at % TURN, size - done, 0);
    if (name.stream) atomic_store(&name.stream->marked[which], at);
    say_result(line, n < 0 ? n : (long)(at - before));
    free(bytes);
}

// What a gatherer knows of the bytes that it has had.
struct known {
    // The place of the next one of each mark; -1: any.
    int next[MARKS];
    // How many of each.
    uint64_t had[MARKS];
    int mark;
};

// Whether a piece goes on where the one before has ended; whole: and leaves no send unfinished for another's.
static int goes_on(struct known *known, const unsigned char *piece, size_t length, size_t whole) {
    for (size_t i = 0; i < length; i++) {
        int which = piece[i] / TURN, place = piece[i] % TURN;
        if (known->next[which] >= 0 && known->next[which] != place) return 0;
        if (whole && known->mark >= 0 && known->mark != which && known->had[known->mark] % whole) return 0;
        known->mark = which;
        known->had[which]++;
        known->next[which] = (place + 1) % TURN;
    }
    return 1;
}

// gather NAME SIZE [beside] [whole=N] [total=N]: receives of so many bytes, until the end, or all are there. beside: others have some of
// them, so only what lies within one receive goes on
static void gather(struct line *line) {
    struct name name = named(line);
    size_t size = (size_t)number(line, 2, 1000), whole = strtoul(behind(line, "whole="), NULL, 10);
    uint64_t total = strtoul(behind(line, "total="), NULL, 10), sum = 0;
    int beside = !strcmp(word(line, 3), "beside"), bad = 0;
    unsigned char *bytes = malloc(size + 1);
    struct known known = {.mark = -1};
    until_go();
    ssize_t n;
    do {
        if (beside) known = (struct known){.next = {-1, -1, -1, -1}, .mark = -1};
        n = recv(name.fd, bytes, size, 0);
        if (n <= 0) break;
        sum += (uint64_t)n;
        bad |= !goes_on(&known, bytes, (size_t)n, beside ? 0 : whole);
        for (ssize_t i = 0; name.stream && i < n; i++) atomic_fetch_add(&name.stream->values[bytes[i]], 1);
    } while (!total || sum < total);
    say_result(line, n > 0 ? (long)sum : n);
    if (bad) say(line, " BAD");
    free(bytes);
}

// gathered NAME [some=MARK]: how many came of each mark, and whether one of them is missing or too many. some: nobody knows how many of
// that one were sent
static void gathered(struct line *line) {
    struct name name = named(line);
    int some = *behind(line, "some=") ? atoi(behind(line, "some=")) : -1, bad = 0;
    for (int which = 0; name.stream && which < MARKS; which++) {
        uint64_t sum = 0;
        for (int place = 0; place < TURN; place++) sum += atomic_load(&name.stream->values[which * TURN + place]);
        for (uint64_t place = 0; place < TURN; place++)
            bad |= atomic_load(&name.stream->values[which * TURN + (int)place]) != (sum + TURN - 1 - place) / TURN;
        if (which == some)
            say(line, "%d:some ", which);
        else if (sum)
            say(line, "%d:%llu ", which, (unsigned long long)sum);
    }
    say(line, bad ? "BAD" : "whole");
}

int run_crowd(struct line *line) {
    const char *what = word(line, 0);
    if (!strcmp(what, "hold")) return hold(line, 1), 1;
    if (!strcmp(what, "go")) return hold(line, 0), 1;
    if (!strcmp(what, "mark")) return mark(line), 1;
    if (!strcmp(what, "gather")) return gather(line), 1;
    if (!strcmp(what, "gathered")) return gathered(line), 1;
    return 0;
}
