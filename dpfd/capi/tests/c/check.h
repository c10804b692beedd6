/* What the test programs share: a failed check names its line, errno and the library's sentence. */
#ifndef CHECK_H
#define CHECK_H

#include <dp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(ok)                                                                                           \
    do {                                                                                                    \
        if (!(ok)) {                                                                                        \
            int e_ = errno;                                                                                 \
            fprintf(stderr, "%s:%d: %s: errno %d, ", __FILE__, __LINE__, #ok, e_);                          \
            errno = e_;                                                                                     \
            fprintf(stderr, "\"%s\"\n", dp_errno_text());                                                   \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

/* The call fails with this errno, and the sentence holds this text. */
#define FAILS(call, e, text) CHECK((call) == -1 && errno == (e) && strstr(dp_errno_text(), text) && errno == (e))

static inline dpstat_t stat_of(int fd) {
    dpstat_t st = {0};
    st.size = sizeof st;
    CHECK(dp_stat(fd, &st) == 0);
    return st;
}

/* An endpoint with any number that sends to `to`, if that is not 0. */
static inline int endpoint(int to) {
    int fd = dp_open(0);
    CHECK(fd >= 0);
    CHECK(to == 0 || dp_target(fd, 0, to) == 0);
    return fd;
}

/* The same file under a number that nobody gets who takes the lowest free one. */
static inline int out_of_the_way(int fd) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 500);
    CHECK(copy >= 500 && close(fd) == 0);
    return copy;
}

/* Makes an open number another file's, in one go: one that is free for a moment can come to be a file of the library's. */
static inline void make_null(int fd) {
    int null = open("/dev/null", O_RDWR);
    CHECK(null >= 0 && dup2(null, fd) == fd && close(null) == 0);
}

/* The next message is this one; it is released. */
static inline void expect(int fd, const char *text) {
    char *at = NULL;
    ssize_t n = dp_read(fd, &at);
    CHECK(n == (ssize_t)strlen(text));
    CHECK(at != NULL && memcmp(at, text, n) == 0);
    CHECK(dp_fsync(fd, 1) == 0);
}

#endif
