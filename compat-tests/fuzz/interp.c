// Runs the lines of a fuzzer's script that are one side's: reads an operation, does it, answers with one line.
// The runner drives both sides in lock-step over pipes, which no shim touches. See README.md beside this file.
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "interp.h"

#define NAMES 64
#define STREAMS 32

int is_server;
static struct name names[NAMES];
static struct stream *streams;
_Atomic uint32_t *held;
static _Atomic int pipe_signals;

void say(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof line->result - line->length;
    int n = vsnprintf(line->result + line->length, room, format, arguments);
    va_end(arguments);
    if (n > 0) line->length += (size_t)n < room ? (size_t)n : room - 1;
}

void say_result(struct line *line, long result) {
    int error = errno;
    if (result >= 0)
        say(line, "%ld", result);
    else if (error == EINTR)
        say(line, "blocked");
    else if (strerrorname_np(error))
        say(line, "%s", strerrorname_np(error));
    else
        say(line, "E%d", error);
}

long number(struct line *line, int at, long otherwise) {
    if (at >= line->words) return otherwise;
    char *end;
    long value = strtol(line->word[at], &end, 0);
    return *end ? otherwise : value;
}

const char *word(struct line *line, int at) { return at < line->words ? line->word[at] : ""; }

struct name *find(const char *text) {
    for (int i = 0; i < NAMES; i++)
        if (names[i].text[0] && !strcmp(names[i].text, text)) return &names[i];
    return NULL;
}

int fd_of(const char *text) {
    struct name *name = find(text);
    return name ? name->fd : -1;
}

struct name *bind_name(const char *text, int fd, struct stream *stream) {
    struct name *name = find(text);
    for (int i = 0; !name && i < NAMES; i++)
        if (!names[i].text[0]) name = &names[i];
    if (!name) {
        fprintf(stderr, "too many names\n");
        _exit(90);
    }
    snprintf(name->text, sizeof name->text, "%s", text);
    name->fd = fd;
    name->stream = stream;
    return name;
}

struct stream *new_stream(const char *text) {
    uint64_t id = 1469598103934665603u;
    for (; *text; text++) id = (id ^ (uint64_t)*text) * 1099511628211u;
    for (int i = 0; i < STREAMS; i++)
        if (!streams[i].id) {
            streams[i].id = id;
            return &streams[i];
        }
    fprintf(stderr, "too many connections\n");
    _exit(90);
}

int place_of(const struct stream *stream) { return stream ? (int)(stream - streams) : -1; }

struct stream *stream_at(int place) { return place >= 0 && place < STREAMS ? &streams[place] : NULL; }

static unsigned char byte_at(uint64_t id, int from_server, uint64_t position) {
    uint64_t mixed = (position + id * 31 + (uint64_t)from_server * 0x5851F42D4C957F2Du) * 0x9E3779B97F4A7C15u;
    return (unsigned char)(mixed >> 56);
}

void fill(struct stream *stream, void *bytes, size_t length, uint64_t ahead) {
    unsigned char *out = bytes;
    uint64_t at = stream ? atomic_load(&stream->sent) + ahead : 0;
    for (size_t i = 0; i < length; i++) out[i] = stream ? byte_at(stream->id, is_server, at + i) : 1;
}

void check(struct line *line, struct stream *stream, const void *bytes, size_t length, int taken) {
    const unsigned char *in = bytes;
    if (!stream) return;
    uint64_t at = taken ? atomic_fetch_add(&stream->received, length) : atomic_load(&stream->received);
    if (!in) return; // thrown away (MSG_TRUNC)
    for (size_t i = 0; i < length; i++)
        if (in[i] != byte_at(stream->id, !is_server, at + i)) {
            say(line, " BAD");
            return;
        }
}

_Atomic int ticks;
static void interrupted(int signal) {
    (void)signal;
    atomic_fetch_add(&ticks, 1);
}
static void broken_pipe(int signal) {
    (void)signal;
    atomic_fetch_add(&pipe_signals, 1);
}

void impatient(int on) {
    struct itimerval timer = {{0, on ? 25000 : 0}, {0, on ? 25000 : 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

void run(struct line *line) {
    line->length = 0;
    line->result[0] = 0;
    line->words = 0;
    char *rest = line->text;
    for (char *w; line->words < WORDS && (w = strtok_r(rest, " \r\n", &rest));) line->word[line->words++] = w;
    int signals = atomic_load(&pipe_signals);
    if (!run_transfer(line) && !run_wait(line) && !run_descriptor(line) && !run_rare(line) && !run_passing(line) &&
        !run_crowd(line) && !run_life(line)) say(line, "unknown");
    if (atomic_load(&pipe_signals) != signals) say(line, " +SIGPIPE");
}

void serve(int in, int out) {
    static char input[LINE];
    size_t have = 0;
    for (;;) {
        char *end = memchr(input, '\n', have);
        if (!end) {
            ssize_t n = have < sizeof input ? read(in, input + have, sizeof input - have) : 0;
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) _exit(0);
            have += (size_t)n;
            continue;
        }
        static struct line line;
        size_t length = (size_t)(end - input);
        memcpy(line.text, input, length);
        line.text[length] = 0;
        have -= length + 1;
        memmove(input, end + 1, have);
        run(&line);
        say(&line, "\n");
        if (write(out, line.result, line.length) < 0) _exit(91);
    }
}

// The memory that children share: for the other programs that this one starts, it has a descriptor.
static int share(int fd) {
    size_t length = STREAMS * sizeof *streams + sizeof *held;
    if (fd < 0 || ftruncate(fd, (off_t)length)) return -1;
    streams = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (streams == MAP_FAILED) return -1;
    held = (void *)(streams + STREAMS);
    return 0;
}

// SIDE, or SIDE stranger: that has the shared memory already
int main(int count, char **arguments) {
    if (count != 2 && count != 3) return 92;
    is_server = arguments[1][0] == 's';
    if (count == 2) {
        // Where it is in nobody's way.
        int made = memfd_create("streams", MFD_CLOEXEC);
        if (made < 0 || dup3(made, SHARED, O_CLOEXEC) < 0) return 93;
        close(made);
    }
    if (share(SHARED)) return 93;
    // Without SA_RESTART: a call that would block comes back.
    struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGALRM, &action, NULL);
    action = (struct sigaction){.sa_handler = broken_pipe, .sa_flags = SA_RESTART};
    sigaction(SIGPIPE, &action, NULL);
    serve(0, 1);
}
