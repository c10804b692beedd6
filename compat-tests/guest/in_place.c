// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading in place: the mapped pool, the control page, and what the kernel does about nonsense in it.
#define _GNU_SOURCE
#include "place.h"

static unsigned char buf[1 << 20];

static void basics(void) {
    int p[2];
    struct pool pool;
    size_t len;
    unsigned from;
    dp_pair(p, 0, O_NONBLOCK);
    FAILS(ENXIO, (long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, p[1], DP_MAP_RING), "no mapping before DP_IOC_POOL");
    write(p[0], "first", 5);
    write(p[0], "second", 6);
    read(p[1], buf, 9);
    OK(pool_open(&pool, p[1], 16384), "a pool in place, with messages waiting");
    unsigned char *m = take(&pool, &len, &from);
    OK(m && len == 6 && !memcmp(m, "second", 6) && from == dp_number(p[0]), "what waited is there, with its sender");
    OK(!take(&pool, &len, NULL) && !ready(p[1], POLLIN, 0), "no more");
    FAILS(EAGAIN, read(p[1], buf, 9), "read says so");
    write(p[0], "third", 5);
    OK(ready(p[1], POLLIN, 0) == POLLIN && read(p[1], buf, 9) == 0 && read(p[1], buf, 9) == 0, "read tells, and takes nothing");
    int n;
    OK(!ioctl(p[1], FIONREAD, &n) && n == 5, "FIONREAD");
    m = take(&pool, &len, NULL);
    OK(m && len == 5 && !ready(p[1], POLLIN, 0), "taken without a system call, and poll knows");
    struct dp_ioc_pool same = {16384, 0, 0}, other = {8192, 0, 0}, as_is = {0, 0, 0};
    OK(!ioctl(p[1], DP_IOC_POOL, &same) && !ioctl(p[1], DP_IOC_POOL, &as_is) && as_is.size == 16384, "the same pool again");
    FAILS(EBUSY, ioctl(p[1], DP_IOC_POOL, &other), "another pool");
    FAILS(EINVAL, ioctl(p[1], DP_IOC_FSYNC, 3), "more than were taken cannot be released");
    OK(!ioctl(p[1], DP_IOC_FSYNC, 1) && !ioctl(p[1], DP_IOC_FSYNC, 1), "the oldest are released");
    FAILS(EINVAL, ioctl(p[1], DP_IOC_FSYNC, 1), "and no more");
    OK(dp_stat(p[1]).pool_left == 16384 && dp_stat(p[1]).received == 3 && dp_stat(p[1]).in_place, "all is free");
    OK(!pool.control->closed, "not closed");
    close2(p);
    OK(!memcmp(m, "third", 5) && pool.control->closed == 1, "the mapping outlives the endpoint, and says so");
    int again = dp_new(0, 0, 0);
    OK(again >= 0, "which is closed");
    close(again);
    pool_unmap(&pool);
}

static void closing(void) {
    struct pool pool;
    int fd = dp_new(4100, 0, 0);
    pool_open(&pool, fd, 65536);
    close(fd);
    fd = dp_new(4100, 0, 0);
    OK(fd >= 0, "a mapped endpoint's number is free after close");
    close(fd);
    pool_unmap(&pool);
}

struct sender {
    int fd;
    uint64_t count;
};

static void *send_all(void *arg) {
    struct sender *s = arg;
    static _Thread_local unsigned char m[4096];
    for (uint64_t i = 0; i < s->count; i++) {
        number(m, i, 8 + i % 900);
        if (write(s->fd, m, 8 + i % 900) < 0)
            return (void *)-1;
    }
    return NULL;
}

