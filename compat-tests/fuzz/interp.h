// What the files of the fuzzer's interpreter share: names of descriptors, streams, and one line's result.
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define WORDS 24
#define LINE 1024
// The descriptor of the memory that children share, and in an executed one that of the link to whoever started it.
#define SHARED 900
#define UPWARD 901

// One direction pair of a connection. It lies in memory that children share, because they share the stream.
struct stream {
    uint64_t id;
    _Atomic uint64_t sent, received;
    // What was sent under each mark, and how often each byte came (crowd.c).
    _Atomic uint64_t marked[4];
    _Atomic uint32_t values[256];
};

// A name of the script: a descriptor, and the stream behind it (none: an eventfd, a pipe, an epoll set).
struct name {
    char text[12];
    int fd;
    struct stream *stream;
};

// The words of a line, and where its result is put together.
struct line {
    int words;
    char *word[WORDS];
    char text[LINE];
    char result[LINE];
    size_t length;
    // A thread does it: it may block for as long as it likes.
    int patient;
};

// The first byte says which direction of a stream this process sends.
extern int is_server;

void say(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Prints a call's return value, or the name of its errno.
void say_result(struct line *line, long result);
// The word at a place as a number; `otherwise` if there is none.
long number(struct line *line, int at, long otherwise);
const char *word(struct line *line, int at);

struct name *find(const char *text);
int fd_of(const char *text);
// Makes the name, or gives an old one a new meaning.
struct name *bind_name(const char *text, int fd, struct stream *stream);
struct stream *new_stream(const char *text);
// A stream's number, which its processes agree on; -1: none.
int place_of(const struct stream *stream);
struct stream *stream_at(int place);
// While it is 1, who begins something at once with others waits (crowd.c).
extern _Atomic uint32_t *held;

// Fills with the next bytes that this side sends, which are a function of stream, direction and position.
void fill(struct stream *stream, void *bytes, size_t length, uint64_t ahead);
// Checks received bytes against the same function; `taken` moves the position on. Adds " BAD" to the result if not.
void check(struct line *line, struct stream *stream, const void *bytes, size_t length, int taken);

// While it is on, a signal interrupts the main thread's blocking call every 25 ms; that is reported as "blocked".
void impatient(int on);
// SET EVENTS DATA from word `at` on, if there are any: registers fd.
int watch(struct line *line, int at, int fd);
// How often it did.
extern _Atomic int ticks;

// Each runs one kind of operation and says whether it knew the word.
int run_transfer(struct line *line);
int run_wait(struct line *line);
int run_descriptor(struct line *line);
int run_life(struct line *line);
int run_rare(struct line *line);
int run_passing(struct line *line);
int run_crowd(struct line *line);
// A send by this call: send, write, writev, sendmsg, sendfile, spliceto.
ssize_t give(const char *how, int fd, void *bytes, size_t length, int flags);
// An AF_UNIX socket to a child of that name; without one to whoever started this process. -1: there is none.
int link_to(const char *child);
// Another program, which is the interpreter again and has nothing of this one but three descriptors; bare: and no shim.
void become_stranger(int to, int from, int link, int bare) __attribute__((noreturn));
// Whether a thread is inside its operation.
int is_threaded(void);
void run(struct line *line);
// Reads lines and answers each, until the end of the input.
void serve(int in, int out);
