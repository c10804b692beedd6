// Operations that ask what is ready: poll, select, epoll.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "interp.h"

static const struct {
    const char *text;
    uint32_t bit;
} bits[] = {
    {"IN", EPOLLIN},   {"OUT", EPOLLOUT},     {"PRI", EPOLLPRI}, {"RDHUP", EPOLLRDHUP},         {"ERR", EPOLLERR},
    {"HUP", EPOLLHUP}, {"RDNORM", EPOLLRDNORM}, {"WRNORM", EPOLLWRNORM}, {"RDBAND", EPOLLRDBAND}, {"WRBAND", EPOLLWRBAND},
    {"MSG", EPOLLMSG}, {"ET", EPOLLET},       {"ONESHOT", EPOLLONESHOT}, {"EXCLUSIVE", EPOLLEXCLUSIVE},
};
enum { BITS = sizeof bits / sizeof *bits };

static uint32_t events_from(const char *text) {
    uint32_t events = 0;
    for (int i = 0; i < BITS; i++) {
        const char *at = strstr(text, bits[i].text);
        // IN is not the IN of another word.
        size_t length = strlen(bits[i].text);
        if (at && (at == text || at[-1] == '|' || at[-1] == ':') && (at[length] == 0 || at[length] == '|')) events |= bits[i].bit;
    }
    return events;
}

static void say_events(struct line *line, uint32_t events) {
    const char *between = "";
    for (int i = 0; i < BITS; i++)
        if (events & bits[i].bit) {
            say(line, "%s%s", between, bits[i].text);
            between = "|";
        }
    if (!*between) say(line, "-");
}

// epoll_add|epoll_mod|epoll_del SET NAME EVENTS DATA
static void control(struct line *line, int operation) {
    struct epoll_event event = {.events = events_from(word(line, 3)), .data.u64 = (uint64_t)number(line, 4, 0)};
    say_result(line, epoll_ctl(fd_of(word(line, 1)), operation, fd_of(word(line, 2)), &event));
}

int watch(struct line *line, int at, int fd) {
    struct epoll_event event = {.events = events_from(word(line, at + 1)), .data.u64 = (uint64_t)number(line, at + 2, 0)};
    return at < line->words ? epoll_ctl(fd_of(word(line, at)), EPOLL_CTL_ADD, fd, &event) : 0;
}

static int by_data(const void *a, const void *b) {
    const struct epoll_event *x = a, *y = b;
    if (x->data.u64 != y->data.u64) return x->data.u64 < y->data.u64 ? -1 : 1;
    return x->events < y->events ? -1 : x->events > y->events;
}

// Milliseconds, of which -1 are without an end: no time then.
static struct timespec *time_of(long limit, struct timespec *time) {
    *time = (struct timespec){limit / 1000, limit % 1000 * 1000000};
    return limit < 0 ? NULL : time;
}

static int wait_by(const char *how, int set, struct epoll_event *events, int most, int limit) {
    struct timespec time, *until = time_of(limit, &time);
    if (!strcmp(how, "epoll_pwait")) return epoll_pwait(set, events, most, limit, NULL);
    if (!strcmp(how, "epoll_pwait2")) return epoll_pwait2(set, events, most, until, NULL);
    if (!strcmp(how, "epoll_raw")) return (int)syscall(SYS_epoll_pwait2, set, events, most, until, NULL, 8L);
    return epoll_wait(set, events, most, limit);
}

// epoll_wait|epoll_pwait|epoll_pwait2|epoll_raw SET MAX MS: which of many are told when there is no room for all
// is nobody's promise, so then only their number counts
static void wait_once(struct line *line) {
    enum { MOST = 32 };
    struct epoll_event events[MOST];
    int most = (int)number(line, 2, 8);
    if (most > MOST) most = MOST;
    int n = wait_by(word(line, 0), fd_of(word(line, 1)), events, most, (int)number(line, 3, 10));
    say_result(line, n);
    if (n <= 0 || (n == most && most < 8)) return;
    qsort(events, (size_t)n, sizeof *events, by_data);
    for (int i = 0; i < n; i++) {
        say(line, " %llu:", (unsigned long long)events[i].data.u64);
        say_events(line, events[i].events);
    }
}

