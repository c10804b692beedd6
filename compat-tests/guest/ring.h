// SPDX-License-Identifier: MIT OR Apache-2.0
// io_uring in few words, without a library: one ring, and how many worker threads it has.
#ifndef RING_H
#define RING_H

#include "tap.h"

#include <dirent.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>

static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
static int ring;

/* flags: IORING_SETUP_... */
static inline bool ring_open(unsigned flags) {
    struct io_uring_params p = {.flags = flags, .sq_thread_idle = 1000};
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

static inline struct io_uring_sqe *submit_later(int op, int fd, void *at, unsigned len, uint64_t tag) {
    unsigned tail = *sq_tail, i = tail & *sq_mask;
    sqes[i] = (struct io_uring_sqe){.opcode = op, .fd = fd, .addr = (uintptr_t)at, .len = len, .user_data = tag};
    if (op <= IORING_OP_WRITEV || op == IORING_OP_READ || op == IORING_OP_WRITE)
        sqes[i].off = -1;
    sq_array[i] = i;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
    return &sqes[i];
}

static inline int enter(unsigned submit, unsigned wait) {
    return syscall(SYS_io_uring_enter, ring, submit, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static inline int submit(int op, int fd, void *at, unsigned len, uint64_t tag) {
    submit_later(op, fd, at, len, tag);
    return enter(1, 0);
}

/* The oldest result. */
static inline bool done(bool wait, int *res, uint64_t *tag, unsigned *flags) {
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

static inline int workers(void) {
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

#endif
