/*
 * Several buffers in one call. Modes: iov (readv, writev), msg (sendmsg, recvmsg), mmsg (sendmmsg, recvmmsg).
 */
#include "common.h"

#define PARTS 6
#define MESSAGES 4
static const size_t lengths[PARTS] = {1, 0, 63, 64, 700, 2001};
#define TOTAL (1 + 63 + 64 + 700 + 2001)

static char out[MESSAGES][TOTAL], in[MESSAGES][TOTAL];

static void slice(struct iovec *vectors, char *from) {
    for (int i = 0; i < PARTS; i++) {
        vectors[i] = (struct iovec){from, lengths[i]};
        from += lengths[i];
    }
}

/* Drops the first n bytes, as after a short read. */
static void advance(struct iovec *vectors, size_t n) {
    for (int i = 0; i < PARTS; i++) {
        size_t step = n < vectors[i].iov_len ? n : vectors[i].iov_len;
        vectors[i].iov_base = (char *)vectors[i].iov_base + step;
        vectors[i].iov_len -= step;
        n -= step;
    }
}

static void one_round(int fd) {
    struct iovec vectors[PARTS];
    slice(vectors, out[0]);
    if (mode_is("iov")) {
        CHECK(writev(fd, vectors, PARTS) == TOTAL);
    } else {
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = PARTS};
        CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == TOTAL);
    }
    slice(vectors, in[0]);
    for (size_t got = 0; got < TOTAL;) {
        struct sockaddr_storage name;
        char control[64];
        struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = vectors,
                                 .msg_iovlen = PARTS, .msg_control = control, .msg_controllen = sizeof control,
                                 .msg_flags = -1};
        ssize_t n = mode_is("iov") ? readv(fd, vectors, PARTS) : recvmsg(fd, &message, 0);
        CHECK(n > 0);
        if (mode_is("msg")) /* a stream socket fills in none of these */
            CHECK(message.msg_flags == 0 && message.msg_controllen == 0 && message.msg_namelen == 0);
        advance(vectors, (size_t)n);
        got += (size_t)n;
    }
    CHECK(memcmp(in[0], out[0], TOTAL) == 0);
}

static void one_round_of_several(int fd) {
    struct iovec vectors[MESSAGES][PARTS];
    struct mmsghdr messages[MESSAGES];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < MESSAGES; i++) {
        slice(vectors[i], out[i]);
        messages[i].msg_hdr.msg_iov = vectors[i];
        messages[i].msg_hdr.msg_iovlen = PARTS;
    }
    CHECK(sendmmsg(fd, messages, MESSAGES, 0) == MESSAGES);
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(messages[i].msg_len == TOTAL);
        slice(vectors[i], in[i]);
        messages[i].msg_len = 0;
    }
    struct timespec limit = {5, 0};
    CHECK(recvmmsg(fd, messages, MESSAGES, MSG_WAITALL, &limit) == MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        CHECK(messages[i].msg_len == TOTAL);
    CHECK(memcmp(in, out, sizeof in) == 0);
    /* One message waits for data, the rest only take what is there: at least one comes back. */
    write_all(fd, "x", 1);
    CHECK(recvmmsg(fd, messages, MESSAGES, MSG_WAITFORONE, NULL) == 1 && messages[0].msg_len == 1);
    CHECK(recvmmsg(fd, messages, MESSAGES, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
}

void tester(int fd) {
    for (uint64_t i = 0; i < 100; i++) {
        fill(out, sizeof out, i);
        memset(in, 0, sizeof in);
        if (mode_is("mmsg"))
            one_round_of_several(fd);
        else
            one_round(fd);
    }
    static struct iovec too_many[2000];
    outcome("writev of 2000 parts", writev(fd, too_many, 2000));
    outcome("writev of none", writev(fd, too_many, 0));
    say("100 rounds of %d bytes", mode_is("mmsg") ? MESSAGES * TOTAL : TOTAL);
}

void helper(int fd) { echo_until_eof(fd); }
