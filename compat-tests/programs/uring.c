/*
 * io_uring on a connection. Modes: after (the ring is set up when the connection is well used), before (and
 * the connection is made afterwards). Argument: 0 the ring is set up through syscall(2), 1 by a function of
 * liburing's that makes its system calls itself, 2 by that function called from a plug-in.
 * Where the kernel forbids io_uring, plain calls, and it says so.
 */
#include "common.h"

#include "standin.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define ENTRIES 8

static int ring = -1;
static struct io_uring_params set;
static uint8_t *submission, *completion;
static struct io_uring_sqe *entries;

#define AT(base, offset) ((uint32_t *)((base) + (offset)))

static void *map(size_t size, off_t what) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    CHECK(at != MAP_FAILED);
    return at;
}

static void set_up(void) {
    struct standin_ring by_library = {.fd = -1};
    int (*init)(unsigned, struct standin_ring *, unsigned) = NULL;
    int (*plugin)(unsigned, struct standin_ring *) = NULL;
    if (argument(0, 0) == 1)
        init = standin("io_uring_queue_init", false);
    if (argument(0, 0) == 2)
        plugin = standin("standin_plugin_ring", true);
    if (init || plugin) {
        int rc = init ? init(ENTRIES, &by_library, 0) : plugin(ENTRIES, &by_library);
        CHECK((rc == 0) == (by_library.fd >= 0));
        ring = by_library.fd;
        set = by_library.set;
    } else {
        ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &set);
    }
    say("io_uring: %s", ring >= 0 ? "yes" : "not here");
    if (ring < 0)
        return;
    submission = map(set.sq_off.array + set.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    completion = map(set.cq_off.cqes + set.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    entries = map(set.sq_entries * sizeof *entries, IORING_OFF_SQES);
}

/* One operation, submitted and waited for. */
static ssize_t operate(uint8_t operation, int fd, void *buffer, size_t length) {
    uint32_t tail = *AT(submission, set.sq_off.tail), index = tail & *AT(submission, set.sq_off.ring_mask);
    entries[index] = (struct io_uring_sqe){.opcode = operation, .fd = fd, .addr = (uintptr_t)buffer,
                                           .len = (uint32_t)length};
    AT(submission, set.sq_off.array)[index] = index;
    __atomic_store_n(AT(submission, set.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    CHECK(MUST(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0)) == 1);
    uint32_t head = *AT(completion, set.cq_off.head);
    while (__atomic_load_n(AT(completion, set.cq_off.tail), __ATOMIC_ACQUIRE) == head)
        MUST(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0));
    struct io_uring_cqe *done = (void *)(completion + set.cq_off.cqes);
    ssize_t result = done[head & *AT(completion, set.cq_off.ring_mask)].res;
    __atomic_store_n(AT(completion, set.cq_off.head), head + 1, __ATOMIC_RELEASE);
    return result;
}

static void exchange_by_ring(int fd, size_t length, uint64_t seed) {
    static char out[4096], in[4096];
    fill(out, length, seed);
    if (ring < 0) {
        exchange(fd, length, seed);
        return;
    }
    for (size_t at = 0; at < length;) {
        ssize_t n = operate(seed % 2 ? IORING_OP_SEND : IORING_OP_WRITE, fd, out + at, length - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    for (size_t at = 0; at < length;) {
        ssize_t n = operate(seed % 3 ? IORING_OP_RECV : IORING_OP_READ, fd, in + at, length - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    CHECK(memcmp(in, out, length) == 0);
}

static void by_ring(int fd) {
    for (int i = 0; i < 200; i++)
        exchange_by_ring(fd, 1 + (size_t)i * 19 % 4096, (uint64_t)i);
    for (int i = 0; i < 50; i++)
        exchange(fd, 100, (uint64_t)i); /* plain calls go on beside it */
    say("250 exchanges");
}

void server(void) {
    if (mode_is("before"))
        set_up();
    int fd = accepted(listen_here());
    if (mode_is("after"))
        set_up();
    by_ring(fd);
}

void client(void) {
    int fd = connected();
    echo_until_eof(fd);
    say("EOF");
}
