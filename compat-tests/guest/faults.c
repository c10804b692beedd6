// SPDX-License-Identifier: MIT OR Apache-2.0
// Every call of the driver when memory and copies fail (fault.h): each gives an error or does all of its work, and what it
// held is given back. On a kernel that lets nothing fail this test fails.
#define _GNU_SOURCE
#include "fault.h"
#include "ring.h"

#include <sys/uio.h>

/* What is shorter is copied word by word, where the kernel lets nothing fail. */
enum { MIDDLE = 300, LARGE = 100000, NUMBER = 5000 };

static int p[2], other = -1, fd = -1;
static unsigned numbers[2];
static char text[MIDDLE];
static char *buf, *fresh;

static bool comes(int from, const void *message, ssize_t len) {
    return ready(from, POLLIN, 2000) && read(from, buf, LARGE) == len && !memcmp(buf, message, len);
}

static bool nothing_more(int from) {
    return !ready(from, POLLIN, 0) && dp_stat(from).next_len == ~0ull;
}

/* ---- opening ---- */

static void nothing(void) {
}

static long opens_device(void) {
    return fd = open(DP_DEVICE, O_RDWR);
}

static bool closes(long result) {
    return close(fd) == 0 && result >= 0;
}

static void device(void) {
    fd = open(DP_DEVICE, O_RDWR);
}

static long opens(unsigned number, uint64_t pool) {
    int result = ioctl(fd, DP_IOC_OPEN, &(struct dp_ioc_open){number, 0, pool});
    /* Its number could not be told, but it has it. */
    return result && errno == EBUSY ? 0 : result;
}

static long opens_number(void) {
    return opens(NUMBER, 16384);
}

static bool has_number(long result) {
    bool good = !result && dp_number(fd) == NUMBER;
    close(fd);
    return good;
}

static long opens_any(void) {
    return opens(0, 4096);
}

static bool has_any(long result) {
    bool good = !result && dp_number(fd) >= DP_DPID_FREE;
    close(fd);
    return good;
}

static void leaves(void) {
    other = dp_new(0, 4096, 0);
    device();
    dp_send_to(other, "left", 4, 0, NUMBER);
}

static long opens_left(void) {
    return opens(NUMBER, 32768);
}

static bool has_left(long result) {
    bool good = !result && comes(fd, "left", 4) && nothing_more(fd);
    close(fd);
    close(other);
    return good;
}

static int leaves_as_nobody(int number) {
    int from = become_nobody() ? dp_new(0, 4096, 0) : -1;
    return dp_send_to(from, "other", 5, 0, number) != 5;
}

static void another_leaves(void) {
    child_says(leaves_as_nobody, NUMBER);
    device();
}

static bool has_none_of_it(long result) {
    bool good = !result && nothing_more(fd);
    close(fd);
    return good;
}

/* ---- sending ---- */

static void pair(void) {
    dp_pair(p, 8192, O_NONBLOCK);
    for (int i = 0; i < 2; i++)
        numbers[i] = dp_number(p[i]);
    madvise(fresh, LARGE, MADV_DONTNEED);
}

static bool close_pair(bool good) {
    close2(p);
    return good;
}

static long writes(void) {
    return write(p[0], text, MIDDLE);
}

static bool middle_came(long result) {
    return close_pair(result == MIDDLE && comes(p[1], text, MIDDLE) && nothing_more(p[1]) && dp_stat(p[0]).sent == 1);
}

static long writes_pieces(void) {
    struct iovec v[3] = {{text, 100}, {"", 0}, {text + 100, MIDDLE - 100}};
    return writev(p[0], v, 3);
}

static long sends_to(void) {
    return dp_send_to(p[0], text, MIDDLE, 0, numbers[1]);
}

/* From pages that are not there yet. */
static long writes_fresh(void) {
    return write(p[0], fresh, 6000);
}

