/* What the stand-in library offers, and how programs come to it. */
#ifndef COMPAT_STANDIN_H
#define COMPAT_STANDIN_H

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stddef.h>

/* The first members are where liburing's struct io_uring has them; the rest is the stand-in's own. */
struct standin_ring {
    unsigned *head, *tail, *mask, *entries, *flags, *dropped, *array;
    struct io_uring_sqe *sqes;
    unsigned filled_from, filled_to;
    size_t sq_size;
    unsigned char *sq;
    unsigned ring_mask, ring_entries, pad[2];
    unsigned char *cq;
    int fd;
    struct io_uring_params set;
};

int io_uring_queue_init(unsigned entries, struct standin_ring *ring, unsigned flags);
int io_uring_submit(struct standin_ring *ring);
int io_uring_submit_and_wait(struct standin_ring *ring, unsigned n);
int io_uring_register_files(struct standin_ring *ring, const int *files, unsigned n);
int io_submit(void *context, long n, struct iocb **list);
int standin_plugin_ring(unsigned entries, struct standin_ring *ring);
int standin_plugin_submit(void *context, long n, struct iocb **list);
long standin_call(long number, long a, long b, long c, long d, long e, long f);

#endif
