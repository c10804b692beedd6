/* What the stand-in library offers, and how programs come to it. */
#ifndef COMPAT_STANDIN_H
#define COMPAT_STANDIN_H

#include <linux/aio_abi.h>
#include <linux/io_uring.h>

struct standin_ring {
    int fd;
    struct io_uring_params set;
};

int io_uring_queue_init(unsigned entries, struct standin_ring *ring, unsigned flags);
int io_submit(void *context, long n, struct iocb **list);
int standin_plugin_ring(unsigned entries, struct standin_ring *ring);
int standin_plugin_submit(void *context, long n, struct iocb **list);
long standin_call(long number, long a, long b, long c, long d, long e, long f);

#endif
