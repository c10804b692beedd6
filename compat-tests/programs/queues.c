/*
 * What a socket has beside its stream.
 *   zerocopy    MSG_ZEROCOPY leaves its notices in the error queue: that is no error
 *   stamps      so do time stamps of what is sent
 *   urgent      MSG_OOB: no receive goes across the mark, and both directions live on
 *   inline      the same with SO_OOBINLINE
 *   exact       who has received exactly what is before it is at the mark
 *   passed      an urgent byte that a receive has stepped over is none any more, also where nothing follows it
 */
#include "common.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

static void noticed(int fd) {
    char byte;
    set_nonblocking(fd, true);
    outcome("nothing there", recv(fd, &byte, 1, 0));
    set_nonblocking(fd, false);
    struct timeval moment = {0, 50000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    outcome("still nothing", recv(fd, &byte, 1, 0));
    ask(fd, 5);
    char five[5];
    read_exact(fd, five, sizeof five);
    char control[512];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(fd, &message, MSG_ERRQUEUE) >= 0);
    say("noticed, and alive");
}

static void told(int fd, const char *what, int flags) {
    char some[32];
    struct timeval moment = {0, 200000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    ssize_t n = recv(fd, some, sizeof some, flags);
    if (n < 0)
        outcome(what, n);
    else
        say("%s: %.*s", what, (int)n, some);
}

static void urgency(int fd, const char *what) {
    struct pollfd one = {fd, POLLIN | POLLPRI, 0};
    MUST(poll(&one, 1, 0));
    int at_mark;
    MUST(ioctl(fd, SIOCATMARK, &at_mark));
    CHECK(sockatmark(fd) == at_mark);
    say("%s:%s%s, %s", what, one.revents & POLLIN ? " in" : "", one.revents & POLLPRI ? " urgent" : "",
        at_mark ? "at the mark" : "not at the mark");
}

static void passed(int fd) {
    char byte;
    mark("awake", 1);
    while (recv(fd, &byte, 1, MSG_DONTWAIT) != 1) /* it is awake: nobody wakes it for what follows */
        CHECK(errno == EAGAIN);
    mark("ready", 1);
    await_mark("sent");
    urgency(fd, "before");
    told(fd, "stream", MSG_DONTWAIT);
    urgency(fd, "at it");
    told(fd, "peeked", MSG_DONTWAIT | MSG_PEEK);
    urgency(fd, "still at it");
    told(fd, "nothing", MSG_DONTWAIT);
    urgency(fd, "behind it");
    told(fd, "urgent", MSG_OOB);
    mark("passed", 1);
    await_mark("again");
    told(fd, "stream", 0);
}

static void exact(int fd) {
    char some[3];
    CHECK(recv(fd, some, sizeof some, MSG_DONTWAIT) < 0); /* it is told of what follows */
    mark("ready", 1);
    await_mark("sent");
    say("before: %s", sockatmark(fd) ? "at the mark" : "not at the mark");
    told(fd, "urgent", MSG_OOB);
    read_exact(fd, some, sizeof some);
    say("behind: %s", sockatmark(fd) ? "at the mark" : "not at the mark");
    told(fd, "stream", 0);
    say("after: %s", sockatmark(fd) ? "at the mark" : "not at the mark");
}

void helper(int fd) {
    if (mode_is("exact")) {
        exact(fd);
        return;
    }
    if (mode_is("passed")) {
        passed(fd);
        return;
    }
    if (mode_is("zerocopy") || mode_is("stamps")) {
        char big[20000];
        read_exact(fd, big, mode_is("zerocopy") ? sizeof big : 100);
        mark("read", 1);
        serve_asks(fd);
        return;
    }
    int on = mode_is("inline");
    MUST(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    mark("ready", 1);
    await_mark("sent");
    if (!on)
        told(fd, "urgent", MSG_OOB);
    for (int i = 0; i < 3; i++)
        told(fd, "stream", 0);
    write_all(fd, "back", 4);
    await_mark("again");
    told(fd, "afterwards", 0);
}

void tester(int fd) {
    if (mode_is("zerocopy")) {
        char big[20000] = {0};
        int on = 1;
        MUST(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
        CHECK(send(fd, big, sizeof big, MSG_ZEROCOPY) == sizeof big);
    } else if (mode_is("stamps")) {
        int what = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
                   SOF_TIMESTAMPING_OPT_TSONLY;
        MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof what));
        char some[100] = {0};
        CHECK(send(fd, some, sizeof some, 0) == sizeof some);
    }
    if (mode_is("zerocopy") || mode_is("stamps")) {
        await_mark("read");
        sleep_ms(50);
        noticed(fd);
        return;
    }
    if (mode_is("passed")) {
        await_mark("awake");
        sleep_ms(50);
        write_all(fd, "-", 1);
        write_all(fd, "abc", 3);
        await_mark("ready");
        CHECK(send(fd, "!", 1, MSG_OOB) == 1);
        sleep_ms(50);
        mark("sent", 1);
        await_mark("passed");
        write_all(fd, "def", 3);
        sleep_ms(50);
        mark("again", 1);
        return;
    }
    await_mark("ready");
    write_all(fd, "abc", 3);
    CHECK(send(fd, "!", 1, MSG_OOB) == 1);
    write_all(fd, "def", 3);
    sleep_ms(50);
    mark("sent", 1);
    if (mode_is("exact"))
        return;
    char four[4];
    read_exact(fd, four, sizeof four);
    write_all(fd, "again", 5);
    sleep_ms(50);
    mark("again", 1);
    char byte;
    outcome("at the end", read(fd, &byte, 1));
}
