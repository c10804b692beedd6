/*
 * What every compat program stands on. A program is started twice:
 *
 *     PROGRAM server PORTFILE [MODE [ARG...]]
 *     PROGRAM client PORTFILE [MODE [ARG...]]
 *
 * The server listens on an ephemeral loopback port and writes address and port to PORTFILE; the client waits
 * for that file. Marks are further files beside it, so the two can agree on an order without using the
 * connection under test. stdout is the transcript: nothing that differs from run to run may be printed there.
 *
 *     COMPAT_LISTEN   address the server binds (127.0.0.1)
 *     COMPAT_CONNECT  address the client uses instead of the server's
 *     COMPAT_WARM     exchanges made on every new connection before the behaviour is tried (256)
 *     COMPAT_PACE     milliseconds that the client rests before each of these (0)
 *     COMPAT_SWAP     1: the connecting side is the tester (programs with tester()/helper() only)
 *     COMPAT_ALARM    seconds after which a program gives up (25)
 */
#ifndef COMPAT_COMMON_H
#define COMPAT_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Supplied by the program: either the two sides ... */
void server(void);
void client(void);
/* ... or a tester that tries a behaviour and a helper at the other end (default: serve_asks). */
void tester(int fd);
void helper(int fd);
/* What is to be done with a socket before the client connects it (default: nothing). */
void unconnected(int fd);
/* A third role for programs that start themselves again. */
void other_role(const char *role);

extern bool is_client;
extern char **program_argv;

/* Arguments after PORTFILE. */
bool mode_is(const char *name);
long argument(int n, long otherwise);

/* Transcript and failure: a failure is part of the transcript and ends the process with status 1. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *file, int line, const char *what) __attribute__((noreturn));
#define CHECK(condition)                              \
    do {                                              \
        if (!(condition))                             \
            fail(__FILE_NAME__, __LINE__, #condition);     \
    } while (0)
#define MUST(call)                                    \
    ({                                                \
        __auto_type must_result = (call);             \
        if (must_result == (__typeof__(must_result))-1) \
            fail(__FILE_NAME__, __LINE__, #call);          \
        must_result;                                  \
    })
/* "what: 12", or "what: ECONNRESET" when the result is -1. */
void outcome(const char *what, ssize_t result);

/* Connections. The last two also make COMPAT_WARM exchanges on the new connection. */
int listen_here(void);
int listen_for_starter(void); /* at a free port, which goes to standard output: whoever started this program reads it */
int connect_there(void);
socklen_t there(struct sockaddr_storage *address);
/* From text: an address of IPv4 or IPv6, of a link with %DEVICE behind it. */
socklen_t address_of(const char *text, uint16_t port, struct sockaddr_storage *out);
int accepted(int listener);
int connected(void);
void warm_up(int fd);
int warm_count(void);
#define WARM_BYTES 16

/* Files beside PORTFILE. */
/* A function of the library that stands in for liburing and libaio (standin.h): found as by a program linked
 * with it, or loaded for a plug-in alone. */
void *standin(const char *name, bool plugin);

void path_beside(char *path, size_t size, const char *name);
void mark(const char *name, uint64_t value);
uint64_t await_mark(const char *name);
bool is_marked(const char *name);

/* Whole transfers; they wait with poll() on a nonblocking fd, and fail on error or early EOF. */
void write_all(int fd, const void *from, size_t length);
void read_exact(int fd, void *to, size_t length);
size_t write_some(int fd, const void *from, size_t length); /* one call, which does not wait */
uint64_t read_to_eof(int fd, uint64_t *sum);
size_t stream_to_eof(FILE *file, uint64_t *sum); /* byte by byte */
void echo_until_eof(int fd);
void *echo_and_close(void *fd); /* for a thread; the number itself, and however the connection ends */
void exchange(int fd, size_t length, uint64_t seed); /* write, read back, compare: the peer echoes */

/* Data that both sides can compute. */
void fill(void *buffer, size_t length, uint64_t seed);
uint64_t checksum(uint64_t sum, const void *from, size_t length);
#define SUM_START 14695981039346656037ull
uint64_t next_random(uint64_t *state);

/* "Send me n bytes": the peer runs serve_asks(). Byte k it ever sends on that connection is pattern(k). */
void ask(int fd, uint32_t bytes);
void ask_later(int fd, uint32_t bytes, uint32_t milliseconds);
void ask_shutdown(int fd); /* the peer sends FIN, and waits for ours */
void serve_asks(int fd);
uint8_t pattern(uint64_t position);
bool is_pattern(const void *from, size_t length, uint64_t position);

/* Descriptors over an AF_UNIX socket: up to 64 beside some words, or one alone. */
void send_with(int door, const void *words, size_t length, const int *fds, size_t count);
int take_descriptor(int door);

void set_nonblocking(int fd, bool on);
void small_buffer(int fd, int which); /* SO_SNDBUF or SO_RCVBUF: less than a ring holds */
void no_delay(int fd); /* against the 40 ms that Nagle costs programs writing twice before they read */
uint64_t now_ms(void);
unsigned long memory_used(const char *field); /* of this process, KiB: a field of proc_pid_status(5), as "VmSize:" */
void sleep_ms(unsigned milliseconds);
void join_child(pid_t child); /* it must exit with status 0 */
pthread_t start_thread(void *(*run)(void *), void *argument);
void await_sleep(volatile pid_t *thread); /* until the thread that writes its number there sleeps in a call */

#endif