// epoll_seen SET MAX TIMES MS: waits that often, and tells all that was told; nobody may be passed over
static void wait_often(struct line *line) {
    enum { MOST = 32 };
    struct epoll_event events[MOST];
    uint32_t seen[MOST] = {0};
    int most = (int)number(line, 2, 1);
    if (most > MOST) most = MOST;
    for (long i = number(line, 3, 20); i > 0; i--) {
        int n = epoll_wait(fd_of(word(line, 1)), events, most, (int)number(line, 4, 5));
        if (n < 0) return say_result(line, n);
        for (int k = 0; k < n; k++)
            if (events[k].data.u64 < MOST) seen[events[k].data.u64] |= events[k].events;
        if (n == 0) break;
    }
    for (int i = 0; i < MOST; i++)
        if (seen[i]) {
            say(line, "%s%d:", line->length ? " " : "", i);
            say_events(line, seen[i]);
        }
    if (!line->length) say(line, "nothing");
}

// etpump SET NAME TOTAL WANT PAUSE_US [counts]: an edge-triggered reader that takes a short read for "empty", as epoll(7)
// allows and many programs do. With "counts" it asks how much is left behind a whole one, and waits when it has that
static void pump(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 2))) name = *find(word(line, 2));
    long total = number(line, 3, 1000), want = number(line, 4, 16384), pause = number(line, 5, 0), done = 0;
    char *bytes = malloc((size_t)want + 1);
    int ready = 0, counts = !strcmp(word(line, 6), "counts"), left = -1;
    struct epoll_event event;
    for (long reads = 0; done < total;) {
        if (!ready) {
            int n = epoll_wait(fd_of(word(line, 1)), &event, 1, 400);
            if (n <= 0) {
                say(line, "stuck");
                break;
            }
            if (event.events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) ready = 1;
            if (!ready) continue;
            left = -1;
        }
        if (pause && ++reads % 4 == 0)
            for (int i = 0; i < 4; i++) {
                if (epoll_wait(fd_of(word(line, 1)), &event, 1, 0) == 1) ready = 1, left = -1;
                usleep((useconds_t)pause / 4);
            }
        ssize_t n = recv(name.fd, bytes, (size_t)want, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            ready = 0;
            continue;
        }
        if (n <= 0) {
            say_result(line, n);
            break;
        }
        check(line, name.stream, bytes, (size_t)n, 1);
        done += n;
        if (n < want) ready = 0;
        if (left >= 0)
            left = n < left ? left - (int)n : 0;
        else if (counts && n == want)
            ioctl(name.fd, FIONREAD, &left);
        if (left == 0) ready = 0;
    }
    if (done >= total) say(line, "complete");
    free(bytes);
}

// rounds SET NAME COUNT SIZE MS: sends, waits for the echo, reads it. Somebody else may be told of, too; who is not
// told of for MS is stuck
static void rounds(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 2))) name = *find(word(line, 2));
    char bytes[4096];
    size_t size = (size_t)number(line, 4, 10);
    if (size > sizeof bytes) size = sizeof bytes;
    for (long i = number(line, 3, 10); i > 0; i--) {
        fill(name.stream, bytes, size, 0);
        ssize_t n = send(name.fd, bytes, size, MSG_NOSIGNAL);
        if (n > 0 && name.stream) atomic_fetch_add(&name.stream->sent, (uint64_t)n);
        if (n < 0) return say_result(line, n);
        for (size_t left = size; left;) {
            struct epoll_event events[8];
            int told = epoll_wait(fd_of(word(line, 1)), events, 8, (int)number(line, 5, 200));
            if (told <= 0) return say(line, "stuck");
            n = recv(name.fd, bytes, left, MSG_DONTWAIT);
            if (n < 0 && errno == EAGAIN) continue;
            if (n <= 0) return say_result(line, n);
            check(line, name.stream, bytes, (size_t)n, 1);
            left -= (size_t)n;
        }
    }
    say(line, "complete");
}

