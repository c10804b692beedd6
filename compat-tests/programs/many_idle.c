/*
 * Many connections (argument: how many) that are used a little, and then by nobody, all open at once. Both sides print how
 * much memory and how many addresses they have more than before the first: what of shared memory was touched counts for
 * both. The numbers differ with the shim: a test looks at them. It waits for the mark "looked"; then all are used once more.
 */
#include "common.h"

#include <sys/resource.h>

static int fds[20000];

struct size {
    long resident, addresses;
};

static struct size size(void) {
    long resident = (long)(memory_used("RssAnon:") + memory_used("RssShmem:"));
    return (struct size){resident, (long)memory_used("VmSize:")};
}

static long how_many(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    long n = argument(0, 100);
    CHECK(n <= (long)(sizeof fds / sizeof fds[0]) && (rlim_t)n + 100 <= limit.rlim_cur);
    return n;
}

static void use(long n, int times, bool answers) {
    char bytes[64], back[64];
    for (long i = 0; i < n; i++)
        for (int k = 0; k < times; k++) {
            fill(bytes, sizeof bytes, (uint64_t)(i * 100 + k));
            if (!answers)
                write_all(fds[i], bytes, sizeof bytes);
            read_exact(fds[i], back, sizeof back);
            CHECK(memcmp(bytes, back, sizeof bytes) == 0);
            if (answers)
                write_all(fds[i], back, sizeof back);
        }
}

static void one_end(long n, struct size before, bool answers) {
    use(n, 30, answers);
    struct size after = size();
    say("%ld connections: resident %ld addresses %ld", n, after.resident - before.resident,
        after.addresses - before.addresses);
    mark(answers ? "server-done" : "client-done", 1);
    await_mark("looked");
    use(n, 1, answers);
    say("all are used again");
}

void server(void) {
    long n = how_many();
    struct size before = size();
    int listener = listen_here();
    for (long i = 0; i < n; i++)
        fds[i] = accepted(listener);
    one_end(n, before, true);
}

void client(void) {
    long n = how_many();
    struct size before = size();
    for (long i = 0; i < n; i++)
        fds[i] = connected();
    one_end(n, before, false);
}
