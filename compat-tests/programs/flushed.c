/*
 * A thread is cancelled where the C library writes by itself: it ends, and the program goes on.
 *   fclose         closing a stream of a file, which has something to write
 *   vdprintf       a file is printed to
 *   vdprintf_chk   the same under -D_FORTIFY_SOURCE
 *   dprintf        the same with arguments
 *   handler        no cancellation: a signal handler ends the thread, which waits in fclose for room in a pipe
 * The connection is used before and afterwards.
 */
#include "common.h"

#include <dlfcn.h>
#include <stdarg.h>

#define LONG 300000

static int pipe_ends[2];
static FILE *stream;

static int print(const char *format, ...) {
    int (*checked)(int, int, const char *, va_list) = dlsym(RTLD_DEFAULT, "__vdprintf_chk");
    va_list arguments;
    va_start(arguments, format);
    int n = mode_is("vdprintf_chk") && checked ? checked(pipe_ends[1], 1, format, arguments)
                                               : vdprintf(pipe_ends[1], format, arguments);
    va_end(arguments);
    return n;
}

static int write_inside(void) {
    if (mode_is("fclose") || mode_is("handler"))
        return fclose(stream);
    if (mode_is("dprintf"))
        return dprintf(pipe_ends[1], "%d", 7);
    return print("%d", 7);
}

static void *cancelled(void *unused) {
    int state;
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (!mode_is("handler")) {
        stream = fdopen(pipe_ends[1], "w");
        CHECK(stream && fputs("x", stream) >= 0);
        pthread_cancel(pthread_self());
    }
    pthread_setcancelstate(state, &state);
    write_inside();
    return "came back";
}

static void end_thread(int number) {
    (void)number;
    pthread_exit(PTHREAD_CANCELED);
}

/* More than the pipe takes: the close waits. */
static void fill_stream(void) {
    static char bytes[LONG], room[LONG];
    MUST(fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK));
    CHECK(write(pipe_ends[1], bytes, sizeof bytes) > 0);
    MUST(fcntl(pipe_ends[1], F_SETFL, 0));
    stream = fdopen(pipe_ends[1], "w");
    CHECK(stream && setvbuf(stream, room, _IOFBF, sizeof room) == 0 && fputs("x", stream) >= 0);
    CHECK(signal(SIGUSR1, end_thread) != SIG_ERR);
}

void tester(int fd) {
    void *result;
    exchange(fd, 100, 1);
    for (int i = 0; i < 3; i++) {
        MUST(pipe(pipe_ends));
        if (mode_is("handler"))
            fill_stream();
        pthread_t thread = start_thread(cancelled, NULL);
        if (mode_is("handler")) {
            sleep_ms(20); /* also before it waits, it ends */
            pthread_kill(thread, SIGUSR1);
        }
        CHECK(pthread_join(thread, &result) == 0);
        say("the thread %s", result == PTHREAD_CANCELED ? "ended" : (char *)result);
        MUST(close(pipe_ends[0]));
        exchange(fd, 100, 2);
    }
    /* What is left in the streams goes nowhere, and one of vdprintf's was on a stack that is no more. */
    fflush(stdout);
    _exit(0);
}

void helper(int fd) { echo_until_eof(fd); }
