// SPDX-License-Identifier: MIT OR Apache-2.0
// io_uring on endpoints: nothing is ever given to a worker thread.
#define _GNU_SOURCE
#include "tap.h"

#include <dirent.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
static int ring;
static char buf[4096];

static bool ring_open(void) {
    struct io_uring_params p = {0};
    ring = syscall(SYS_io_uring_setup, 64, &p);
    if (ring < 0)
        return false;
    size_t len = p.cq_off.cqes + p.cq_entries * sizeof *cqes;
    char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    sqes = mmap(NULL, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    sq_tail = (unsigned *)(sq + p.sq_off.tail);
    sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    sq_array = (unsigned *)(sq + p.sq_off.array);
    cq_head = (unsigned *)(cq + p.cq_off.head);
    cq_tail = (unsigned *)(cq + p.cq_off.tail);
    cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
    cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    return true;
}

static struct io_uring_sqe *submit_later(int op, int fd, void *at, unsigned len, uint64_t tag) {
    unsigned tail = *sq_tail, i = tail & *sq_mask;
    sqes[i] = (struct io_uring_sqe){.opcode = op, .fd = fd, .addr = (uintptr_t)at, .len = len, .user_data = tag};
    if (op <= IORING_OP_WRITEV || op == IORING_OP_READ || op == IORING_OP_WRITE)
        sqes[i].off = -1;
    sq_array[i] = i;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
    return &sqes[i];
}

static int enter(unsigned submit, unsigned wait) {
    return syscall(SYS_io_uring_enter, ring, submit, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static int submit(int op, int fd, void *at, unsigned len, uint64_t tag) {
    submit_later(op, fd, at, len, tag);
    return enter(1, 0);
}

static bool done(bool wait, int *res, uint64_t *tag, unsigned *flags) {
    if (wait)
        ready(ring, POLLIN, 2000);
    unsigned head = *cq_head;
    if (head == __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE))
        return false;
    struct io_uring_cqe *c = &cqes[head & *cq_mask];
    *res = c->res;
    *tag = c->user_data;
    if (flags)
        *flags = c->flags;
    __atomic_store_n(cq_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

static int workers(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(d));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        int f = open(path, O_RDONLY);
        if (f >= 0 && read(f, name, sizeof name - 1) > 0 && !strncmp(name, "iou-wrk", 7))
            n++;
        close(f);
    }
    closedir(d);
    return n;
}

int main(void) {
    int p[2], res = 0;
    uint64_t tag = 0;
    unsigned flags;
    OK(ring_open(), "a ring");
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
