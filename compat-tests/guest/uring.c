// SPDX-License-Identifier: MIT OR Apache-2.0
// io_uring on endpoints: nothing is ever given to a worker thread.
#define _GNU_SOURCE
#include "ring.h"

#include <sys/uio.h>

static char buf[4096];

int main(void) {
    int p[2], res = 0;
    uint64_t tag = 0;
    unsigned flags = 0;
    OK(ring_open(0), "a ring");
    dp_pair(p, 4096, 0);
    OK(submit(IORING_OP_WRITE, p[0], "uring", 5, 1) == 1 && done(true, &res, &tag, NULL) && res == 5, "WRITE");
    OK(submit(IORING_OP_READ, p[1], buf, 9, 2) == 1 && done(false, &res, &tag, NULL) && res == 5 && !memcmp(buf, "uring", 5),
       "READ of what is there is done at once");
    struct iovec two[2] = {{"ab", 2}, {"cd", 2}}, out[2] = {{buf, 3}, {buf + 10, 10}};
    OK(submit(IORING_OP_WRITEV, p[0], two, 2, 3) == 1 && done(true, &res, &tag, NULL) && res == 4 &&
           submit(IORING_OP_READV, p[1], out, 2, 4) == 1 && done(true, &res, &tag, NULL) && res == 4 && buf[10] == 'd',
       "WRITEV, READV");
    submit(IORING_OP_READ, p[1], buf, 9, 5);
    pause_ms(20);
    OK(!done(false, &res, &tag, NULL), "READ waits");
    write(p[0], "wake", 4);
    OK(done(true, &res, &tag, NULL) && tag == 5 && res == 4 && !memcmp(buf, "wake", 4), "and ends with a message");
    while (ready(p[0], POLLOUT, 0))
        write(p[0], buf, 900);
    submit(IORING_OP_WRITE, p[0], buf, 900, 6);
    pause_ms(20);
    OK(!done(false, &res, &tag, NULL), "WRITE without room waits");
    while (!done(false, &res, &tag, NULL) && ready(p[1], POLLIN, 100))
        read(p[1], buf, 900);
    OK(tag == 6 && res == 900, "and ends when there is room");
    while (ready(p[1], POLLIN, 0))
        read(p[1], buf, 900);

    submit_later(IORING_OP_POLL_ADD, p[1], NULL, IORING_POLL_ADD_MULTI, 7)->poll32_events = POLLIN;
    enter(1, 0);
    bool good = true;
    for (int i = 0; i < 20; i++) {
        write(p[0], "x", 1);
        good &= done(true, &res, &tag, &flags) && tag == 7 && (res & POLLIN) && (flags & IORING_CQE_F_MORE);
        read(p[1], buf, 9);
        while (done(false, &res, &tag, &flags))
            ;
    }
    OK(good, "POLL_ADD, multishot: 20 messages told");
    submit(IORING_OP_POLL_REMOVE, -1, (void *)7, 0, 8);
    while (done(true, &res, &tag, NULL) && tag != 8)
        ;

    int fixed[1] = {p[1]};
    OK(!syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, fixed, 1), "a registered file");
    submit_later(IORING_OP_READ, 0, buf, 9, 9)->flags = IOSQE_FIXED_FILE;
    enter(1, 0);
    write(p[0], "fixed", 5);
    do
        good = done(true, &res, &tag, NULL);
    while (good && tag != 9);
    OK(res == 5, "READ on it");

    static char pool[8][256];
    submit_later(IORING_OP_PROVIDE_BUFFERS, 8, pool, 256, 10)->buf_group = 3;
    enter(1, 0);
    do
        good = done(true, &res, &tag, NULL);
    while (good && tag != 10);
    struct io_uring_sqe *s = submit_later(IORING_OP_READ_MULTISHOT, p[1], NULL, 0, 11);
    s->flags = IOSQE_BUFFER_SELECT;
    s->buf_group = 3;
    enter(1, 0);
    good = true;
    for (int i = 0; i < 6; i++) {
        write(p[0], &i, 4);
        good &= done(true, &res, &tag, &flags) && tag == 11 && res == 4 && (flags & IORING_CQE_F_MORE);
        good &= !memcmp(pool[flags >> IORING_CQE_BUFFER_SHIFT], &i, 4);
    }
    OK(good, "READ_MULTISHOT: six messages, each in a buffer of its own");
    OK(workers() == 0, "no worker thread was ever started: %d", workers());
    close(ring);
    pause_ms(20);
    close2(p);
    return tap_end();
}