static bool zeros_came(long result) {
    static char zeros[6000];
    return close_pair(result == 6000 && comes(p[1], zeros, 6000) && nothing_more(p[1]));
}

static long writes_large(void) {
    memset(buf, 'l', LARGE);
    return write(p[0], buf, 20000);
}

static bool large_came(long result) {
    bool good = result == 20000 && read(p[1], buf + 20000, 30000) == 20000 && !memcmp(buf, buf + 20000, 20000);
    return close_pair(good && nothing_more(p[1]) && dp_stat(p[1]).pool_left == 8192);
}

static bool large_is_free(long result) {
    struct dp_ioc_stat s = dp_stat(p[1]);
    return close_pair(result == 20000 && s.pool_left == 8192 && s.received == 1);
}

static void sender(void) {
    other = dp_new(0, 4096, O_NONBLOCK);
}

static long leaves_one(void) {
    return dp_send_to(other, "left", 4, 0, NUMBER);
}

static bool one_is_left(long result) {
    bool good = result == 4 && dp_stat(other).backlog == 1;
    fd = dp_new(NUMBER, 0, 0);
    good &= comes(fd, "left", 4) && nothing_more(fd);
    close(fd);
    close(other);
    return good;
}

static void no_room_at_two(void) {
    pair();
    other = dp_new(0, 4096, O_NONBLOCK);
    for (int i = 0; i < 2; i++)
        while (dp_send_to(other, buf, 900, 0, numbers[i]) > 0)
            ;
}

/* Both are refused for want of room, the second while the first is still waited for. */
static long is_refused_twice(void) {
    for (int i = 0; i < 2; i++)
        if (dp_send_to(other, buf, 900, 0, numbers[i]) != -1 || errno != EAGAIN)
            return -1;
    return 0;
}

static bool room_is_told(long result) {
    bool good = !result && !ready(other, POLLOUT, 0);
    while (read(p[1], buf, LARGE) > 0)
        ;
    good &= ready(other, POLLOUT, 0) == POLLOUT;
    close(other);
    return close_pair(good);
}

static long sends_by_ring(void) {
    struct io_uring_sqe *s = submit_later(IORING_OP_URING_CMD, p[0], text, MIDDLE, 1);
    struct dp_uring_sendto what = {{0, numbers[1]}, 0, 0};
    int result;
    uint64_t tag;
    s->cmd_op = DP_URING_SENDTO;
    memcpy(s->cmd, &what, sizeof what);
    if (enter(1, 0) != 1 || !done(true, &result, &tag, NULL))
        return -1;
    errno = result < 0 ? -result : 0;
    return result < 0 ? -1 : result;
}

/* ---- receiving ---- */

static void middle_waits(void) {
    pair();
    write(p[0], text, MIDDLE);
}

static long reads(void) {
    memset(buf, 0, MIDDLE);
    return read(p[1], buf, LARGE);
}

static bool middle_is_read(long result) {
    return close_pair(result == MIDDLE && !memcmp(buf, text, MIDDLE) && nothing_more(p[1]) && dp_stat(p[1]).pool_left == 8192);
}

static void large_waits(void) {
    pair();
    writes_large();
}

static void placed(void) {
    middle_waits();
    ioctl(p[1], DP_IOC_POOL, &(struct dp_ioc_pool){0, 0, 0});
}

static long asks_for_place(void) {
    return ioctl(p[1], DP_IOC_POOL, &(struct dp_ioc_pool){32768, 0, 0});
}

static bool is_in_place(long result) {
    struct dp_ioc_stat s = dp_stat(p[1]);
    return close_pair(!result && s.in_place && s.pool == 32768 && s.next_len == MIDDLE);
}

static char *map;

static long maps(size_t len, int how, off_t where) {
    map = mmap(NULL, len, how, MAP_SHARED, p[1], where);
    return map == MAP_FAILED ? -1 : 0;
}

