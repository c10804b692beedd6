/*
 * Asynchronous input and output of the kernel (io_submit) and of the C library (aio_read) on a connection.
 *   library, plugin, number   io_submit of a library, from a plug-in linked with it, through syscall(2)
 *   posix, list               aio_read and aio_write; lio_listio
 *   disk                      io_submit on a file only, while the connection is used with plain calls
 */
#include "common.h"

#include "standin.h"

#include <aio.h>
#include <sys/syscall.h>

static aio_context_t context;
static bool forbidden;
static int (*submit)(void *, long, struct iocb **);

static int submit_by_number(void *with, long n, struct iocb **list) { return (int)syscall(SYS_io_submit, with, n, list); }

static void set_up(void) {
    forbidden = syscall(SYS_io_setup, 8, &context) != 0;
    say("io_setup: %s", forbidden ? "not here" : "yes");
    if (mode_is("library") || mode_is("disk"))
        submit = standin("io_submit", false);
    else if (mode_is("plugin"))
        submit = standin("standin_plugin_submit", true);
    else
        submit = submit_by_number;
}

static ssize_t by_kernel(int operation, int fd, void *buffer, size_t length) {
    struct iocb one = {.aio_lio_opcode = (uint16_t)operation, .aio_fildes = (uint32_t)fd,
                       .aio_buf = (uintptr_t)buffer, .aio_nbytes = length};
    struct iocb *list[] = {&one};
    struct io_event done;
    CHECK(submit((void *)context, 1, list) == 1);
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &done, NULL) == 1);
    return done.res;
}

static ssize_t by_c_library(int operation, int fd, void *buffer, size_t length) {
    struct aiocb one = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = length, .aio_lio_opcode = operation};
    struct aiocb *list[] = {NULL, &one};
    if (mode_is("list"))
        MUST(lio_listio(LIO_WAIT, list, 2, NULL));
    else
        MUST(operation == LIO_READ ? aio_read(&one) : aio_write(&one));
    while (aio_error(&one) == EINPROGRESS)
        aio_suspend((const struct aiocb *const[]){&one}, 1, NULL);
    return aio_return(&one);
}

static void exchange_by_aio(int fd, size_t length, uint64_t seed) {
    static char out[4096], in[4096];
    bool posix = mode_is("posix") || mode_is("list");
    fill(out, length, seed);
    for (size_t at = 0; at < length;) {
        ssize_t n = posix ? by_c_library(LIO_WRITE, fd, out + at, length - at)
                          : by_kernel(IOCB_CMD_PWRITE, fd, out + at, length - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    for (size_t at = 0; at < length;) {
        ssize_t n = posix ? by_c_library(LIO_READ, fd, in + at, length - at)
                          : by_kernel(IOCB_CMD_PREAD, fd, in + at, length - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    CHECK(memcmp(in, out, length) == 0);
}

static void on_a_file(void) {
    char path[512], in[100];
    path_beside(path, sizeof path, is_client ? "client-file" : "server-file");
    int file = MUST(open(path, O_RDWR | O_CREAT, 0600));
    CHECK(forbidden || by_kernel(IOCB_CMD_PWRITE, file, "on a disk", 9) == 9);
    CHECK(forbidden || (by_kernel(IOCB_CMD_PREAD, file, in, 9) == 9 && memcmp(in, "on a disk", 9) == 0));
    close(file);
}

void tester(int fd) {
    set_up();
    for (int i = 0; i < 100 && !mode_is("disk"); i++) {
        if (forbidden)
            exchange(fd, 100, (uint64_t)i);
        else
            exchange_by_aio(fd, 1 + (size_t)i * 39 % 4096, (uint64_t)i);
        if (i % 2)
            exchange(fd, 100, (uint64_t)i); /* plain calls go on beside it */
    }
    for (long i = 0; mode_is("disk") && i < argument(0, 100); i++) {
        if (i % 100 == 0)
            on_a_file();
        exchange(fd, 1 + (size_t)i * 7 % 200, (uint64_t)i);
    }
    if (mode_is("disk")) {
        mark("server-done", 1);
        mark("client-done", 1);
        await_mark("looked");
    }
}

void helper(int fd) { echo_until_eof(fd); }
