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

/* Others before (second argument: how many, 0), open at the same time; all but the first few carry a stream. */
#define FEW 4
#define MOST 64

static int others(void) {
    return (int)argument(1, 0);
}

void server(void) {
    int listener = listen_here(), fd, early[MOST];
    CHECK(others() <= MOST);
    for (int i = 0; i < others(); i++)
        early[i] = accepted(listener);
    for (int i = FEW; i < others(); i++)
        stream(early[i], argument(0, 64));
    for (int i = 0; i < others(); i++)
        close(early[i]);
    if (others())
        mark("closed", 1);
    fd = accepted(listener);
    one_end(fd, mode_is("back") || others());
    close(fd);
}

void client(void) {
    int fd, early[MOST];
    CHECK(others() <= MOST);
    for (int i = 0; i < others(); i++)
        early[i] = connected();
    for (int i = FEW; i < others(); i++)
        drink(early[i], argument(0, 64));
    for (int i = 0; i < others(); i++)
        close(early[i]);
    if (others())
        await_mark("closed");
    fd = connected();
    one_end(fd, !(mode_is("back") || others()));
    close(fd);
}
