// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers that nobody has opened: messages are left there, and wait for whoever opens them.
#define _GNU_SOURCE
#include "tap.h"

static unsigned char buf[1 << 16];

static void targets(void) {
    int a = dp_new(4000, 0, 0), b;
    OK(!dp_aim(a, 4001), "a target that is not there");
    bool good = true;
    for (uint64_t i = 0; i < 50; i++) {
        number(buf, i, 40);
        good &= write(a, buf, 40) == 40;
    }
    OK(good, "messages are left for it");
    close(a);
    b = dp_new(4001, 0, O_NONBLOCK);
    for (uint64_t i = 0; i < 50; i++)
        good &= read(b, buf, 99) == 40 && is_number(buf, i, 40);
    OK(good, "they arrive, though their sender is gone");
    FAILS(EAGAIN, read(b, buf, 99), "and no others");
    close(b);

    a = dp_new(4000, 0, O_NONBLOCK);
    dp_aim(a, 4001);
    uint64_t n = 0;
    for (number(buf, n, 1000); write(a, buf, 1000) == 1000; number(buf, n, 1000))
        n++;
    OK(errno == EAGAIN && n > 50 && n < 200 && !ready(a, POLLOUT, 0), "not endlessly many: %lu", n);
    OK(dp_stat(a).sent == n && dp_stat(a).backlog == n, "counted as left there");
    b = dp_new(4001, 1 << 20, O_NONBLOCK);
    OK(ready(a, POLLOUT, 1000) == POLLOUT, "whoever opens it with a larger pool makes room");
    OK(dp_stat(a).backlog == 0 && dp_stat(a).lost == 0, "and as delivered now");
    good = write(a, buf, 1000) == 1000;
    for (uint64_t i = 0; i <= n; i++)
        good &= read(b, buf, 2000) == 1000 && is_number(buf, i, 1000);
    OK(good, "and all arrive in order");
    write(a, "for the dead", 12);
    close(b);
    write(a, "for the next", 12);
    b = dp_new(4001, 0, O_NONBLOCK);
    OK(read(b, buf, 99) == 12 && !memcmp(buf, "for the next", 12) && read(b, buf, 99) == -1,
       "what was not read goes with its receiver, the rest waits for the next");
    for (int i = 0; i < 100; i++) {
        close(b);
        b = dp_new(4001, 0, O_NONBLOCK);
        good &= write(a, &i, 4) == 4 && read(b, buf, 9) == 4 && !memcmp(buf, &i, 4);
    }
    OK(good, "a target that comes back 100 times");
    for (unsigned i = 0; i < 16; i++)
        good &= dp_send_to(a, "x", 1, 0, 5000 + i) == 1;
    FAILS(EAGAIN, dp_send_to(a, "x", 1, 0, 5016), "one endpoint leaves messages at 16 numbers");
    OK(good && !ready(a, POLLOUT, 0), "and poll says so");
    int c = dp_new(5016, 0, O_NONBLOCK);
    OK(ready(a, POLLOUT, 0) == POLLOUT && dp_send_to(a, "x", 1, 0, 5016) == 1 && read(c, buf, 9) == 1,
       "until somebody opens it");
    close(c);
    close(a);
    close(b);
}

static int opens(int dpid) {
    return become_nobody() && dp_new(dpid, 0, 0) >= 0 ? 0 : 1;
}

static int leaves(int dpid) {
    return become_nobody() && dp_send_to(dp_new(0, 0, 0), "mine", 4, 0, dpid) == 4 ? 0 : 1;
}

static void *send_later(void *arg) {
    int *s = arg;
    return (void *)dp_send_to(s[0], "late", 4, 0, s[1]);
}

/* What their senders have left waits 10 seconds, no longer; but as long as one of them is there. */
static void lingering(void) {
    /* The first goes before the second comes. */
    int first = dp_new(0, 0, 0), second = dp_new(0, 0, 0);
    bool good = dp_send_to(first, "one", 3, 0, 5101) == 3;
    close(first);
    good &= dp_send_to(second, "two", 3, 0, 5101) == 3;
    OK(good && dp_stat(second).backlog == 1, "two leave messages at a number, the first goes");
    /* Another user opens the number and goes; then it is another number, for whose messages the first does not count. */
    int early = dp_new(0, 0, 0), late = dp_new(0, 0, 0);
    good = dp_send_to(early, "lost", 4, 0, 5102) == 4 && child_says(opens, 5102) == 0 && dp_stat(early).lost == 1;
    good &= dp_send_to(late, "three", 5, 0, 5102) == 5;
    close(early);
    OK(good && dp_stat(late).backlog == 1, "one who left something earlier goes");
    /* Another user's messages are in the way of ours, until they go by themselves. */
    OK(child_says(leaves, 5103) == 0 && child_says(leaves, 5104) == 0, "another user leaves messages and goes");
    double began = now();
    int polled = dp_new(0, 0, O_NONBLOCK), blocked[2] = {dp_new(0, 0, 0), 5103};
    pthread_t t;
    pthread_create(&t, NULL, send_later, blocked);
    FAILS(EAGAIN, dp_send_to(polled, "four", 4, 0, 5104), "ours are not mixed with them");
    /* It tells whenever a number becomes free, be it another: also those that other tests have left messages at. */
    int told = 0;
    long sent_now = -1;
    while (sent_now < 0 && ready(polled, POLLOUT, 15000) == POLLOUT && told++ < 50)
        sent_now = dp_send_to(polled, "four", 4, 0, 5104);
    double after = now() - began;
    OK(sent_now == 4 && after > 9 && after < 14, "poll tells when they are gone, and there is room for ours");
    pause_ms(500);
    /* Whoever waits in a call and was not woken is now, as somebody opens a number. */
    began = now();
    bool sent = dp_stat(blocked[0]).sent == 1;
    close(dp_new(0, 0, 0));
    pthread_join(t, NULL);
    OK(sent && now() - began < 1, "a call that waits ends by itself");
    close(blocked[0]);
    close(polled);

    pause_ms(2000);
    close(dp_new(0, 0, 0));
    OK(dp_stat(second).backlog == 1 && dp_stat(second).lost == 0, "what a sender who is there left stays");
    OK(dp_stat(late).backlog == 1 && dp_stat(late).lost == 0, "whoever else goes");
    int to = dp_new(5101, 0, O_NONBLOCK), other = dp_new(5102, 0, O_NONBLOCK);
    OK(read(to, buf, 9) == 3 && !memcmp(buf, "one", 3) && read(to, buf, 9) == 3 && !memcmp(buf, "two", 3), "all of it");
    OK(read(other, buf, 9) == 5 && !memcmp(buf, "three", 5) && read(other, buf, 9) == -1, "there, too");
    close(to);
    close(other);
    close(second);
    close(late);
}

int main(void) {
    targets();
    lingering();
    return tap_end();
}