static void streams(uint64_t size, int batch) {
    int p[2];
    struct pool pool;
    dp_pair(p, 0, 0);
    pool_open(&pool, p[1], size);
    struct sender s = {p[0], 20000};
    pthread_t t;
    pthread_create(&t, NULL, send_all, &s);
    bool good = true;
    size_t len;
    for (uint64_t i = 0; i < s.count && good; i++) {
        unsigned char *m = take_wait(&pool, &len, NULL);
        good &= m && len == 8 + i % 900 && is_number(m, i, len);
        if (i % batch == 0)
            release(&pool);
    }
    release(&pool);
    pthread_join(t, NULL);
    struct dp_ioc_stat st = dp_stat(p[1]);
    OK(good && st.received == 20000 && st.corrupt == 0 && st.pool_left == size, "20000 in place, a pool of %lu", size);
    close2(p);
    pool_unmap(&pool);
}

static void *look_for_room(void *arg) {
    int fd = *(int *)arg;
    return (void *)(long)ready(fd, POLLOUT, 5000);
}

static volatile bool stop;

/* Half of each message is not there: it gives its place up, whatever came behind it meanwhile. */
static void *send_halves(void *arg) {
    struct sender *s = arg;
    char *half = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(half + 4096, 4096);
    memset(half, 1, 4096);
    for (s->count = 0; !stop; s->count++)
        if (write(s->fd, half + 2096, 3000) != -1 || errno != EFAULT)
            return (void *)-1;
    return NULL;
}

static void faults(bool in_place) {
    int p[2], other = dp_new(0, 4096, 0);
    struct pool pool;
    dp_pair(p, 0, 0);
    dp_aim(other, dp_number(p[1]));
    if (in_place)
        pool_open(&pool, p[1], 16384);
    struct sender s = {p[0], 20000}, f = {other, 0};
    pthread_t t[2];
    stop = false;
    voids = 0;
    pthread_create(&t[0], NULL, send_all, &s);
    pthread_create(&t[1], NULL, send_halves, &f);
    bool good = true;
    for (uint64_t i = 0; i < s.count && good; i++) {
        size_t len;
        unsigned char *m = buf;
        if (in_place)
            m = take_wait(&pool, &len, NULL);
        else
            len = read(p[1], buf, sizeof buf);
        good &= m && len == 8 + i % 900 && is_number(m, i, len);
        if (in_place)
            release(&pool);
    }
    stop = true;
    void *result;
    pthread_join(t[0], NULL);
    pthread_join(t[1], &result);
    OK(good && !result && f.count > 0, "20000 messages while another sender's are not there, %s",
       in_place ? "in place" : "by read");
    if (in_place)
        printf("# %ld places were given up with others behind them\n", voids);
    struct dp_ioc_stat st = dp_stat(p[1]);
    OK(!ready(p[1], POLLIN, 0) && st.received == 20000, "nothing else arrived");
    close(other);
    close2(p);
    if (in_place)
        pool_unmap(&pool);
}

/* What the ring has no room for lies elsewhere, and is mapped where its token says. */
static void apart(void) {
    int p[2];
    struct pool pool;
    size_t len;
    dp_pair(p, 0, O_NONBLOCK);
    pool_open(&pool, p[1], 4096);
    number(buf, 1, 300000);
    write(p[0], "small", 5);
    write(p[0], buf, 300000);
    write(p[0], "after", 5);
    take(&pool, &len, NULL);
    struct dp_token *t = (void *)(pool.bytes + (pool.taken & (pool.ring - 1)));
    OK(t->word == ((uint64_t)DP_TOKEN_OUT_OF_LINE << 32 | 300000) && t->dpid == dp_number(p[0]), "a token for a large message");
    off_t where = *(uint64_t *)(t + 1);
    unsigned char *m = mmap(NULL, 300000, PROT_READ, MAP_SHARED, p[1], where);
    OK(m != MAP_FAILED && !memcmp(m, buf, 300000), "which is mapped in place");
    OK(mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_SHARED, p[1], where) == MAP_FAILED && errno == EPERM, "not to be written");
    OK(mmap(NULL, 400000, PROT_READ, MAP_SHARED, p[1], where) == MAP_FAILED && errno == EINVAL, "not beyond its end");
    OK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, p[1], where + (32 << 20)) == MAP_FAILED && errno == EINVAL, "nor another");
    pool.control->taken = pool.taken += 64;
    unsigned char *after = take(&pool, &len, NULL);
    OK(after && len == 5 && !memcmp(after, "after", 5), "the next one follows it");
    OK(!ioctl(p[1], DP_IOC_FSYNC, 3) && dp_stat(p[1]).pool_left == 4096 && dp_stat(p[1]).received_bytes == 300010, "all three are released");
    OK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, p[1], where) == MAP_FAILED && m[299999] == buf[299999], "what is released can no longer be mapped, and stays where it is");
    munmap(m, 300000);
    close2(p);
    pool_unmap(&pool);
}

