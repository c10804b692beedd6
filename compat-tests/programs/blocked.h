/*
 * For programs in which something happens to a descriptor while a thread is blocked in a call with it.
 */
#ifndef COMPAT_BLOCKED_H
#define COMPAT_BLOCKED_H

#include "common.h"

#include <setjmp.h>

struct call {
    int fd;
    size_t want;
    int flags;
    ssize_t result;
    int error;
    char data[16];
};

/* The thread that is about to block. */
static volatile pid_t blocker;

/*
 * The thread started last sleeps in its call. A time will not do: a thread that has not come that far yet would make its
 * call on whatever has the number by then.
 */
static __attribute__((unused)) void let_it_block(void) {
    await_sleep(&blocker);
    blocker = 0;
}

static __attribute__((unused)) void say_call(const char *who, const struct call *call) {
    if (call->result < 0)
        say("%s: %s", who, strerrorname_np(call->error));
    else
        say("%s: %zd %.*s", who, call->result, (int)call->result, call->data);
}

static sigjmp_buf out;

static __attribute__((unused)) void jump(int number) {
    (void)number;
    siglongjmp(out, 1);
}

static __attribute__((unused)) void *idle(void *unused) {
    await_mark("ended");
    return unused;
}

#endif
