/*
 * Every pair of ends: of this side's own and the other side's, in either order, with bytes unread on either side, and then
 * each call first. A line for each, of which docs/ENDS.md is made (tests/behaviours/ends_table.rs):
 *
 *     own end|order|the other's end|unread|calls|edge|level|poll|what the calls returned|poll
 *
 * Connections are many at once, and each step is taken on all of them before there is time for the other side to hear of
 * it. A third of them are in an epoll set for edges, a third in one for levels, and a third in none, by their calls.
 */
#include "settled.h"

enum end { NOTHING, SHUT_WRITING, SHUT_READING, SHUT_BOTH, CLOSED, RESET, DIED, ENDS };
static const char *const END[] = {"nothing", "SHUT_WR", "SHUT_RD", "SHUT_RDWR", "close", "reset", "death"};
/* Those behind which this side can still be asked. */
#define OPEN_ENDS 4

enum payload { NONE, FEW_HERE, FEW_THERE, MANY_HERE, MANY_THERE, PAYLOADS };
static const char *const PAYLOAD[] = {"none", "few here", "few there", "many here", "many there"};
#define FEW 5
/* More than a ring holds, and less than a socket does. */
#define MANY 40000

enum calls { SENDS, RECEIVES, ASKS, CALLS };
static const char *const CALL[] = {"send", "receive", "SO_ERROR"};

#define STEPS 6
#define AT_ONCE 105

struct pair {
    enum end own, other;
    bool own_first;
    enum payload payload;
    enum calls calls;
};

static struct pair pairs[ENDS * OPEN_ENDS * 2 * PAYLOADS * CALLS];
static int pair_count;
static int control;
static char data[1000000];

static void list_pairs(void) {
    for (int own = 0; own < OPEN_ENDS; own++)
        for (int order = 0; order < 2; order++)
            for (int other = 0; other < ENDS; other++)
                for (int payload = 0; payload < PAYLOADS; payload++)
                    for (int calls = 0; calls < CALLS; calls++)
                        if (order == 0 || (own != NOTHING && other != NOTHING))
                            pairs[pair_count++] = (struct pair){own, other, order == 1, payload, calls};
}

/* Both sides are here, and what either did has arrived. */
static void meet(void) {
    char byte = '.';
    settle_loopback();
    write_all(control, &byte, 1);
    read_exact(control, &byte, 1);
    settle_loopback();
}

static void send_payload(int fd, const struct pair *pair, bool tester) {
    bool here = pair->payload == FEW_HERE || pair->payload == MANY_HERE;
    bool few = pair->payload == FEW_HERE || pair->payload == FEW_THERE;
    size_t length = few ? FEW : MANY;
    if (pair->payload != NONE && here != tester)
        CHECK(MUST(send(fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)) == (ssize_t)length);
}

static void end_one(int fd, enum end end) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (end == RESET)
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    if (end >= SHUT_WRITING && end <= SHUT_BOTH)
        /* An end that was reset before has nothing to shut down: that is its answer. */
        (void)shutdown(fd, end == SHUT_WRITING ? SHUT_WR : end == SHUT_READING ? SHUT_RD : SHUT_RDWR);
    else if (end != NOTHING)
        MUST(close(fd));
}

/* That this side's end has arrived is an edge to itself, as soon as the other one acknowledges it, which may be 40 ms later. */
static void await_acknowledgement(int fd) {
    struct tcp_info info = {0};
    for (int i = 0; i < 2000 && info.tcpi_state != TCP_FIN_WAIT2; i++) {
        socklen_t length = sizeof info;
        MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
        if (info.tcpi_state != TCP_FIN_WAIT2)
            sleep_ms(1);
    }
    CHECK(info.tcpi_state == TCP_FIN_WAIT2);
}

