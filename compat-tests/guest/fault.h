// SPDX-License-Identifier: MIT OR Apache-2.0
// Allocations and copies that fail: the kernel is told to let the n-th of a call fail, for n = 1, 2, 3 and so on until the
// call needs no more. Only what the driver asks for itself counts: its code must be on the stack.
#ifndef FAULT_H
#define FAULT_H

#include "tap.h"

#define FAULTS "/sys/kernel/debug/"

struct call {
    const char *name;
    /* Before each try; not counted. */
    void (*prepare)(void);
    /* -1 with ENOMEM or EFAULT where something failed. */
    long (*call)(void);
    /* Whether it did what it should, once it has not failed; and cleans up. */
    bool (*right)(long result);
};

static int fail_nth;

static inline bool fault_set(const char *attribute, const char *name, const char *format, unsigned long value) {
    char path[128], text[32];
    snprintf(path, sizeof path, FAULTS "%s/%s", attribute, name);
    int len = snprintf(text, sizeof text, format, value), fd = open(path, O_WRONLY);
    bool good = fd >= 0 && write(fd, text, len) == len;
    close(fd);
    return good;
}

/* Where the driver's code is. */
static inline bool fault_range(unsigned long *begin, unsigned long *end) {
    char line[512], name[64];
    unsigned long size, at;
    bool found = false;
    FILE *f = fopen("/proc/modules", "r");
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%63s %lu %*s %*s %*s %lx", name, &size, &at) == 3 && !strcmp(name, "dp") && at;
    if (f)
        fclose(f);
    *begin = at;
    *end = at + size;
    return found;
}

/* For the calling thread; privileged. */
static inline bool fault_begin(void) {
    static const char *attributes[] = {"failslab", "fail_page_alloc", "fail_usercopy"};
    unsigned long begin, end;
    bool good = fault_range(&begin, &end);
    for (int i = 0; i < 3; i++)
        good = good && fault_set(attributes[i], "verbose", "%lu", 0) &&
               fault_set(attributes[i], "stacktrace-depth", "%lu", 32) &&
               fault_set(attributes[i], "require-start", "0x%lx", begin) &&
               fault_set(attributes[i], "require-end", "0x%lx", end);
    /* Those that could wait for memory, too, and single pages. */
    good = good && fault_set("failslab", "ignore-gfp-wait", "%lu", 0) &&
           fault_set("fail_page_alloc", "ignore-gfp-wait", "%lu", 0) &&
           fault_set("fail_page_alloc", "ignore-gfp-highmem", "%lu", 0) &&
           fault_set("fail_page_alloc", "min-order", "%lu", 0);
    fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
    return good && fail_nth >= 0;
}

static inline bool fault_arm(int n) {
    char text[16];
    int len = snprintf(text, sizeof text, "%d", n);
    return pwrite(fail_nth, text, len, 0) == len;
}

/* Disarms; whether there was a fault. */
static inline bool fault_was(void) {
    char text[16] = "";
    bool was = pread(fail_nth, text, sizeof text - 1, 0) > 0 && atoi(text) == 0;
    return fault_arm(0) && was;
}

/* Each allocation and each copy of a call fails once. Then the call is made again, and nothing must be in its way. */
static inline void fault_each(const struct call *c) {
    int faults = 0, refused = 0;
    bool good = true, more = true;
    for (int n = 1; good && more && n < 3000; n++) {
        c->prepare();
        good = fault_arm(n);
        errno = 0;
        long result = c->call();
        int error = errno;
        more = fault_was();
        faults += more;
        if (result < 0) {
            refused++;
            good &= more && (error == ENOMEM || error == EFAULT);
            if (!good)
                printf("# %s, fault %d: %s\n", c->name, n, strerror(error));
            errno = 0;
            result = c->call();
            if (result < 0)
                printf("# %s, after fault %d: %s\n", c->name, n, strerror(errno));
        }
        bool right = c->right(result);
        if (!right)
            printf("# %s, fault %d: not right then\n", c->name, n);
        good &= right;
    }
    OK(good && !more && faults > 0, "%s: %d faults, %d of them told", c->name, faults, refused);
}

#endif
