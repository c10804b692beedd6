/*
 * C's buffered streams on a connection that has been used plainly before. The C library reads and writes
 * inside itself then. Modes: fdopen (one stream each way), fdopen_both ("r+"), dprintf, backtrace, standard
 * (stdin and stdout moved onto the connection).
 */
#include "common.h"

#include <execinfo.h>

#define LINES 200

static void talk(FILE *in, FILE *out, bool answers) {
    char line[1200];
    for (int i = 0; i < LINES; i++) {
        int width = i * 5 % 1000;
        if (answers) {
            CHECK(fgets(line, sizeof line, in));
            CHECK(fputs(line, out) >= 0);
        } else {
            int number = -1;
            CHECK(fprintf(out, "%d %0*d\n", i, width, i) > 0);
            CHECK(fflush(out) == 0);
            CHECK(fgets(line, sizeof line, in));
            CHECK(sscanf(line, "%d", &number) == 1 && number == i);
        }
        CHECK(fflush(out) == 0);
    }
}

static void with_dprintf(int fd) {
    char line[64];
    for (int i = 0; i < LINES; i++) {
        CHECK(dprintf(fd, "line %5d\n", i) == 11);
        read_exact(fd, line, 11);
        CHECK(atoi(line + 5) == i);
        exchange(fd, 100, (uint64_t)i); /* plain calls in between: the order must hold */
    }
}

static void with_backtrace(int fd) {
    char line[8] = "";
    for (int i = 0; i < LINES; i++) {
        void *nowhere[] = {(void *)0x10};
        backtrace_symbols_fd(nowhere, 1, fd);
        read_exact(fd, line, 7);
        CHECK(strcmp(line, "[0x10]\n") == 0);
        exchange(fd, 100, (uint64_t)i);
    }
}

static void with_standard_streams(int fd) {
    int transcript = MUST(dup(1)), input = MUST(dup(0));
    MUST(dup2(fd, 0));
    MUST(dup2(fd, 1));
    char line[1200];
    for (int i = 0; i < LINES; i++) {
        int number = -1;
        printf("%d %0*d\n", i, i * 5 % 1000, i);
        fflush(stdout);
        CHECK(fgets(line, sizeof line, stdin));
        CHECK(sscanf(line, "%d", &number) == 1 && number == i);
    }
    MUST(dup2(transcript, 1));
    MUST(dup2(input, 0));
    close(transcript);
    close(input);
}

static FILE *stream(int fd, const char *how) {
    FILE *file = fdopen(fd, how);
    CHECK(file);
    return file;
}

void tester(int fd) {
    if (mode_is("dprintf")) {
        with_dprintf(fd);
    } else if (mode_is("backtrace")) {
        with_backtrace(fd);
    } else if (mode_is("standard")) {
        with_standard_streams(fd);
    } else if (mode_is("fdopen_both")) {
        FILE *both = stream(MUST(dup(fd)), "r+");
        talk(both, both, false);
        CHECK(fclose(both) == 0);
    } else {
        FILE *in = stream(MUST(dup(fd)), "r"), *out = stream(MUST(dup(fd)), "w");
        talk(in, out, false);
        CHECK(fclose(in) == 0 && fclose(out) == 0);
        exchange(fd, 100, 1); /* nothing was left in the streams */
    }
    say("%d lines", LINES);
}

void helper(int fd) {
    if (mode_is("fdopen")) {
        FILE *in = stream(MUST(dup(fd)), "r"), *out = stream(MUST(dup(fd)), "w");
        talk(in, out, true);
        CHECK(fclose(in) == 0 && fclose(out) == 0);
    }
    echo_until_eof(fd);
}
