/*
 * Nothing is left: the program has just as many descriptors, or as much memory, as without anything beside it, and all its
 * connections work.
 *   numbers   RLIMIT_NOFILE is lowered while connections are in use: so many more can be made, and not one less
 *   memory    RLIMIT_AS is what is in use, and a little
 * Arguments: seed, rounds (6), connections beyond the limit (4).
 */
#include "races.h"

#include <sys/resource.h>

#define MOST 256
#define ROOM 24

static int fds[MOST], count, listener;
static struct sockaddr_storage address;
static socklen_t address_length;
static uint64_t at[MOST][2];

static void tell_streams(void) { say("connections %d", count); }

/* So many numbers are left. */
static void limit_numbers(int more) {
    int number = 0;
    for (; more > 0; number++)
        more -= fcntl(number, F_GETFD) < 0;
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = (rlim_t)number;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void no_limit(int what) {
    struct rlimit limit;
    MUST(getrlimit((__rlimit_resource_t)what, &limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit((__rlimit_resource_t)what, &limit));
}

static void limit_memory(size_t more) {
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = pages * 4096 + more;
    MUST(setrlimit(RLIMIT_AS, &limit));
}

/* Some bytes there and back on each, so many times. */
static void use_all(int times, size_t most) {
    static char bytes[200000];
    uint64_t random = seed * 7919 + (uint64_t)count;
    next_random(&random);
    for (int k = 0; k < times; k++)
        for (int i = 0; i < count; i++) {
            size_t n = some_size(&random, most);
            for (int way = 0; way < 2; way++) {
                unsigned stream = (unsigned)(i * 2 + way);
                if ((way == 0) == is_client) {
                    make_bytes(bytes, n, stream, at[i][way]);
                    for (size_t done = 0; done < n;) {
                        ssize_t result = IN("send", fds[i], send(fds[i], bytes + done, n - done, MSG_NOSIGNAL));
                        HOLDS(result > 0);
                        done += (size_t)result;
                    }
                } else {
                    for (size_t done = 0; done < n;) {
                        ssize_t result = IN("recv", fds[i], recv(fds[i], bytes, n - done, 0));
                        HOLDS(result > 0);
                        check_bytes(bytes, (size_t)result, stream, at[i][way] + done);
                        done += (size_t)result;
                    }
                }
                at[i][way] += n;
            }
            board->moved++;
        }
}

/* One more on both sides. False: there is no number left for it, on either side. */
static bool one_more(bool expected) {
    int fd;
    if (is_client) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0) {
            HOLDS(errno == EMFILE);
            return false;
        }
        HOLDS(IN("connect", fd, connect(fd, (struct sockaddr *)&address, address_length)) == 0);
    } else {
        fd = IN("accept", listener, accept(listener, NULL, NULL));
        if (fd < 0) {
            HOLDS(errno == EMFILE);
            return false;
        }
    }
    HOLDS(expected && count < MOST);
    no_delay(fd);
    fds[count] = fd;
    at[count][0] = at[count][1] = 0;
    count++;
    return true;
}

static void close_down_to(int rest) {
    while (count > rest)
        MUST(close(fds[--count]));
}

/* Both sides do the same, one of them under the limit. */
static void numbers(uint64_t *random, bool limited) {
    int more = 1 + (int)below(random, ROOM), before = count, used = 0;
    int others[ROOM];
    if (limited)
        limit_numbers(more);
    /* Some numbers are for something else. */
    int rest = (int)below(random, (size_t)more);
    while (limited && used < rest)
        others[used++] = MUST(dup(2));
    for (int i = 0; i < more - rest; i++) {
        HOLDS(one_more(true));
        if (below(random, 2))
            use_all(3, 30000);
    }
    if (limited)
        HOLDS(dup(2) < 0 && errno == EMFILE);
    use_all(20, 100000);
    if (limited && is_client)
        HOLDS(!one_more(false));
    while (used > 0)
        close(others[--used]);
    close_down_to(before + (int)below(random, 4));
    use_all(10, 100000);
    if (limited)
        no_limit(RLIMIT_NOFILE);
    use_all(100, 1000);
    close_down_to(before);
}

static void memory(uint64_t *random, bool limited) {
    int before = count, more = 1 + (int)below(random, ROOM);
    size_t little = below(random, 4) << 20;
    if (limited)
        limit_memory(little);
    for (int i = 0; i < more; i++) {
        HOLDS(one_more(true));
        if (below(random, 2))
            use_all(3, 200000);
    }
    use_all(20, 200000);
    close_down_to(before + (int)below(random, 4));
    if (limited)
        no_limit(RLIMIT_AS);
    use_all(20, 200000);
    close_down_to(before);
}

static void *all_rounds(void *unused) {
    stand("rounds", 0);
    if (is_client)
        address_length = there(&address);
    else
        listener = listen_here();
    /* Both sides choose the same. */
    uint64_t random = seed * 0x9e3779b97f4a7c15ull + 12345;
    for (int i = 0; i < 8; i++)
        next_random(&random);
    for (int i = 0; i < 2; i++)
        HOLDS(one_more(true));
    use_all(300, 1000);
    for (long i = 0, rounds = argument(1, 6); i < rounds; i++) {
        bool mine = below(&random, 2) == is_client;
        if (mode_is("numbers"))
            numbers(&random, mine);
        else
            memory(&random, mine);
    }
    close_down_to(0);
    board->running--;
    return unused;
}

static void race(void) {
    begin_races();
    board->running = 1;
    pthread_t thread = start_thread(all_rounds, NULL);
    watch_races();
    pthread_join(thread, NULL);
    say("all bytes came");
}
