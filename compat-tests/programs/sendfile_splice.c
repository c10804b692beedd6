/*
 * Bytes between a file and the connection without passing through the program.
 * Modes: sendfile, splice_out (file, pipe, socket), splice_in (socket, pipe, file);
 * never_blocks (nonblocking ends, full and empty in turn), pipes_only (calls that take no socket),
 * no_file (sendfile from what is no ordinary file), reset (splice_in of all that was sent before a reset),
 * lengths (lengths and flags that the kernel refuses), pipe_signal (handlers run while a pipe is full).
 */
#include "common.h"

#include <sys/sendfile.h>

#define SIZE (2 * 1024 * 1024 + 123)

static char data[SIZE], back[SIZE];

static int data_file(bool filled) {
    char path[512];
    path_beside(path, sizeof path, is_client ? "client-data" : "server-data");
    int file = MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
    if (filled) {
        write_all(file, data, SIZE);
        MUST(lseek(file, 0, SEEK_SET));
    }
    return file;
}

static void with_sendfile(int fd, int file) {
    off_t offset = 1000;
    CHECK(sendfile(fd, file, NULL, 1000) == 1000); /* the file's own position moves */
    while (offset < SIZE / 2)
        MUST(sendfile(fd, file, &offset, (size_t)(SIZE / 2 - offset)));
    CHECK(lseek(file, 0, SEEK_CUR) == 1000); /* and stays when an offset is given */
    MUST(lseek(file, SIZE / 2, SEEK_SET));
    for (size_t left = SIZE - SIZE / 2; left > 0;)
        left -= (size_t)MUST(sendfile(fd, file, NULL, left));
    outcome("sendfile at the end", sendfile(fd, file, NULL, 10));
}

static void splice_out(int fd, int file) {
    int ends[2];
    MUST(pipe(ends));
    for (ssize_t n; (n = MUST(splice(file, NULL, ends[1], NULL, 50000, 0))) > 0;)
        while (n > 0)
            n -= MUST(splice(ends[0], NULL, fd, NULL, (size_t)n, SPLICE_F_MORE));
}

static void splice_in(int fd, int file) {
    int ends[2];
    MUST(pipe(ends));
    for (ssize_t n; (n = MUST(splice(fd, NULL, ends[1], NULL, 50000, SPLICE_F_MOVE))) > 0;)
        while (n > 0)
            n -= MUST(splice(ends[0], NULL, file, NULL, (size_t)n, 0));
    CHECK(pread(file, back, SIZE, 0) == SIZE);
    say("spliced in: %s", memcmp(data, back, SIZE) == 0 ? "same" : "DIFFERENT");
}

/* Into a socket that nobody reads, until it takes no more; what it took must arrive, and nothing else. */
static void splice_until_full(int fd, int ends[2]) {
    uint64_t piped = 0, taken = 0;
    for (int turns = 0; turns < 100000; turns++) {
        ssize_t n = write(ends[1], data, 4096);
        if (n > 0)
            piped += (uint64_t)n; /* all of it, or nothing */
        n = splice(ends[0], NULL, fd, NULL, 65536, 0);
        if (n < 0) {
            outcome("splice into a full socket", n);
            break;
        }
        taken += (uint64_t)n;
    }
    int left = -1;
    MUST(ioctl(ends[0], FIONREAD, &left));
    say("in the pipe or sent: %s", taken + (uint64_t)left == piped ? "all" : "NOT ALL");
    say("much was sent: %s", taken > 100000 ? "yes" : "NO");
    mark("taken", taken);
    for (uint64_t rest = (uint64_t)left; rest > 0;) {
        ssize_t n = splice(ends[0], NULL, fd, NULL, rest, 0);
        CHECK(n > 0 || errno == EAGAIN);
        rest -= n > 0 ? (uint64_t)n : 0;
        taken += n > 0 ? (uint64_t)n : 0;
    }
    mark("all", taken);
}

static void sendfile_until_full(int fd, int file) {
    off_t offset = 0;
    uint64_t taken = 0;
    for (ssize_t n; (n = sendfile(fd, file, &offset, SIZE)) >= 0; offset %= SIZE)
        taken += (uint64_t)n;
    outcome("sendfile into a full socket", -1);
    CHECK((uint64_t)offset == taken % SIZE);
    mark("sent", taken);
}

static void splice_from(int fd, int ends[2]) {
    char buffer[8192];
    outcome("splice from an empty socket", splice(fd, NULL, ends[1], NULL, 100, 0));
    set_nonblocking(fd, false);
    mark("talk", 0);
    outcome("splice waits", splice(fd, NULL, ends[1], NULL, 4096, SPLICE_F_NONBLOCK) > 0);
    int waiting = 0;
    do
        MUST(ioctl(fd, FIONREAD, &waiting));
    while (waiting < 4096);
    while (write(ends[1], buffer, sizeof buffer) > 0) {
    }
    outcome("splice into a full pipe", splice(fd, NULL, ends[1], NULL, 4096, SPLICE_F_NONBLOCK));
    outcome("splice into a pipe's other end", splice(fd, NULL, ends[0], NULL, 4096, SPLICE_F_NONBLOCK));
    outcome("splice to a file", splice(fd, NULL, fd, NULL, 4096, SPLICE_F_NONBLOCK));
    MUST(close(ends[0]));
    signal(SIGPIPE, SIG_IGN);
    outcome("splice into nobody's pipe", splice(fd, NULL, ends[1], NULL, 4096, SPLICE_F_NONBLOCK));
    int still = 0;
    MUST(ioctl(fd, FIONREAD, &still));
    say("nothing was taken: %s", still >= waiting ? "yes" : "NO");
}