/* Those of the other side that end now; a child has those that die, and dies. */
static void end_others(int *fds, const struct pair *batch, int count, bool own_first) {
    int closed[2];
    MUST(pipe2(closed, O_CLOEXEC));
    pid_t child = MUST(fork());
    if (child == 0) {
        char byte;
        for (int i = 0; i < count; i++)
            if (fds[i] >= 0 && batch[i].other == DIED && batch[i].own_first == own_first)
                (void)recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK);
            else if (fds[i] >= 0)
                MUST(close(fds[i]));
        CHECK(read(closed[0], &byte, 1) == 1);
        raise(SIGKILL);
    }
    for (int i = 0; i < count; i++) {
        if (batch[i].own_first != own_first)
            continue;
        end_one(fds[i], batch[i].other);
        if (batch[i].other >= CLOSED)
            fds[i] = -1;
    }
    write_all(closed[1], ".", 1);
    MUST(waitpid(child, NULL, 0));
    MUST(close(closed[0]));
    MUST(close(closed[1]));
}

static void other_side(int *fds, const struct pair *batch, int count) {
    for (int i = 0; i < count; i++)
        send_payload(fds[i], &batch[i], false);
    meet();
    meet();
    for (int own_first = 0; own_first < 2; own_first++) {
        if (!own_first)
            end_others(fds, batch, count, false);
        meet();
        if (own_first)
            end_others(fds, batch, count, true);
        meet();
    }
    meet();
}

static void add_events(char *to, uint32_t events) {
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{EPOLLIN, "in"}, {EPOLLOUT, "out"}, {EPOLLRDHUP, "rdhup"}, {EPOLLHUP, "hup"}, {EPOLLERR, "err"}};
    const char *before = "";
    *to = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (events & names[i].bit) {
            to += sprintf(to, "%s%s", before, names[i].name);
            before = " ";
        }
    if (!*before)
        strcpy(to, "-");
}

static void ask_set(int set, uint32_t *told, int count) {
    struct epoll_event events[AT_ONCE];
    memset(told, 0, sizeof *told * count);
    int n = MUST(epoll_wait(set, events, AT_ONCE, 0));
    for (int i = 0; i < n; i++)
        told[events[i].data.u32] |= events[i].events;
}

static uint32_t ask_poll(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
    MUST(poll(&entry, 1, 0));
    return entry.revents;
}

/* What a connection's calls returned so far. */
struct results {
    char text[200];
    ssize_t received;
};

static void note(struct results *results, const char *what, ssize_t result) {
    char *to = results->text + strlen(results->text);
    if (result < 0)
        sprintf(to, "%s%s%s", *results->text ? ", " : "", what, strerrorname_np(errno));
    else
        sprintf(to, "%s%s%zd", *results->text ? ", " : "", what, result);
}

static void one_send(int fd, struct results *results) {
    note(results, "", send(fd, "0123456789", 10, MSG_NOSIGNAL | MSG_DONTWAIT));
}

static void one_receive(int fd, struct results *results, bool last) {
    ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
    int error = errno;
    if (n > 0)
        results->received += n;
    if ((n <= 0 || last) && results->received > 0) {
        note(results, "", results->received);
        results->received = 0;
    }
    errno = error;
    if (n <= 0)
        note(results, "", n);
}

static void one_question(int fd, struct results *results) {
    int error = 0;
    socklen_t length = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    errno = error;
    if (error)
        note(results, "", -1);
    else
        strcat(strcat(results->text, *results->text ? ", " : ""), "none");
}

static void step(int fd, const struct pair *pair, int k, struct results *results) {
    switch (pair->calls) {
    case SENDS:
        k < 3 ? one_send(fd, results) : k == 3 ? one_question(fd, results) : (void)0;
        break;
    case RECEIVES:
        one_receive(fd, results, k == STEPS - 1);
        break;
    default:
        k < 2 ? one_question(fd, results) : k == 2 ? one_send(fd, results) : one_receive(fd, results, k == STEPS - 1);
    }
}

