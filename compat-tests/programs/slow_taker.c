/*
 * The buffers of the kernel are small. The receiver gives the connection to stdio with much unread, and does
 * something else before it reads on; the sender, whose sends returned long ago, must not wait for that in any
 * other call, nor must anything be lost if the sender closes meanwhile.
 *   more      the sender sends on after that
 *   shut      it shuts down
 *   close     it closes
 */
#include "common.h"

#define BYTES 120000
#define BUSY 800

void helper(int fd) {
    small_buffer(fd, SO_RCVBUF);
    mark("small", 1);
    await_mark("sent");
    FILE *f = fdopen(fd, "r+");
    CHECK(f);
    mark("given", 1);
    sleep_ms(BUSY);
    uint64_t sum = SUM_START;
    size_t n = 0;
    for (int c; (c = getc(f)) != EOF; n++) {
        unsigned char byte = (unsigned char)c;
        sum = checksum(sum, &byte, 1);
    }
    char *all = malloc(BYTES);
    fill(all, BYTES, 9);
    uint64_t expected = checksum(SUM_START, all, BYTES);
    if (mode_is("more"))
        expected = checksum(expected, "END", 3);
    say("%zu bytes, %s", n, sum == expected ? "as sent" : "NOT as sent");
    fclose(f);
}

void tester(int fd) {
    small_buffer(fd, SO_SNDBUF);
    await_mark("small");
    char *all = malloc(BYTES);
    fill(all, BYTES, 9);
    bool ringed = true;
    /* On TCP there is no room for it, and the rest waits for the receiver. */
    set_nonblocking(fd, true);
    ssize_t n = send(fd, all, BYTES, 0);
    set_nonblocking(fd, false);
    if (n < BYTES) {
        ringed = false;
        mark("sent", 1);
        await_mark("given");
        write_all(fd, all + (n > 0 ? n : 0), BYTES - (size_t)(n > 0 ? n : 0));
    } else {
        mark("sent", 1);
        await_mark("given");
    }
    uint64_t began = now_ms();
    struct pollfd waiting = {fd, POLLIN, 0};
    CHECK(poll(&waiting, 1, 50) == 0);
    CHECK(!ringed || now_ms() - began < 500);
    if (mode_is("more")) {
        write_all(fd, "END", 3);
        MUST(shutdown(fd, SHUT_WR));
    } else if (mode_is("shut")) {
        MUST(shutdown(fd, SHUT_WR));
    }
    CHECK(!ringed || mode_is("more") || now_ms() - began < 500);
    if (mode_is("close")) {
        MUST(close(fd));
        return;
    }
    char byte;
    outcome("at the end", read(fd, &byte, 1));
}
