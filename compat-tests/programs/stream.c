/*
 * One long stream (argument: how many MiB, 64), in pieces that no ring divides by, then a few words each way. Mode
 * "back": the accepting side is the one that sends. Mode "hold" waits in the end for the mark "looked", so that
 * somebody outside can ask what became of the connection. Who receives looks at every byte, so it is the slower of the
 * two, and no ring is long enough for long. With a third argument each piece is answered, so that no ring is ever full.
 * With a fourth the sender never blocks but polls, as servers of many clients do: it fills TCP's buffers whenever it can.
 */
#include "common.h"

#define PIECE 100003

static bool answered(void) {
    return argument(2, 0) != 0;
}

static bool polls(void) {
    return argument(3, 0) != 0;
}

static void give(int fd, const char *piece, size_t n) {
    if (!polls()) {
        write_all(fd, piece, n);
        return;
    }
    while (n > 0) {
        ssize_t sent = send(fd, piece, n, MSG_DONTWAIT);
        if (sent < 0) {
            CHECK(errno == EAGAIN);
            CHECK(poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1) == 1);
            continue;
        }
        piece += sent;
        n -= (size_t)sent;
    }
}

static void stream(int fd, long mib) {
    char *piece = calloc(1, PIECE);
    uint64_t sum = SUM_START, left = (uint64_t)mib << 20, at = 0;
    while (left > 0) {
        size_t n = left < PIECE ? left : PIECE;
        for (size_t i = 0; i < n; i += 64)
            memcpy(piece + i, &(uint64_t){at + i}, n - i < 8 ? n - i : 8);
        sum = checksum(sum, piece, n < 512 ? n : 512);
        give(fd, piece, n);
        if (answered())
            read_exact(fd, piece, 1);
        left -= n;
        at += n;
    }
    say("%ld MiB, sum %016llx", mib, (unsigned long long)sum);
    free(piece);
}

/* The position in the stream every 64 bytes, and nothing between them. */
static bool is_piece(const char *piece, size_t n, uint64_t at) {
    static const char nothing[56];
    for (size_t i = 0; i < n; i += 64) {
        size_t word = n - i < 8 ? n - i : 8, rest = n - i < 64 ? n - i - word : sizeof nothing;
        if (memcmp(piece + i, &(uint64_t){at + i}, word) || memcmp(piece + i + word, nothing, rest))
            return false;
    }
    return true;
}

static void drink(int fd, long mib) {
    char *piece = calloc(1, PIECE);
    uint64_t sum = SUM_START, left = (uint64_t)mib << 20, at = 0;
    while (left > 0) {
        size_t n = left < PIECE ? left : PIECE;
        read_exact(fd, piece, n);
        CHECK(is_piece(piece, n, at));
        if (answered())
            write_all(fd, "!", 1);
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

/*
 * Others before (second argument: how many, 0), open at the same time; all but the first few carry a stream. Mode "hold"
 * waits for the mark "counted" before they are closed.
 */
#define FEW 4
#define MOST 64
#define OTHERS_MIB 48

static int others(void) {
    return (int)argument(1, 0);
}

static void held_before_close(void) {
    if (others() == 0 || !mode_is("hold"))
        return;
    mark(is_client ? "client-before" : "server-before", 1);
    await_mark("counted");
}

void server(void) {
    int listener = listen_here(), fd, early[MOST];
    CHECK(others() <= MOST);
    for (int i = 0; i < others(); i++)
        early[i] = accepted(listener);
    for (int i = FEW; i < others(); i++)
        stream(early[i], OTHERS_MIB);
    held_before_close();
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
        drink(early[i], OTHERS_MIB);
    held_before_close();
    for (int i = 0; i < others(); i++)
        close(early[i]);
    if (others())
        await_mark("closed");
    fd = connected();
    one_end(fd, !(mode_is("back") || others()));
    close(fd);
}
