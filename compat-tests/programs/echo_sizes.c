/* Echo of every size around the powers of two, from 1 B to 1 MiB: framing and wrap-around errors show here. */
#include "common.h"

#define LARGEST (1u << 20)

static char out[sizeof(uint32_t) + LARGEST], in[LARGEST]; /* a size goes first, in the same write */

void server(void) {
    int fd = accepted(listen_here());
    int messages = 0;
    uint64_t sum = SUM_START;
    for (;;) {
        uint32_t size;
        read_exact(fd, &size, sizeof size);
        if (size == 0)
            break;
        CHECK(size <= LARGEST);
        read_exact(fd, in, size);
        sum = checksum(sum, in, size);
        write_all(fd, in, size);
        messages++;
    }
    say("echoed %d messages, sum %016llx", messages, (unsigned long long)sum);
    close(fd);
}

static void send_and_check(int fd, uint32_t size) {
    memcpy(out, &size, sizeof size);
    fill(out + sizeof size, size, size);
    write_all(fd, out, sizeof size + size);
    memset(in, 0, size);
    read_exact(fd, in, size);
    say("%u bytes: %s", size, memcmp(out + sizeof size, in, size) == 0 ? "same" : "DIFFERENT");
}

void client(void) {
    int fd = connected();
    for (uint32_t power = 1; power <= LARGEST; power *= 2) {
        if (power > 4)
            send_and_check(fd, power - 1);
        send_and_check(fd, power);
        if (power > 1 && power < LARGEST)
            send_and_check(fd, power + 1);
    }
    uint32_t end = 0;
    write_all(fd, &end, sizeof end);
    CHECK(read(fd, in, 1) == 0);
    close(fd);
}
