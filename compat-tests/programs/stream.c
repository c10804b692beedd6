/*
 * One long stream (argument: how many MiB, 64), in pieces that no ring divides by, then a few words each way. Mode
 * "back": the accepting side is the one that sends. Mode "hold" waits in the end for the mark "looked", so that
 * somebody outside can ask what became of the connection.
 */
#include "common.h"

#define PIECE 100003

static void stream(int fd, long mib) {
    char *piece = calloc(1, PIECE);
    uint64_t sum = SUM_START, left = (uint64_t)mib << 20, at = 0;
    while (left > 0) {
        size_t n = left < PIECE ? left : PIECE;
        for (size_t i = 0; i < n; i += 64)
            memcpy(piece + i, &(uint64_t){at + i}, n - i < 8 ? n - i : 8);
        sum = checksum(sum, piece, n < 512 ? n : 512);
        write_all(fd, piece, n);
        left -= n;
        at += n;
    }
    say("%ld MiB, sum %016llx", mib, (unsigned long long)sum);
    free(piece);
}

static void drink(int fd, long mib) {
    char *piece = calloc(1, PIECE);
    uint64_t sum = SUM_START, left = (uint64_t)mib << 20, at = 0;
    while (left > 0) {
        size_t n = left < PIECE ? left : PIECE;
        read_exact(fd, piece, n);
        for (size_t i = 0; i < n; i += 64)
            CHECK(memcmp(piece + i, &(uint64_t){at + i}, n - i < 8 ? n - i : 8) == 0);
        sum = checksum(sum, piece, n < 512 ? n : 512);
        left -= n;
        at += n;
    }
    say("%ld MiB, sum %016llx", mib, (unsigned long long)sum);
    free(piece);
}

static void one_end(int fd, bool sends) {
    for (int turn = 0; turn < 2; turn++) {
        if (sends)
            stream(fd, argument(0, 64) / 2);
        else
            drink(fd, argument(0, 64) / 2);
        /* The other direction in between, and one more stream in the ring as it is by then. */
        for (int i = 0; i < 20; i++) {
            char word[32] = "a few words";
            if (sends)
                read_exact(fd, word, sizeof word);
            else
                write_all(fd, word, sizeof word);
            CHECK(strcmp(word, "a few words") == 0);
        }
    }
    if (mode_is("hold")) {
        mark(is_client ? "client-done" : "server-done", 1);
        await_mark("looked");
    }
}

/* Others before, each served by a process that is killed with its end open (second argument: how many, 0). */
static void served(int listener) {
    int fd = MUST(accept(listener, NULL, NULL));
    pid_t child = MUST(fork());
    if (child == 0) {
        warm_up(fd);
        stream(fd, argument(0, 64));
        raise(SIGKILL);
    }
    close(fd);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

void server(void) {
    int listener = listen_here();
    for (int i = 0; i < argument(1, 0); i++)
        served(listener);
    int fd = accepted(listener);
    one_end(fd, mode_is("back") || argument(1, 0));
    close(fd);
}

void client(void) {
    for (int i = 0; i < argument(1, 0); i++) {
        int fd = connected();
        drink(fd, argument(0, 64));
        /* The end, or a reset: words that were sent to the dead. */
        char byte;
        CHECK(read(fd, &byte, 1) <= 0);
        close(fd);
    }
    int fd = connected();
    one_end(fd, !(mode_is("back") || argument(1, 0)));
    close(fd);
}