static void never_blocks(int fd, int file) {
    int ends[2];
    MUST(pipe2(ends, O_NONBLOCK));
    set_nonblocking(fd, true);
    splice_until_full(fd, ends);
    CHECK(await_mark("read") == 0);
    sendfile_until_full(fd, file);
    CHECK(await_mark("read_again") == 0);
    splice_from(fd, ends);
}

/* Reads `length` bytes, of which byte k is data[k % period]. */
static void expect(int fd, uint64_t *got, uint64_t length, size_t period) {
    for (uint64_t end = *got + length; *got < end;) {
        size_t at = *got % period, n = period - at < end - *got ? period - at : (size_t)(end - *got);
        read_exact(fd, back, n);
        CHECK(memcmp(back, data + at, n) == 0);
        *got += n;
    }
}

static void never_blocks_helper(int fd) {
    uint64_t got = 0;
    char none;
    expect(fd, &got, await_mark("taken"), 4096);
    expect(fd, &got, await_mark("all") - got, 4096);
    mark("read", 0);
    got = 0;
    expect(fd, &got, await_mark("sent"), SIZE);
    CHECK(recv(fd, &none, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    mark("read_again", 0);
    await_mark("talk");
    sleep_ms(30);
    write_all(fd, data, 10000);
    CHECK(read(fd, &none, 1) <= 0); /* it closes with bytes unread */
}

static void pipes_only(int fd, int file) {
    int ends[2];
    char word[] = "a word";
    struct iovec piece = {word, sizeof word};
    MUST(pipe(ends));
    outcome("tee from a socket", tee(fd, ends[1], 100, 0));
    outcome("tee to a socket", tee(ends[0], fd, 100, 0));
    outcome("vmsplice", vmsplice(fd, &piece, 1, 0));
    outcome("copy_file_range", copy_file_range(file, NULL, fd, NULL, 100, 0));
    outcome("copy_file_range from", copy_file_range(fd, NULL, file, NULL, 100, 0));
    outcome("sendfile from a socket", sendfile(fd, fd, NULL, 100));
    outcome("sendfile from a pipe", sendfile(fd, ends[0], NULL, 100));
    outcome("sendfile from nowhere", sendfile(fd, -1, NULL, 100));
    outcome("splice at an offset", splice(ends[0], NULL, fd, (off64_t[]){0}, 100, 0));
    outcome("splice from at an offset", splice(fd, (off64_t[]){0}, ends[1], NULL, 100, 0));
    outcome("splice of nothing", splice(fd, NULL, ends[1], NULL, 0, 0));
}

static void no_file(int fd) {
    static const char *const paths[] = {"/", "/dev/null", "/dev/zero", "/proc/self/cmdline", "/sys/kernel/fscaps"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int from = MUST(open(paths[i], O_RDONLY));
        ssize_t n = sendfile(fd, from, NULL, 50);
        outcome(paths[i], n);
        for (; n > 0; n--)
            read_exact(fd, back, 1);
        close(from);
    }
}

/* What is refused moves nothing: neither to the helper, who sends back what comes, nor out of what has come. */
static void lengths(int fd, int file) {
    int ends[2], there = 0;
    char word[] = "a word";
    MUST(pipe(ends));
    write_all(fd, word, sizeof word);
    while (there < (int)sizeof word)
        MUST(ioctl(fd, FIONREAD, &there));
    outcome("sendfile of no length", sendfile(fd, file, NULL, (size_t)-1));
    outcome("sendfile of no length into a pipe", sendfile(ends[1], fd, NULL, (size_t)-1));
    outcome("splice of no length", splice(fd, NULL, ends[1], NULL, (size_t)-1, SPLICE_F_NONBLOCK));
    outcome("splice with a flag too many", splice(fd, NULL, ends[1], NULL, 4, 0x80));
    outcome("splice of nothing with it", splice(fd, NULL, ends[1], NULL, 0, 0x80));
    MUST(ioctl(fd, FIONREAD, &there));
    say("there: %d", there);
    read_exact(fd, word, sizeof word);
    CHECK(strcmp(word, "a word") == 0);
}

static volatile sig_atomic_t handled;
static pthread_t filler;
static int full_pipe[2];

static void count_handled(int number) {
    (void)number;
    handled++;
}

static volatile bool filled;

static void *signal_and_make_room(void *unused) {
    for (int i = 0; i < 20; i++) {
        sleep_ms(10);
        pthread_kill(filler, SIGUSR1);
    }
    sleep_ms(50);
    for (size_t n = 0; n < 65536; n += (size_t)MUST(read(full_pipe[0], back, 65536 - n))) {
    }
    return unused;
}

static void *signal_until_filled(void *unused) {
    while (!filled) {
        sleep_ms(20);
        pthread_kill(filler, SIGUSR1);
    }
    return unused;
}

static ssize_t fill_by(int fd, bool with_sendfile) {
    return with_sendfile ? sendfile(full_pipe[1], fd, NULL, 6) : splice(fd, NULL, full_pipe[1], NULL, 6, 0);
}

/* A handler with SA_RESTART does not end a call that waits for a pipe's room; one without it does. */
static void pipe_signal(int fd) {
    filler = pthread_self();
    for (int i = 0; i < 4; i++) {
        struct sigaction action = {.sa_handler = count_handled, .sa_flags = i < 2 ? SA_RESTART : 0};
        int there = 0;
        MUST(sigaction(SIGUSR1, &action, NULL));
        MUST(pipe(full_pipe));
        MUST(fcntl(full_pipe[1], F_SETPIPE_SZ, 65536));
        CHECK(write(full_pipe[1], data, 65536) == 65536);
        write_all(fd, "a word", 6);
        while (there < 6)
            MUST(ioctl(fd, FIONREAD, &there));
        handled = 0;
        filled = false;
        pthread_t thread = start_thread(i < 2 ? signal_and_make_room : signal_until_filled, NULL);
        ssize_t n = fill_by(fd, i % 2);
        int error = errno;
        filled = true;
        pthread_join(thread, NULL);
        CHECK(handled > 0);
        errno = error;
        outcome(i % 2 ? "sendfile" : "splice", n);
        if (n < 0)
            read_exact(fd, back, 6);
        MUST(close(full_pipe[0]));
        MUST(close(full_pipe[1]));
    }
}

/* As much as is copied at a time: what comes behind it is the next call's. */
#define PIECE (64 * 1024)

static void splice_before_a_reset(int fd) {
    int ends[2], there = 0;
    MUST(pipe(ends));
    MUST(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20));
    /* All of it must fit: a reset takes along what is not there yet. */
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){1 << 20}, sizeof(int)));
    mark("talk", 0);
    for (int turns = 0; there < PIECE; turns++) {
        CHECK(turns < 10000);
        sleep_ms(1);
        MUST(ioctl(fd, FIONREAD, &there));
    }
    mark("there", 0);
    await_mark("gone");
    outcome("splice", splice(fd, NULL, ends[1], NULL, 1 << 20, 0));
    outcome("splice behind it", splice(fd, NULL, ends[1], NULL, 1 << 20, 0));
    outcome("splice at the end", splice(fd, NULL, ends[1], NULL, 1 << 20, 0));
}