// poll|ppoll MS NAME:EVENTS...; MS -1 is without an end
static void poll_many(struct line *line) {
    struct pollfd list[WORDS];
    nfds_t count = 0;
    for (int at = 2; at < line->words; at++) {
        char *colon = strchr(line->word[at], ':');
        if (!colon) continue;
        list[count].events = (short)events_from(colon);
        *colon = 0;
        list[count].fd = fd_of(line->word[at]);
        list[count++].revents = 0;
    }
    long limit = number(line, 1, 10);
    struct timespec time, *until = time_of(limit, &time);
    int ppolls = !strcmp(word(line, 0), "ppoll");
    say_result(line, ppolls ? ppoll(list, count, until, NULL) : poll(list, count, (int)limit));
    for (nfds_t i = 0; i < count; i++) {
        say(line, " ");
        // poll's bits are epoll's, and POLLNVAL.
        if (list[i].revents & POLLNVAL)
            say(line, "NVAL");
        else
            say_events(line, (uint32_t)list[i].revents);
    }
}

// select MS NAME:EVENTS...
static void select_many(struct line *line) {
    fd_set in, out, urgent;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&urgent);
    int fds[WORDS], count = 0, top = 0, asks_urgent = 0;
    for (int at = 2; at < line->words; at++) {
        char *colon = strchr(line->word[at], ':');
        if (!colon) continue;
        uint32_t events = events_from(colon);
        *colon = 0;
        int fd = fd_of(line->word[at]);
        if (fd < 0) continue;
        if (events & EPOLLIN) FD_SET(fd, &in);
        if (events & EPOLLOUT) FD_SET(fd, &out);
        if (events & EPOLLPRI) FD_SET(fd, &urgent), asks_urgent = 1;
        fds[count++] = fd;
        if (fd >= top) top = fd + 1;
    }
    struct timespec time, *until = time_of(number(line, 1, 10), &time);
    int n = pselect(top, &in, &out, asks_urgent ? &urgent : NULL, until, NULL);
    say_result(line, n);
    for (int i = 0; n >= 0 && i < count; i++)
        say(line, " %s%s%s", FD_ISSET(fds[i], &in) ? "r" : "-", FD_ISSET(fds[i], &out) ? "w" : "-",
            FD_ISSET(fds[i], &urgent) ? "x" : "");
}

// badctl COUNT: calls of epoll_ctl that fail
static void bad_controls(struct line *line) {
    struct epoll_event event = {.events = EPOLLIN};
    long failed = 0, count = number(line, 1, 1);
    for (long i = 0; i < count; i++) failed += epoll_ctl(-1, EPOLL_CTL_ADD, fd_of(word(line, 2)), &event) < 0;
    say_result(line, failed);
}

// manysets COUNT NAME EVENTS: that many epoll sets that watch it; they stay
static void many_sets(struct line *line) {
    struct epoll_event event = {.events = events_from(word(line, 3))};
    long made = 0, count = number(line, 1, 1);
    for (long i = 0; i < count; i++) {
        int set = epoll_create1(0);
        made += set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd_of(word(line, 2)), &event) == 0;
    }
    say_result(line, made);
}

int run_wait(struct line *line) {
    const char *what = word(line, 0);
    if (!strcmp(what, "epoll")) {
        int set = epoll_create1(EPOLL_CLOEXEC);
        bind_name(word(line, 1), set, NULL);
        return say(line, "%s", set < 0 ? "failed" : "ok"), 1;
    }
    if (!strcmp(what, "epoll_add")) return control(line, EPOLL_CTL_ADD), 1;
    if (!strcmp(what, "epoll_mod")) return control(line, EPOLL_CTL_MOD), 1;
    if (!strcmp(what, "epoll_del")) return control(line, EPOLL_CTL_DEL), 1;
    if (!strcmp(what, "epoll_seen")) return wait_often(line), 1;
    if (!strcmp(what, "epoll_wait") || !strcmp(what, "epoll_raw") || !strncmp(what, "epoll_pwait", 11))
        return wait_once(line), 1;
    if (!strcmp(what, "etpump")) return pump(line), 1;
    if (!strcmp(what, "rounds")) return rounds(line), 1;
    if (!strcmp(what, "poll") || !strcmp(what, "ppoll")) return poll_many(line), 1;
    if (!strcmp(what, "select")) return select_many(line), 1;
    if (!strcmp(what, "badctl")) return bad_controls(line), 1;
    if (!strcmp(what, "manysets")) return many_sets(line), 1;
    return 0;
}
