// SPDX-License-Identifier: MIT OR Apache-2.0
// An endpoint whose messages are read in place, in few words.
#ifndef PLACE_H
#define PLACE_H

#include "tap.h"

struct pool {
    int fd;
    uint64_t ring, taken;
    unsigned char *bytes;
    struct dp_control *control;
    /* The message that was taken last, if it lies apart. */
    unsigned char *apart;
    size_t apart_len;
};

/* Places that were given up, stepped over so far. */
static long voids;

static inline bool pool_open(struct pool *p, int fd, uint64_t size) {
    struct dp_ioc_pool info = {size, 0, 0};
    if (ioctl(fd, DP_IOC_POOL, &info))
        return false;
    p->fd = fd;
    p->ring = info.ring;
    p->taken = info.taken;
    p->apart = NULL;
    p->bytes = mmap(NULL, 2 * info.ring, PROT_READ, MAP_SHARED, fd, DP_MAP_RING);
    p->control = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, DP_MAP_CONTROL);
    return p->bytes != MAP_FAILED && p->control != MAP_FAILED && p->control->taken == info.taken;
}

static inline void pool_unmap(struct pool *p) {
    munmap(p->bytes, 2 * p->ring);
    munmap(p->control, 4096);
}

/* The next message in place, or NULL. No system call, unless it lies apart. */
static inline unsigned char *take(struct pool *p, size_t *len, unsigned *from) {
    for (;;) {
        struct dp_token *t = (void *)(p->bytes + (p->taken & (p->ring - 1)));
        uint64_t word = __atomic_load_n(&t->word, __ATOMIC_ACQUIRE);
        bool apart = word >> 32 == DP_TOKEN_OUT_OF_LINE;
        *len = (uint32_t)word;
        if (word >> 32 == DP_TOKEN_EMPTY)
            return NULL;
        p->taken += (sizeof *t + (apart ? 8 : *len) + DP_TOKEN_ALIGN - 1) & -(uint64_t)DP_TOKEN_ALIGN;
        __atomic_store_n(&p->control->taken, p->taken, __ATOMIC_RELEASE);
        if (word >> 32 == DP_TOKEN_VOID) {
            voids++;
            continue;
        }
        if (from)
            *from = t->dpid;
        if (!apart)
            return (unsigned char *)(t + 1);
        p->apart_len = *len;
        p->apart = mmap(NULL, *len, PROT_READ, MAP_SHARED, p->fd, *(uint64_t *)(t + 1));
        return p->apart == MAP_FAILED ? p->apart = NULL : p->apart;
    }
}

/* All that was taken. */
static inline void release(struct pool *p) {
    if (p->apart)
        munmap(p->apart, p->apart_len);
    p->apart = NULL;
    __atomic_store_n(&p->control->released, p->taken, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->control->wanted, __ATOMIC_RELAXED))
        ioctl(p->fd, DP_IOC_FSYNC, 0);
}

static inline unsigned char *take_wait(struct pool *p, size_t *len, unsigned *from) {
    unsigned char *m, none;
    while (!(m = take(p, len, from)))
        if (read(p->fd, &none, 1) != 0)
            return NULL;
    return m;
}

#endif