static void reset_behind(int fd) {
    await_mark("talk");
    write_all(fd, data, PIECE);
    await_mark("there");
    struct linger none = {1, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    MUST(close(fd));
    mark("gone", 0);
}

void tester(int fd) {
    fill(data, SIZE, 77);
    if (mode_is("reset")) {
        splice_before_a_reset(fd);
        return;
    }
    if (mode_is("never_blocks")) {
        never_blocks(fd, data_file(true));
        return;
    }
    if (mode_is("lengths")) {
        lengths(fd, data_file(true));
        return;
    }
    if (mode_is("pipe_signal")) {
        pipe_signal(fd);
        return;
    }
    if (mode_is("splice_in")) {
        splice_in(fd, data_file(false));
        char byte = 'k';
        write_all(fd, &byte, 1);
    } else {
        int file = data_file(true);
        exchange(fd, 1000, 5); /* ordinary calls before and after must stay in order */
        if (mode_is("sendfile"))
            with_sendfile(fd, file);
        else if (mode_is("pipes_only"))
            pipes_only(fd, file);
        else if (mode_is("no_file"))
            no_file(fd);
        else
            splice_out(fd, file);
        exchange(fd, 1000, 6);
    }
    say("%d bytes", SIZE);
}

void helper(int fd) {
    fill(data, SIZE, 77);
    if (mode_is("reset")) {
        reset_behind(fd);
        return;
    }
    if (mode_is("splice_in")) {
        write_all(fd, data, SIZE);
        MUST(shutdown(fd, SHUT_WR));
        read_exact(fd, back, 1);
        return;
    }
    if (mode_is("never_blocks")) {
        never_blocks_helper(fd);
        return;
    }
    if (mode_is("lengths") || mode_is("pipe_signal")) {
        echo_until_eof(fd);
        return;
    }
    read_exact(fd, back, 1000);
    write_all(fd, back, 1000);
    if (mode_is("pipes_only") || mode_is("no_file")) {
        echo_until_eof(fd);
        return;
    }
    read_exact(fd, back, SIZE);
    say("arrived: %s", memcmp(data, back, SIZE) == 0 ? "same" : "DIFFERENT");
    echo_until_eof(fd);
}
