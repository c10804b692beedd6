/*
 * Calls for many messages at once, and a receive that need not wait.
 *   partial   sendmmsg on a full connection: nothing may follow a message that went out in part
 *   receive   recvmmsg with a time limit, with wrong ones, and at the end of the stream
 *   cancel    a thread that always finds something to receive is cancelled
 */
#include "common.h"

#define MESSAGES 6
#define LENGTH 300000
#define ROUNDS 60

static char data[MESSAGES * LENGTH];

static void prepare(struct mmsghdr *list, struct iovec *pieces, size_t length) {
    for (int i = 0; i < MESSAGES; i++) {
        pieces[i] = (struct iovec){data + i * LENGTH, length};
        list[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &pieces[i], .msg_iovlen = 1}};
    }
}

static void send_in_part(int fd) {
    struct mmsghdr list[MESSAGES];
    struct iovec pieces[MESSAGES];
    uint64_t sum = 0;
    int behind = 0;
    set_nonblocking(fd, true);
    for (int round = 0; round < ROUNDS;) {
        prepare(list, pieces, LENGTH);
        int n = sendmmsg(fd, list, MESSAGES, MSG_NOSIGNAL);
        if (n < 0) {
            CHECK(errno == EAGAIN);
            struct pollfd entry = {.fd = fd, .events = POLLOUT};
            MUST(poll(&entry, 1, 5000));
            continue;
        }
        round++;
        for (int i = 0; i < n; i++) {
            sum += list[i].msg_len;
            behind += i + 1 < n && list[i].msg_len < LENGTH;
        }
    }
    say("messages behind one that was sent in part: %d", behind);
    set_nonblocking(fd, false);
    mark("sum", sum);
    MUST(shutdown(fd, SHUT_WR));
}

static void receive_many(int fd) {
    struct mmsghdr list[MESSAGES];
    struct iovec pieces[MESSAGES];
    struct timespec limit = {.tv_nsec = 150000000}, wrong = {.tv_nsec = 1000000000}, past = {.tv_sec = -1};
    prepare(list, pieces, 4);
    outcome("wrong limit", recvmmsg(fd, list, MESSAGES, 0, &wrong));
    outcome("limit in the past", recvmmsg(fd, list, MESSAGES, 0, &past));
    ask(fd, 9);
    outcome("9 bytes for 4 each", recvmmsg(fd, list, 2, 0, NULL));
    outcome("the last", recvmmsg(fd, list, MESSAGES, MSG_WAITFORONE, NULL));
    outcome("its length", list[0].msg_len);
    for (int i = 0; i < 4; i++)
        ask_later(fd, 2, i ? 100 : 0);
    /* Looked at after each message: the one that is late ends it. One may bring the bytes of two on a busy machine. */
    int n = MUST(recvmmsg(fd, list, 4, 0, &limit));
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += list[i].msg_len;
    say("a piece each 100 ms, 150 ms of time: %s", sum > 0 && n < 4 ? "not all of them" : "all");
    say("time left: %ld.%09ld", (long)limit.tv_sec, limit.tv_nsec);
    outcome("flags", list[0].msg_hdr.msg_flags);
    while (sum < 8)
        sum += (size_t)MUST(recv(fd, data, 4, 0));
    ask(fd, 4);
    ask_shutdown(fd);
    sleep_ms(50);
    outcome("at the end", recvmmsg(fd, list, 5, 0, NULL));
    say("lengths %u %u %u %u %u", list[0].msg_len, list[1].msg_len, list[2].msg_len, list[3].msg_len,
        list[4].msg_len);
    struct msghdr one = {.msg_iov = pieces, .msg_iovlen = 1};
    outcome("recvmsg", recvmsg(fd, &one, MSG_CMSG_CLOEXEC));
    say("its flags: %s", one.msg_flags == MSG_CMSG_CLOEXEC ? "MSG_CMSG_CLOEXEC" : "other");
    MUST(shutdown(fd, SHUT_WR));
    struct iovec nothing = {data, 0};
    outcome("writev of nothing", writev(fd, &nothing, 1));
    outcome("pwritev2 of nothing", pwritev2(fd, &nothing, 1, -1, 0));
}

static void *receive_for_ever(void *argument) {
    int fd = *(int *)argument;
    while (recv(fd, data, 1, 0) == 1) {}
    return NULL;
}

static void cancel(int fd) {
    pthread_t thread = start_thread(receive_for_ever, &fd);
    sleep_ms(100);
    pthread_cancel(thread);
    struct timespec until;
    void *result = NULL;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    int error = pthread_timedjoin_np(thread, &result, &until);
    say("%s", error ? "it goes on" : result == PTHREAD_CANCELED ? "cancelled" : "ended");
    _exit(error != 0);
}

void tester(int fd) {
    if (mode_is("partial"))
        send_in_part(fd);
    else if (mode_is("receive"))
        receive_many(fd);
    else
        cancel(fd);
}

void helper(int fd) {
    if (mode_is("receive")) {
        serve_asks(fd);
        return;
    }
    if (mode_is("cancel")) {
        while (send(fd, data, 4096, MSG_NOSIGNAL) > 0) {}
        return;
    }
    uint64_t sum = 0;
    for (ssize_t n; (n = MUST(read(fd, data, sizeof data))) > 0;)
        sum += (uint64_t)n;
    say("bytes: %s", sum == await_mark("sum") ? "all" : "other than were sent");
}
