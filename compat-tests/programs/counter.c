/* A library to be loaded behind the shim: it counts what the shim asks of the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

unsigned counted_ppoll, counted_mmap;

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask) {
    counted_ppoll++;
    int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) = dlsym(RTLD_NEXT, "ppoll");
    return real(fds, n, limit, mask);
}

void *mmap(void *place, size_t length, int protection, int flags, int fd, off_t at) {
    counted_mmap++;
    void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    return real(place, length, protection, flags, fd, at);
}