static long maps_control(void) {
    return maps(4096, PROT_READ | PROT_WRITE, DP_MAP_CONTROL);
}

static bool is_control(long result) {
    struct dp_control *c = (void *)map;
    return close_pair(!result && c->taken == 0 && !munmap(map, 4096));
}

static long maps_ring(void) {
    return maps(16384, PROT_READ, DP_MAP_RING);
}

static bool is_ring(long result) {
    return close_pair(!result && !memcmp(map + sizeof(struct dp_token), text, MIDDLE) && !munmap(map, 16384));
}

static void large_placed(void) {
    placed();
    writes_large();
}

static long maps_large(void) {
    return maps(20000, PROT_READ, DP_MAP_OUT_OF_LINE);
}

static bool is_large(long result) {
    return close_pair(!result && map[0] == 'l' && map[19999] == 'l' && !munmap(map, 20000));
}

static long tells(void) {
    struct dp_ioc_addr peer;
    int len;
    struct dp_ioc_stat s = {.size = sizeof s};
    return ioctl(p[1], DP_IOC_PEER, &peer) || ioctl(p[1], FIONREAD, &len) || ioctl(p[1], DP_IOC_STAT, &s) ? -1 : len;
}

static bool is_told(long result) {
    return close_pair(result == MIDDLE);
}

static long aims(void) {
    return dp_aim(p[0], NUMBER);
}

static bool is_aimed(long result) {
    return close_pair(!result && dp_stat(p[0]).target_dpid == NUMBER);
}

/* Exactly as many pages of pools as a user may have. */
static long pages_left(void) {
    static int all[20000];
    long pages = 0;
    int n = 0;
    for (uint64_t size = 1 << 20; size >= 4096; size = size == 4096 ? 0 : 4096)
        while (n < 1000 && (all[n] = dp_new(0, size, 0)) >= 0) {
            pages += size / 4096;
            n++;
        }
    while (n > 0)
        close(all[--n]);
    return pages;
}

int main(void) {
    static const struct call theirs = {"a number with another's messages", another_leaves, opens_number, has_none_of_it};
    static const struct call calls[] = {
        {"open", nothing, opens_device, closes},
        {"DP_IOC_OPEN of a number", device, opens_number, has_number},
        {"DP_IOC_OPEN of any", device, opens_any, has_any},
        {"DP_IOC_OPEN of one with messages", leaves, opens_left, has_left},
        {"DP_IOC_TARGET", pair, aims, is_aimed},
        {"write", pair, writes, middle_came},
        {"writev", pair, writes_pieces, middle_came},
        {"DP_IOC_SENDTO", pair, sends_to, middle_came},
        {"DP_URING_SENDTO", pair, sends_by_ring, middle_came},
        {"a message from missing pages", pair, writes_fresh, zeros_came},
        {"a message that lies apart", pair, writes_large, large_came},
        {"one for a number that nobody opened", sender, leaves_one, one_is_left},
        {"two that have no room", no_room_at_two, is_refused_twice, room_is_told},
        {"read", middle_waits, reads, middle_is_read},
        {"read of what lies apart", large_waits, reads, large_is_free},
        {"what is told", middle_waits, tells, is_told},
        {"DP_IOC_POOL", middle_waits, asks_for_place, is_in_place},
        {"a map of the control page", placed, maps_control, is_control},
        {"a map of the ring", placed, maps_ring, is_ring},
        {"a map of what lies apart", large_placed, maps_large, is_large},
    };
    buf = malloc(LARGE);
    number((void *)text, 1, MIDDLE);
    fresh = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(fault_begin(), "the kernel lets the driver's allocations and copies fail");
    fault_each(&theirs);
    OK(ring_open(0) && become_nobody(), "from here on a user without privilege");
    long before = pages_left();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        fault_each(&calls[i]);
    OK(before > 0 && pages_left() == before, "the user may have as many pages as before, %ld", before);
    return tap_end();
}
