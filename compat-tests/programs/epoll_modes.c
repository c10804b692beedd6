/*
 * What epoll promises. The tester watches, the helper sends what it is asked for.
 * Missing an edge is an error; an extra edge is not, so no mode demands silence of an edge-triggered set.
 */
#include "common.h"

static int watch_in(int fd, uint32_t events) {
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    return set;
}

/* The events reported within the time, 0 if none. */
static uint32_t events_within(int set, int milliseconds) {
    struct epoll_event event = {0};
    return MUST(epoll_wait(set, &event, 1, milliseconds)) == 1 ? event.events : 0;
}

static void modify(int set, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
}

static uint64_t taken; /* position in the helper's pattern */

static void take(int fd, size_t length) {
    char buffer[4096];
    read_exact(fd, buffer, length);
    CHECK(is_pattern(buffer, length, taken));
    taken += length;
}

/* Reads until EAGAIN; the fd is nonblocking. */
static void drain(int fd) {
    char buffer[64];
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        CHECK(is_pattern(buffer, (size_t)n, taken));
        taken += (uint64_t)n;
    }
    CHECK(n < 0 && errno == EAGAIN);
}

static void level(int fd) {
    int set = watch_in(fd, EPOLLIN);
    CHECK(events_within(set, 0) == 0);
    for (int i = 0; i < 100; i++) {
        ask(fd, 20);
        CHECK(events_within(set, 5000) == EPOLLIN);
        take(fd, 15);
        CHECK(events_within(set, 5000) == EPOLLIN); /* still five bytes there */
        CHECK(events_within(set, 0) == EPOLLIN);
        take(fd, 5);
        CHECK(events_within(set, 0) == 0);
    }
    close(set);
}

static void edge_drain(int fd) {
    int set = watch_in(fd, EPOLLIN | EPOLLET);
    set_nonblocking(fd, true);
    for (uint64_t want = 0; want < 300 * 100;) {
        ask(fd, 100);
        want += 100;
        while (taken < want) {
            CHECK(events_within(set, 5000) & EPOLLIN);
            drain(fd);
        }
    }
    close(set);
}

/* The reader leaves bytes behind; new bytes must be a new edge all the same. */
static void edge_partial(int fd) {
    int set = watch_in(fd, EPOLLIN | EPOLLET);
    set_nonblocking(fd, true);
    for (int i = 0; i < 100; i++) {
        ask(fd, 30);
        CHECK(events_within(set, 5000) & EPOLLIN);
        while (events_within(set, 1)) /* eat extra edges, and give the rest of the message time */
            ;
        take(fd, 10);
    }
    while (taken < 100 * 30)
        take(fd, 20);
    close(set);
}

static void oneshot(int fd) {
    int set = watch_in(fd, EPOLLIN | EPOLLONESHOT);
    for (int i = 0; i < 5; i++) {
        ask(fd, 10);
        CHECK(events_within(set, 5000) == EPOLLIN);
        ask(fd, 10);
        CHECK(events_within(set, 20) == 0); /* disarmed, whatever arrives */
        modify(set, fd, EPOLLIN | EPOLLONESHOT);
        CHECK(events_within(set, 5000) == EPOLLIN); /* the data is still there */
        take(fd, 20);
        modify(set, fd, EPOLLIN | EPOLLONESHOT);
        CHECK(events_within(set, 20) == 0);
    }
    close(set);
}

static void nested(int fd) {
    int inner = watch_in(fd, EPOLLIN), outer = watch_in(inner, EPOLLIN);
    for (int i = 0; i < 50; i++) {
        struct pollfd entry = {.fd = outer, .events = POLLIN};
        CHECK(events_within(outer, 0) == 0);
        ask(fd, 10);
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
        CHECK(events_within(outer, 5000) == EPOLLIN && events_within(inner, 5000) == EPOLLIN);
        take(fd, 10);
        CHECK(events_within(inner, 0) == 0 && events_within(outer, 0) == 0);
    }
    close(outer);
    close(inner);
}

static void put_into(int outer, int inner) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = inner};
    MUST(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
}

static void hears_from_inside(int outer, int inner, int fd) {
    for (int i = 0; i < 3; i++) {
        ask(fd, 10);
        CHECK(events_within(outer, 5000) == EPOLLIN && events_within(inner, 0) == EPOLLIN);
        take(fd, 10);
        CHECK(events_within(inner, 0) == 0 && events_within(outer, 0) == 0);
    }
}

/* The inner set is closed, and another one has its number: in the same outer one, and in another. */
static void nested_anew(int fd) {
    int first = MUST(epoll_create1(0)), second = MUST(epoll_create1(0));
    for (int i = 0; i < 5; i++) {
        int inner = watch_in(fd, EPOLLIN);
        put_into(first, inner);
        hears_from_inside(first, inner, fd);
        close(inner);
    }
    int inner = watch_in(fd, EPOLLIN);
    put_into(second, inner);
    hears_from_inside(second, inner, fd);
    close(first);
    hears_from_inside(second, inner, fd);
    close(second);
    close(inner);
}

