/*
 * Somebody who sleeps is woken by the very message with which a connection leaves TCP, and nothing on TCP tells.
 *   recv, select, poll, epoll, edge   how the receiver sleeps, on young connections and after floods
 *   control SELECT|POLL|EPOLL         sleeps on a connection that is flooded and on one with a word now and then
 */
#include "common.h"

#include <sys/select.h>

#define CONNECTIONS 8
#define ROUNDS 24
#define WORD 20
#define FLOOD (1u << 20)
#define LIMIT_MS 10000
#define WORDS 100
#define DATA (24u << 20)

static bool is_flood(int round) { return round % 6 == 4; }

static int set = -1; /* of the present connections */

/* Until one of them is readable; which are. Only then: a wait that is too long has missed something. */
static unsigned sleep_on(const char *how, const int *fds, int n) {
    unsigned ready = 0;
    if (strcmp(how, "select") == 0) {
        fd_set set;
        FD_ZERO(&set);
        int top = 0;
        for (int i = 0; i < n; i++) {
            FD_SET(fds[i], &set);
            top = fds[i] > top ? fds[i] : top;
        }
        struct timeval limit = {.tv_sec = LIMIT_MS / 1000};
        CHECK(select(top + 1, &set, NULL, NULL, &limit) > 0 /* woken */);
        for (int i = 0; i < n; i++)
            ready |= FD_ISSET(fds[i], &set) ? 1u << i : 0;
    } else if (strcmp(how, "poll") == 0) {
        struct pollfd list[2];
        for (int i = 0; i < n; i++)
            list[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        CHECK(poll(list, (nfds_t)n, LIMIT_MS) > 0 /* woken */);
        for (int i = 0; i < n; i++)
            ready |= list[i].revents ? 1u << i : 0;
    } else if (strcmp(how, "recv") != 0) {
        bool edge = strcmp(how, "edge") == 0;
        if (set < 0) {
            set = MUST(epoll_create1(0));
            for (int i = 0; i < n; i++) {
                struct epoll_event event = {.events = EPOLLIN | (edge ? EPOLLET : 0u), .data.u32 = (uint32_t)i};
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event));
            }
        }
        struct epoll_event got[2];
        int k = epoll_wait(set, got, 2, LIMIT_MS);
        CHECK(k > 0 /* woken */);
        for (int i = 0; i < k; i++)
            ready |= 1u << got[i].data.u32;
    }
    return ready;
}

static void take_whole(int fd, const char *how, size_t length) {
    static char buffer[65536];
    struct timeval limit = {.tv_sec = LIMIT_MS / 1000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    bool again = true;
    while (length > 0) {
        if (again)
            sleep_on(how, &fd, 1);
        size_t room = length < sizeof buffer ? length : sizeof buffer;
        ssize_t n = recv(fd, buffer, room, strcmp(how, "recv") ? MSG_DONTWAIT : 0);
        /* an edge comes only after a read that found nothing */
        again = n < 0 || strcmp(how, "edge");
        CHECK(n > 0 || (n < 0 && errno == EAGAIN && strcmp(how, "recv")));
        length -= n > 0 ? (size_t)n : 0;
    }
}

static void receive_all(int listener, const char *how) {
    for (int c = 0; c < CONNECTIONS; c++) {
        int fd = MUST(accept(listener, NULL, NULL));
        for (int round = 0; round < ROUNDS; round++) {
            if (is_flood(round))
                sleep_ms(10); /* more than a ring holds goes over TCP */
            take_whole(fd, how, is_flood(round) ? FLOOD : WORD);
            write_all(fd, "", 1);
        }
        close(fd);
        close(set);
        set = -1;
    }
    say("received all");
}

static void send_all(void) {
    static char flood[FLOOD];
    for (int c = 0; c < CONNECTIONS; c++) {
        int fd = connect_there();
        no_delay(fd);
        for (int round = 0; round < ROUNDS; round++) {
            char answer;
            sleep_ms(round % 3 ? 3 : 0);
            write_all(fd, flood, is_flood(round) ? FLOOD : WORD);
            read_exact(fd, &answer, 1);
        }
        close(fd);
    }
    say("sent all");
}

static void serve_both(int listener, const char *how) {
    static char buffer[131072];
    int fds[2];
    fds[0] = accepted(listener);
    fds[1] = accepted(listener);
    uint64_t data = 0;
    int words = 0, open = 2;
    while (words < WORDS || open == 2) {
        unsigned ready = sleep_on(how, fds, open);
        if (ready & 2) {
            ssize_t n = MUST(recv(fds[1], buffer, sizeof buffer, 0));
            data += (uint64_t)n;
            if (n == 0) {
                open = 1;
                close(set);
                set = -1;
            }
        }
        if (ready & 1) {
            char word[WORD];
            read_exact(fds[0], word, sizeof word);
            write_all(fds[0], word, sizeof word);
            words++;
        }
    }
    say("%d words, %llu bytes", words, (unsigned long long)data);
}

static int data_connection;

static void *flood_it(void *unused) {
    static char block[131072];
    for (uint64_t sent = 0; sent < DATA; sent += sizeof block)
        write_all(data_connection, block, sizeof block);
    MUST(shutdown(data_connection, SHUT_WR));
    return unused;
}

static void talk_meanwhile(void) {
    int control = connected();
    data_connection = connected();
    pthread_t flood = start_thread(flood_it, NULL);
    for (int i = 0; i < WORDS; i++) {
        exchange(control, WORD, (uint64_t)i);
        sleep_ms(i % 4 ? 0 : 2);
    }
    pthread_join(flood, NULL);
    char end;
    CHECK(read(control, &end, 1) == 0);
    say("%d words", WORDS);
}

void server(void) {
    int listener = listen_here();
    if (mode_is("control"))
        serve_both(listener, program_argv[4]);
    else
        receive_all(listener, program_argv[3]);
}

void client(void) {
    if (mode_is("control"))
        talk_meanwhile();
    else
        send_all();
}
