/*
 * select(2) beyond FD_SETSIZE, mode "select", or pselect(2), mode "pselect": of a set that is shorter than the call says, which
 * the kernel reads no further than the program's table of descriptors is long, and of a descriptor with a high number.
 */
#include "common.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>

enum { HIGH = 3000, LIMIT = 4096 };

static int select_on(int n, fd_set *in) {
    struct timeval time = {0, 0};
    struct timespec exact = {0, 0};
    return mode_is("pselect") ? pselect(n, in, NULL, NULL, &exact, NULL) : select(n, in, NULL, NULL, &time);
}

static fd_set *with(void *at, size_t bytes, int fd) {
    memset(at, 0, bytes);
    ((uint8_t *)at)[fd / 8] |= (uint8_t)(1 << (fd % 8));
    return at;
}

static int has(const void *set, int fd) { return ((const uint8_t *)set)[fd / 8] >> (fd % 8) & 1; }

void tester(int fd) {
    /* Behind the set nothing is mapped. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    MUST(mprotect(pages + page, page, PROT_NONE));
    fd_set *short_one = (fd_set *)(pages + page - sizeof(fd_set));
    uint8_t long_one[LIMIT / 8];
    struct rlimit limit;
    char byte;

    outcome("nothing, of 8192", select_on(8192, with(short_one, sizeof(fd_set), fd)));
    ask(fd, 1);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    CHECK(MUST(poll(&entry, 1, 5000)) == 1);
    outcome("a byte, of 8192", select_on(8192, with(short_one, sizeof(fd_set), fd)));
    say("in the set: %d", has(short_one, fd));

    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = LIMIT;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    MUST(dup2(fd, HIGH));
    outcome("by a high number", select_on(HIGH + 1, with(long_one, sizeof long_one, HIGH)));
    say("in the set: %d", has(long_one, HIGH));
    outcome("one that is not open", select_on(HIGH + 2, with(long_one, sizeof long_one, HIGH + 1)));
    read_exact(fd, &byte, 1);
    outcome("nothing, by a high number", select_on(HIGH + 1, with(long_one, sizeof long_one, HIGH)));
    MUST(close(HIGH));
}
