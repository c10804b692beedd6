/*
 * A library that stands in for liburing and libaio: functions of their names that make their system calls
 * themselves, and one that calls such a function as a plug-in linked with them would. No connection here.
 */
#include "standin.h"

#include <errno.h>
#include <sys/syscall.h>

long standin_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined __x86_64__
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                  x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "name this processor's system call"
#endif
}

int io_uring_queue_init(unsigned entries, struct standin_ring *ring, unsigned flags) {
    ring->set.flags = flags;
    ring->fd = (int)standin_call(SYS_io_uring_setup, entries, (long)&ring->set, 0, 0, 0, 0);
    return ring->fd < 0 ? ring->fd : 0;
}

int io_submit(void *context, long n, struct iocb **list) {
    return (int)standin_call(SYS_io_submit, (long)context, n, (long)list, 0, 0, 0);
}

int standin_plugin_ring(unsigned entries, struct standin_ring *ring) { return io_uring_queue_init(entries, ring, 0); }

int standin_plugin_submit(void *context, long n, struct iocb **list) { return io_submit(context, n, list); }
