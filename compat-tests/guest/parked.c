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
    OK(dp_stat(a).sent == n && dp_stat(a).parked == n, "counted as left there");
    b = dp_new(4001, 1 << 20, O_NONBLOCK);
    OK(ready(a, POLLOUT, 1000) == POLLOUT, "whoever opens it with a larger pool makes room");
    OK(dp_stat(a).parked == 0 && dp_stat(a).lost == 0, "and as delivered now");
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

int main(void) {
    targets();
    return tap_end();
}
