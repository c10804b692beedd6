// SPDX-License-Identifier: MIT OR Apache-2.0
// The tracepoints: what they tell, and that they are quiet while they are off.
#define _GNU_SOURCE
#include "tap.h"

#include <sys/mount.h>

#define TRACING "/sys/kernel/tracing/"

static char log_of_trace[65536];

static bool set(const char *file, const char *to) {
    int f = open(file, O_WRONLY | O_TRUNC);
    bool good = f >= 0 && write(f, to, strlen(to)) == (ssize_t)strlen(to);
    close(f);
    return good;
}

/* Whether the log has such a line. */
static bool told(const char *line) {
    int f = open(TRACING "trace", O_RDONLY);
    size_t all = 0;
    for (ssize_t n; (n = read(f, log_of_trace + all, sizeof log_of_trace - 1 - all)) > 0;)
        all += n;
    log_of_trace[all] = 0;
    close(f);
    return strstr(log_of_trace, line);
}

int main(void) {
    int p[2];
    char line[128], buf[300];
    OK(!mount("tracefs", TRACING, "tracefs", 0, NULL) || errno == EBUSY, "the kernel's tracing");
    dp_pair(p, 4096, O_NONBLOCK);
    unsigned a = dp_number(p[0]), b = dp_number(p[1]);
    OK(write(p[0], "quiet", 5) == 5 && read(p[1], buf, 9) == 5 && !told("dp_"), "nothing is told while it is off");
    OK(set(TRACING "events/dp/enable", "1"), "switched on");

    OK(write(p[0], "hello", 5) == 5, "a message");
    snprintf(line, sizeof line, "dp_send: dpid=%u peer=0/%u len=5\n", a, b);
    OK(told(line), "that it was sent");
    OK(!told("dp_receive"), "and not that it was received");
    OK(read(p[1], buf, sizeof buf) == 5, "it is");
    snprintf(line, sizeof line, "dp_receive: dpid=%u peer=0/%u len=5\n", b, a);
    OK(told(line), "and told");

    // The long way as well: where the target is named, and where it lies apart.
    OK(dp_send_to(p[1], buf, 3, 1, a) == 3 && read(p[0], buf, sizeof buf) == 3, "to a target that is named");
    snprintf(line, sizeof line, "dp_send: dpid=%u peer=0/%u len=3\n", b, a);
    OK(told(line), "the same");
    static char big[10000];
    OK(write(p[0], big, sizeof big) == sizeof big && read(p[1], big, sizeof big) == sizeof big, "a long one");
    snprintf(line, sizeof line, "dp_receive: dpid=%u peer=0/%u len=10000\n", b, a);
    OK(told(line), "the same");

    OK(!told("dp_full"), "there was room for all of them");
    while (write(p[0], buf, sizeof buf) == sizeof buf)
        ;
    snprintf(line, sizeof line, "dp_full: dpid=%u peer=0/%u len=300\n", a, b);
    OK(errno == EAGAIN && told(line), "that there is no room");

    OK(set(TRACING "events/dp/enable", "0") && set(TRACING "trace", ""), "switched off");
    OK(read(p[1], buf, sizeof buf) == sizeof buf && write(p[0], "x", 1) == 1 && !told("dp_"), "and quiet again");
    close2(p);
    // What tracing has grown to is no leak of the driver's.
    set(TRACING "free_buffer", "1");
    return tap_end();
}
