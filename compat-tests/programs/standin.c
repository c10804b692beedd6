/*
 * A library that stands in for liburing and libaio: functions of their names that make their system calls
 * themselves, and one that calls such a function as a plug-in linked with them would. No connection here.
 */
#include "standin.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

long standin_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined __x86_64__
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                  x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "name this processor's system call"
#endif
}

static unsigned *at(struct standin_ring *ring, unsigned offset) { return (unsigned *)(ring->sq + offset); }

static void *map(struct standin_ring *ring, size_t size, off_t what) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, what);
}

int io_uring_queue_init(unsigned entries, struct standin_ring *ring, unsigned flags) {
    struct io_uring_params *set = &ring->set;
    memset(ring, 0, sizeof *ring);
    set->flags = flags;
    ring->fd = (int)standin_call(SYS_io_uring_setup, entries, (long)set, 0, 0, 0, 0);
    if (ring->fd < 0)
        return ring->fd;
    ring->sq_size = set->sq_off.array + set->sq_entries * sizeof(unsigned);
    ring->sq = map(ring, ring->sq_size, IORING_OFF_SQ_RING);
    ring->cq = map(ring, set->cq_off.cqes + set->cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring->sqes = map(ring, set->sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring->head = at(ring, set->sq_off.head);
    ring->tail = at(ring, set->sq_off.tail);
    ring->mask = at(ring, set->sq_off.ring_mask);
    ring->entries = at(ring, set->sq_off.ring_entries);
    ring->flags = at(ring, set->sq_off.flags);
    ring->dropped = at(ring, set->sq_off.dropped);
    ring->array = at(ring, set->sq_off.array);
    return 0;
}

/* The kernel hears of what was filled in. */
int io_uring_submit_and_wait(struct standin_ring *ring, unsigned n) {
    unsigned tail = *ring->tail;
    for (; ring->filled_from != ring->filled_to; ring->filled_from++, tail++)
        ring->array[tail & *ring->mask] = ring->filled_from & *ring->mask;
    __atomic_store_n(ring->tail, tail, __ATOMIC_RELEASE);
    unsigned flags = n ? IORING_ENTER_GETEVENTS : 0;
    if (ring->set.flags & IORING_SETUP_SQPOLL && __atomic_load_n(ring->flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
        flags |= IORING_ENTER_SQ_WAKEUP;
    return (int)standin_call(SYS_io_uring_enter, ring->fd, tail - *ring->head, n, flags, 0, 0);
}

int io_uring_submit(struct standin_ring *ring) { return io_uring_submit_and_wait(ring, 0); }

int io_uring_register_files(struct standin_ring *ring, const int *files, unsigned n) {
    return (int)standin_call(SYS_io_uring_register, ring->fd, IORING_REGISTER_FILES, (long)files, n, 0, 0);
}

int io_submit(void *context, long n, struct iocb **list) {
    return (int)standin_call(SYS_io_submit, (long)context, n, (long)list, 0, 0, 0);
}

int standin_plugin_ring(unsigned entries, struct standin_ring *ring) { return io_uring_queue_init(entries, ring, 0); }

int standin_plugin_submit(void *context, long n, struct iocb **list) { return io_submit(context, n, list); }