static void *send_apart(void *fd) {
    return (void *)write(*(int *)fd, buf, 300000);
}

/* Who waits for the room of a large message may be the first to see that it is released; its memory goes then. */
static void room_apart(void) {
    int p[2];
    struct pool pool;
    void *sent;
    pthread_t t;
    dp_pair(p, 0, 0);
    pool_open(&pool, p[1], 4096);
    bool good = true;
    for (int i = 0; i < 3; i++)
        good &= write(p[0], buf, 300000) == 300000;
    for (int i = 0; i < 20; i++) {
        uint64_t full = dp_stat(p[0]).full;
        pthread_create(&t, NULL, send_apart, &p[0]);
        while (dp_stat(p[0]).full == full)
            pause_ms(1);
        pause_ms(5);
        pool.control->taken = pool.taken += 64;
        __atomic_store_n(&pool.control->released, pool.taken, __ATOMIC_RELEASE);
        ready(p[1], POLLIN, 0);
        pthread_join(t, &sent);
        good &= (long)sent == 300000;
    }
    OK(good && dp_stat(p[1]).received == 20, "a sender that waits gets the place of a large message");
    close2(p);
    pool_unmap(&pool);
}

static void room(void) {
    int p[2];
    struct pool pool;
    size_t len;
    dp_pair(p, 0, O_NONBLOCK);
    pool_open(&pool, p[1], 4096);
    while (write(p[0], buf, 900) == 900)
        ;
    OK(errno == EAGAIN && pool.control->wanted == 1, "a sender without room says so in the control page");
    pthread_t t;
    pthread_create(&t, NULL, look_for_room, &p[0]);
    pause_ms(20);
    take(&pool, &len, NULL);
    release(&pool);
    void *events;
    pthread_join(t, &events);
    OK((long)events == POLLOUT && write(p[0], buf, 900) == 900, "and is woken");
    while (take(&pool, &len, NULL))
        ;
    __atomic_store_n(&pool.control->released, pool.taken, __ATOMIC_RELEASE);
    OK(write(p[0], buf, 900) == 900, "what is released is found without a call");
    close2(p);
    pool_unmap(&pool);
}