/* What no bell announced, because it came while a set looked at it, is seen from outside of the set that has it then. */
static void unheard(int fd) {
    for (int i = 0; i < 40; i++) {
        int set = watch_in(fd, EPOLLIN), outer = MUST(epoll_create1(0));
        for (int k = 0; k < 3; k++) {
            ask(fd, 10);
            CHECK(events_within(set, 5000) == EPOLLIN);
            take(fd, 10);
        }
        ask(fd, 10);
        sleep_ms(20);
        if (i % 4 == 0) {
            put_into(outer, set);
        } else {
            close(set);
            set = i % 4 == 1 ? watch_in(fd, EPOLLIN) : MUST(epoll_create1(0));
            put_into(outer, set);
            struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
            if (i % 4 > 1)
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        }
        struct pollfd entry = {.fd = outer, .events = POLLIN};
        CHECK(i % 4 == 3 || MUST(poll(&entry, 1, 2000)) == 1);
        CHECK(events_within(outer, 2000) == EPOLLIN && events_within(set, 0) == EPOLLIN);
        take(fd, 5);
        CHECK(events_within(outer, 2000) == EPOLLIN && events_within(set, 0) == EPOLLIN);
        take(fd, 5);
        CHECK(events_within(outer, 0) == 0 && MUST(poll(&entry, 1, 0)) == 0 && events_within(set, 0) == 0);
        hears_from_inside(outer, set, fd);
        close(outer);
        close(set);
    }
}

static int polled(int set, int milliseconds) {
    struct pollfd entry = {.fd = set, .events = POLLIN};
    return MUST(poll(&entry, 1, milliseconds));
}

static uint64_t cpu_ms(void) {
    struct timespec now;
    MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now));
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What was told once, and is not to be told again, does not make the set itself readable. */
static void told(int fd) {
    for (int i = 0; i < 8; i++) {
        bool once = i % 2;
        uint32_t events = EPOLLIN | (once ? EPOLLONESHOT : EPOLLET);
        int set = watch_in(fd, events);
        ask(fd, 10);
        CHECK(polled(fd, 5000) == 1);
        sleep_ms(20);
        CHECK(events_within(set, 5000) == EPOLLIN);
        for (int k = 0; !once && k < 3; k++)
            events_within(set, 10); /* an extra edge */
        uint64_t before = cpu_ms();
        CHECK(polled(set, 150) == 0 && cpu_ms() - before < 40);
        if (once)
            modify(set, fd, events);
        else
            ask(fd, 1);
        CHECK(polled(set, 5000) == 1 && events_within(set, 0) == EPOLLIN);
        take(fd, once ? 10 : 11);
        close(set);
    }
}

static void two_sets(int fd) {
    int first = watch_in(fd, EPOLLIN), second = watch_in(fd, EPOLLIN), edge = watch_in(fd, EPOLLIN | EPOLLET);
    for (int i = 0; i < 50; i++) {
        ask(fd, 10);
        CHECK(events_within(first, 5000) && events_within(second, 5000) && events_within(edge, 5000));
        take(fd, 10);
        CHECK(!events_within(first, 0) && !events_within(second, 0));
    }
    close(first);
    close(second);
    close(edge);
}

/* Data that is there before ADD or MOD is reported, once more, even edge-triggered; DEL means silence. */
static void add_mod_del(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < 20; i++) {
        ask(fd, 10);
        CHECK(MUST(poll(&entry, 1, 5000)) == 1);
        int set = watch_in(fd, EPOLLIN | EPOLLET);
        CHECK(events_within(set, 5000) == EPOLLIN);
        modify(set, fd, EPOLLIN | EPOLLET);
        CHECK(events_within(set, 5000) == EPOLLIN);
        modify(set, fd, EPOLLOUT | EPOLLET);
        CHECK(events_within(set, 5000) == EPOLLOUT);
        modify(set, fd, EPOLLIN | EPOLLOUT);
        /* A channel that sends by TCP for a while has its room from the kernel, which is asked now and then only (W6). */
        uint32_t told = 0;
        for (int asked = 0; told != (EPOLLIN | EPOLLOUT) && asked < 1000; asked++)
            told |= events_within(set, 5000);
        CHECK(told == (EPOLLIN | EPOLLOUT));
        MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
        CHECK(events_within(set, 1) == 0);
        take(fd, 10);
        close(set);
    }
}

static void peer_shutdown(int fd) {
    int set = watch_in(fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
    ask(fd, 10);
    CHECK(events_within(set, 5000) & EPOLLIN);
    take(fd, 10);
    ask_shutdown(fd);
    uint32_t events;
    do
        CHECK((events = events_within(set, 5000)) & EPOLLIN); /* an extra edge may come first */
    while (!(events & EPOLLRDHUP));
    char byte;
    CHECK(read(fd, &byte, 1) == 0);
    modify(set, fd, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    CHECK(events_within(set, 0) == (EPOLLIN | EPOLLRDHUP | EPOLLOUT));
    MUST(shutdown(fd, SHUT_WR));
    modify(set, fd, 0);
    CHECK(events_within(set, 5000) == EPOLLHUP); /* cannot be masked */
    close(set);
}

void tester(int fd) {
    static const struct {
        const char *name;
        void (*run)(int fd);
    } modes[] = {
        {"level", level},       {"edge_drain", edge_drain}, {"edge_partial", edge_partial},
        {"oneshot", oneshot},   {"nested", nested},         {"two_sets", two_sets},
        {"unheard", unheard},   {"told", told},
        {"add_mod_del", add_mod_del}, {"peer_shutdown", peer_shutdown}, {"nested_anew", nested_anew},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (mode_is(modes[i].name)) {
            modes[i].run(fd);
            say("%s: %llu bytes", modes[i].name, (unsigned long long)taken);
        }
}