static void own_side(int *fds, const struct pair *batch, int count) {
    static struct results results[AT_ONCE];
    uint32_t edge[AT_ONCE], edges[2][AT_ONCE], level[AT_ONCE];
    char before[40], after[40], first[40], second[40], levels[40];
    int sets[2];
    memset(results, 0, sizeof results);
    for (int i = 0; i < 2; i++)
        sets[i] = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP, .data.u32 = i};
        if (batch[i].calls == SENDS)
            event.events |= EPOLLET;
        if (batch[i].calls != ASKS)
            MUST(epoll_ctl(sets[batch[i].calls], EPOLL_CTL_ADD, fds[i], &event));
        send_payload(fds[i], &batch[i], true);
    }
    meet();
    /* What is unread is no news, of a connection that is hot as of one that is not. */
    for (int i = 0; i < 2; i++) {
        ask_set(sets[0], edge, count);
        ask_set(sets[1], level, count);
    }
    meet();
    for (int own_first = 0; own_first < 2; own_first++) {
        /* The other's end, this side's behind it; and then the same the other way round. */
        for (int i = 0; i < count && own_first; i++)
            if (batch[i].own_first)
                end_one(fds[i], batch[i].own);
        if (own_first) {
            for (int i = 0; i < count; i++)
                if (batch[i].own_first && (batch[i].own == SHUT_WRITING || batch[i].own == SHUT_BOTH))
                    await_acknowledgement(fds[i]);
            ask_set(sets[0], edge, count);
        }
        meet();
        if (!own_first) {
            ask_set(sets[0], edges[0], count);
            for (int i = 0; i < count; i++)
                if (!batch[i].own_first)
                    end_one(fds[i], batch[i].own);
        }
        meet();
        if (own_first) {
            ask_set(sets[0], edges[1], count);
            ask_set(sets[1], level, count);
        }
    }
    uint32_t polled[AT_ONCE];
    for (int i = 0; i < count; i++)
        polled[i] = ask_poll(fds[i]);
    for (int k = 0; k < STEPS; k++) {
        for (int i = 0; i < count; i++)
            step(fds[i], &batch[i], k, &results[i]);
        settle_loopback();
    }
    for (int i = 0; i < count; i++) {
        const struct pair *pair = &batch[i];
        add_events(first, edges[0][i]);
        add_events(second, edges[1][i]);
        add_events(levels, level[i]);
        add_events(before, polled[i]);
        add_events(after, ask_poll(fds[i]));
        bool ordered = pair->own != NOTHING && pair->other != NOTHING;
        say("%s|%s|%s|%s|%s|%s|%s|%s|%s|%s", END[pair->own], !ordered ? "" : pair->own_first ? "before" : "after",
            END[pair->other], PAYLOAD[pair->payload], CALL[pair->calls],
            pair->calls != SENDS ? "" : pair->own_first ? second : first, pair->calls == RECEIVES ? levels : "", before,
            results[i].text, after);
    }
    MUST(close(sets[0]));
    MUST(close(sets[1]));
    meet();
}

static void all_pairs(int (*next)(int), int listener) {
    const char *swap = getenv("COMPAT_SWAP");
    bool own = is_client == (swap && *swap == '1');
    int fds[AT_ONCE];
    no_delay(control);
    list_pairs();
    for (int at = 0; at < pair_count; at += AT_ONCE) {
        int count = pair_count - at < AT_ONCE ? pair_count - at : AT_ONCE;
        for (int i = 0; i < count; i++) {
            fds[i] = next(listener);
            no_delay(fds[i]);
        }
        (own ? own_side : other_side)(fds, pairs + at, count);
        for (int i = 0; i < count; i++)
            if (fds[i] >= 0)
                MUST(close(fds[i]));
    }
    close(control);
}

static int another(int unused) {
    (void)unused;
    return connected();
}

void server(void) {
    int listener = listen_here();
    control = accepted(listener);
    all_pairs(accepted, listener);
}

void client(void) {
    control = connected();
    all_pairs(another, -1);
}