static void mappings(void) {
    int fd = dp_new(0, 0, 0);
    struct pool pool;
    pool_open(&pool, fd, 65536);
    struct {
        size_t len;
        off_t at;
        int prot, flags, error;
    } bad[] = {
        {131072, DP_MAP_RING, PROT_READ | PROT_WRITE, MAP_SHARED, EPERM},
        {131072, DP_MAP_RING, PROT_READ | PROT_EXEC, MAP_SHARED, EPERM},
        {131072, DP_MAP_RING, PROT_WRITE, MAP_SHARED, EPERM},
        {131072, DP_MAP_RING, PROT_READ | PROT_WRITE, MAP_PRIVATE, EPERM},
        {131072 + 4096, DP_MAP_RING, PROT_READ, MAP_SHARED, EINVAL},
        {65536, DP_MAP_RING + 4096, PROT_READ, MAP_SHARED, EINVAL},
        {4096, 4096, PROT_READ, MAP_SHARED, EINVAL},
        {4096, 1ll << 40, PROT_READ, MAP_SHARED, EINVAL},
        {8192, DP_MAP_CONTROL, PROT_READ, MAP_SHARED, EINVAL},
        {4096, DP_MAP_CONTROL, PROT_READ | PROT_WRITE, MAP_PRIVATE, EINVAL},
        {4096, DP_MAP_CONTROL, PROT_READ | PROT_EXEC, MAP_SHARED, EPERM},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        OK((errno = 0, mmap(NULL, bad[i].len, bad[i].prot, bad[i].flags, fd, bad[i].at) == MAP_FAILED) &&
               errno == bad[i].error,
           "mapping %zu at %lx with %d is refused", bad[i].len, (long)bad[i].at, bad[i].prot);
    FAILS(EACCES, mprotect(pool.bytes, 4096, PROT_READ | PROT_WRITE), "the ring does not become writable");
    FAILS(EACCES, mprotect(pool.bytes, 4096, PROT_READ | PROT_EXEC), "nor executable");
    OK(mremap(pool.bytes, 131072, 262144, MREMAP_MAYMOVE) == MAP_FAILED, "it does not grow");
    unsigned char *part = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, DP_MAP_RING);
    OK(part != MAP_FAILED && !munmap(part, 4096) && !munmap(part + 4096, 4096), "a part can be mapped, and unmapped in parts");
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(pool.bytes[0] + pool.control->wanted);
    int status;
    waitpid(child, &status, 0);
    OK(status == 0, "a child sees it");
    OK(!munmap(pool.bytes + 4096, 4096), "a hole in it");
    pid_t cat = fork();
    if (!cat) {
        /* A copy of the pages out of the mapping, by someone else's hand. */
        int pipefd[2];
        if (pipe(pipefd) || write(pipefd[1], pool.bytes, 4096) != 4096)
            _exit(1);
        _exit(write(pipefd[1], pool.bytes + 4096, 10) != -1);
    }
    waitpid(cat, &status, 0);
    OK(status == 0, "can be read by the kernel for another, but for the hole");
    close(fd);
    pool_unmap(&pool);
}

/* Values that a program could write into the control page, while messages arrive. */
static void nonsense(void) {
    int p[2];
    struct pool pool;
    dp_pair(p, 0, O_NONBLOCK);
    pool_open(&pool, p[1], 16384);
    unsigned seed = 1;
    for (int i = 0; i < 60000; i++) {
        uint64_t r = (uint64_t)rand_r(&seed) << 40 ^ (uint64_t)rand_r(&seed) << 20 ^ rand_r(&seed);
        uint64_t near = dp_stat(p[1]).received * 64;
        uint64_t v[] = {0, r, ~0ull, near + r % 70000, near - r % 70000, 1ull << 63, pool.control->taken + r % 999};
        __u64 *where[] = {&pool.control->taken, &pool.control->released};
        __atomic_store_n(where[i & 1], v[r % 7], __ATOMIC_RELAXED);
        pool.control->wanted = r;
        write(p[0], buf, r % 3000);
        switch (i % 7) {
        case 0: read(p[1], buf + 100000, 10); break;
        case 1: ready(p[1], POLLIN | POLLOUT, 0); break;
        case 2: ioctl(p[1], DP_IOC_FSYNC, r % 50); break;
        case 3: ioctl(p[1], FIONREAD, buf + 200000); break;
        case 4: ready(p[0], POLLOUT, 0); break;
        }
    }
    struct dp_ioc_stat s = dp_stat(p[1]);
    OK(s.corrupt > 0 && s.pool == 16384 && s.pool_left <= 16384, "nonsense in the control page: counted, %llu times", s.corrupt);
    close2(p);
    pool_unmap(&pool);
    /* Nobody else has noticed. */
    dp_pair(p, 0, O_NONBLOCK);
    OK(write(p[0], "fine", 4) == 4 && read(p[1], buf, 9) == 4, "others go on");
    close2(p);
}

int main(void) {
    basics();
    closing();
    streams(4096, 1);
    streams(65536, 7);
    faults(true);
    faults(false);
    apart();
    room_apart();
    room();
    mappings();
    nonsense();
    return tap_end();
}
