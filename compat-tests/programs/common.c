/* See common.h. */
#include "common.h"

#include <sched.h>

#include <dlfcn.h>
#include <libgen.h>
#include <net/if.h>
#include <stdarg.h>

bool is_client;
char **program_argv;
static int program_argc;

/* Defaults that a program replaces by defining its own. */
__attribute__((weak)) void tester(int fd);
__attribute__((weak)) void helper(int fd) { serve_asks(fd); }
__attribute__((weak)) void unconnected(int fd) { (void)fd; }
__attribute__((weak)) void other_role(const char *role) { fail(__FILE_NAME__, __LINE__, role); }

static void tester_or_helper(int fd) {
    const char *swap = getenv("COMPAT_SWAP");
    bool client_tests = swap && *swap == '1';
    if (is_client == client_tests)
        tester(fd);
    else
        helper(fd);
    close(fd); /* some have closed it themselves */
}

__attribute__((weak)) void server(void) {
    int listener = listen_here();
    tester_or_helper(accepted(listener));
}

__attribute__((weak)) void client(void) { tester_or_helper(connected()); }

static long environment(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

int main(int argc, char **argv) {
    program_argc = argc;
    program_argv = argv;
    if (argc < 3) {
        fprintf(stderr, "usage: %s server|client PORTFILE [MODE [ARG...]]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* by line, so that a fork never carries half a transcript */
    alarm((unsigned)environment("COMPAT_ALARM", 25));
    is_client = strcmp(argv[1], "client") == 0;
    if (is_client)
        client();
    else if (strcmp(argv[1], "server") == 0)
        server();
    else
        other_role(argv[1]);
    return 0;
}

bool mode_is(const char *name) { return program_argc > 3 && strcmp(program_argv[3], name) == 0; }

long argument(int n, long otherwise) { return program_argc > 4 + n ? atol(program_argv[4 + n]) : otherwise; }

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

void fail(const char *file, int line, const char *what) {
    const char *name = strerrorname_np(errno);
    say("FAILED %s:%d: %s (errno %s)", file, line, what, errno ? name : "0");
    exit(1);
}

void outcome(const char *what, ssize_t result) {
    if (result == -1)
        say("%s: %s", what, strerrorname_np(errno));
    else
        say("%s: %zd", what, result);
}

socklen_t address_of(const char *text, uint16_t port, struct sockaddr_storage *out) {
    memset(out, 0, sizeof *out);
    struct sockaddr_in *v4 = (void *)out;
    struct sockaddr_in6 *v6 = (void *)out;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return sizeof *v4;
    }
    char ip[64];
    snprintf(ip, sizeof ip, "%s", text);
    char *device = strchr(ip, '%');
    if (device) {
        *device++ = 0;
        v6->sin6_scope_id = if_nametoindex(device);
        CHECK(v6->sin6_scope_id);
    }
    CHECK(inet_pton(AF_INET6, ip, &v6->sin6_addr) == 1);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return sizeof *v6;
}

int listen_here(void) {
    const char *text = getenv("COMPAT_LISTEN");
    if (!text)
        text = "127.0.0.1";
    struct sockaddr_storage address;
    socklen_t length = address_of(text, 0, &address);
    int listener = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    MUST(bind(listener, (void *)&address, length));
    MUST(listen(listener, 128));
    MUST(getsockname(listener, (void *)&address, &length));
    char temporary[512];
    snprintf(temporary, sizeof temporary, "%s.tmp", program_argv[2]);
    FILE *file = fopen(temporary, "w");
    CHECK(file);
    /* sin_port and sin6_port are at the same place */
    fprintf(file, "%s %u\n", text, ntohs(((struct sockaddr_in *)&address)->sin_port));
    CHECK(fclose(file) == 0);
    MUST(rename(temporary, program_argv[2])); /* seen whole or not at all */
    return listener;
}

socklen_t there(struct sockaddr_storage *address) {
    FILE *file;
    while (!(file = fopen(program_argv[2], "r")))
        sleep_ms(1);
    char text[64];
    unsigned port;
    CHECK(fscanf(file, "%63s %u", text, &port) == 2);
    fclose(file);
    const char *other = getenv("COMPAT_CONNECT");
    return address_of(other ? other : text, (uint16_t)port, address);
}

int connect_there(void) {
    struct sockaddr_storage address;
    socklen_t length = there(&address);
    int fd = MUST(socket(address.ss_family, SOCK_STREAM, 0));
    unconnected(fd);
    MUST(connect(fd, (void *)&address, length));
    return fd;
}

int accepted(int listener) {
    int fd = MUST(accept(listener, NULL, NULL));
    warm_up(fd);
    return fd;
}

int connected(void) {
    int fd = connect_there();
    warm_up(fd);
    return fd;
}

int warm_count(void) { return (int)environment("COMPAT_WARM", 256); }

void warm_up(int fd) {
    uint8_t buffer[WARM_BYTES];
    for (int i = 0; i < warm_count(); i++) {
        if (is_client) {
            sleep_ms((int)environment("COMPAT_PACE", 0));
            exchange(fd, sizeof buffer, (uint64_t)i);
        } else {
            read_exact(fd, buffer, sizeof buffer);
            write_all(fd, buffer, sizeof buffer);
        }
    }
}

void *standin(const char *name, bool plugin) {
    char path[512], program[512];
    CHECK(snprintf(program, sizeof program, "%s", program_argv[0]) < (int)sizeof program);
    CHECK(snprintf(path, sizeof path, "%s/libstandin.so", dirname(program)) < (int)sizeof path);
    void *library = dlopen(path, RTLD_NOW | (plugin ? RTLD_LOCAL : RTLD_GLOBAL));
    CHECK(library);
    void *function = dlsym(plugin ? library : RTLD_DEFAULT, name);
    CHECK(function);
    return function;
}

void path_beside(char *path, size_t size, const char *name) {
    CHECK(snprintf(path, size, "%s.%s", program_argv[2], name) < (int)size);
}

void mark(const char *name, uint64_t value) {
    char path[512], temporary[520];
    path_beside(path, sizeof path, name);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "w");
    CHECK(file);
    fprintf(file, "%llu\n", (unsigned long long)value);
    CHECK(fclose(file) == 0);
    MUST(rename(temporary, path));
}

uint64_t await_mark(const char *name) {
    char path[512];
    path_beside(path, sizeof path, name);
    FILE *file;
    while (!(file = fopen(path, "r")))
        sleep_ms(1);
    unsigned long long value;
    CHECK(fscanf(file, "%llu", &value) == 1);
    fclose(file);
    return value;
}

bool is_marked(const char *name) {
    char path[512];
    path_beside(path, sizeof path, name);
    return access(path, F_OK) == 0;
}

static void wait_for(int fd, short events) {
    struct pollfd entry = {.fd = fd, .events = events};
    while (poll(&entry, 1, -1) < 0)
        CHECK(errno == EINTR);
}

void write_all(int fd, const void *from, size_t length) {
    const char *at = from;
    while (length > 0) {
        ssize_t n = write(fd, at, length);
        if (n < 0 && errno == EAGAIN) {
            wait_for(fd, POLLOUT);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        at += n;
        length -= (size_t)n;
    }
}

size_t write_some(int fd, const void *from, size_t length) {
    ssize_t n = send(fd, from, length, MSG_DONTWAIT);
    CHECK(n >= 0 || errno == EAGAIN);
    return n > 0 ? (size_t)n : 0;
}

void read_exact(int fd, void *to, size_t length) {
    char *at = to;
    while (length > 0) {
        ssize_t n = read(fd, at, length);
        if (n < 0 && errno == EAGAIN) {
            wait_for(fd, POLLIN);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        errno = n == 0 ? 0 : errno;
        CHECK(n > 0 /* not EOF, no error */);
        at += n;
        length -= (size_t)n;
    }
}

uint64_t read_to_eof(int fd, uint64_t *sum) {
    static __thread char buffer[65536];
    uint64_t total = 0;
    for (ssize_t n; (n = MUST(read(fd, buffer, sizeof buffer))) > 0; total += (uint64_t)n)
        if (sum)
            *sum = checksum(*sum, buffer, (size_t)n);
    return total;
}

size_t stream_to_eof(FILE *file, uint64_t *sum) {
    size_t total = 0;
    for (int c; (c = getc(file)) != EOF; total++) {
        unsigned char byte = (unsigned char)c;
        *sum = checksum(*sum, &byte, 1);
    }
    return total;
}

void echo_until_eof(int fd) {
    char buffer[65536];
    for (ssize_t n; (n = MUST(read(fd, buffer, sizeof buffer))) > 0;)
        write_all(fd, buffer, (size_t)n);
}

void *echo_and_close(void *number) {
    int fd = (int)(intptr_t)number;
    char buffer[65536];
    for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        for (ssize_t sent = 0, k; sent < n; sent += k)
            if ((k = send(fd, buffer + sent, (size_t)(n - sent), MSG_NOSIGNAL)) <= 0)
                goto out;
out:
    close(fd);
    return NULL;
}

void exchange(int fd, size_t length, uint64_t seed) {
    static __thread char out[65536], in[65536];
    CHECK(length <= sizeof out);
    fill(out, length, seed);
    write_all(fd, out, length);
    read_exact(fd, in, length);
    CHECK(memcmp(out, in, length) == 0);
}

uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void fill(void *buffer, size_t length, uint64_t seed) {
    uint8_t *to = buffer;
    uint64_t state = seed * 2654435761u + 88172645463325252ull;
    for (size_t i = 0; i < length; i++)
        to[i] = (uint8_t)(next_random(&state) >> 24);
}

uint64_t checksum(uint64_t sum, const void *from, size_t length) {
    const uint8_t *at = from;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ at[i]) * 1099511628211ull;
    return sum;
}

struct request {
    uint32_t bytes, delay;
};
#define SHUT_DOWN UINT32_MAX

void ask(int fd, uint32_t bytes) { ask_later(fd, bytes, 0); }

void ask_later(int fd, uint32_t bytes, uint32_t milliseconds) {
    struct request request = {bytes, milliseconds};
    write_all(fd, &request, sizeof request);
}

void ask_shutdown(int fd) { ask(fd, SHUT_DOWN); }

void serve_asks(int fd) {
    struct request request;
    uint64_t position = 0;
    for (ssize_t n; (n = MUST(read(fd, &request, sizeof request))) > 0;) {
        read_exact(fd, (char *)&request + n, sizeof request - (size_t)n);
        sleep_ms(request.delay);
        if (request.bytes == SHUT_DOWN) {
            MUST(shutdown(fd, SHUT_WR));
            continue;
        }
        uint8_t *data = malloc(request.bytes);
        CHECK(data);
        for (uint32_t i = 0; i < request.bytes; i++)
            data[i] = pattern(position++);
        write_all(fd, data, request.bytes);
        free(data);
    }
}

uint8_t pattern(uint64_t position) { return (uint8_t)(position * 31 + (position >> 8) * 7 + (position >> 16)); }

bool is_pattern(const void *from, size_t length, uint64_t position) {
    const uint8_t *at = from;
    for (size_t i = 0; i < length; i++)
        if (at[i] != pattern(position + i))
            return false;
    return true;
}

void send_with(int door, const void *words, size_t length, const int *fds, size_t count) {
    struct iovec piece = {(void *)words, length};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(64 * sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    }
    MUST(sendmsg(door, &message, MSG_NOSIGNAL));
    /* What is the program's stays as it was. */
    CHECK(count == 0 || memcmp(CMSG_DATA(&control.header), fds, count * sizeof(int)) == 0);
}

int take_descriptor(int door) {
    char byte;
    struct iovec piece = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    CHECK(recvmsg(door, &message, MSG_CMSG_CLOEXEC) == 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_type == SCM_RIGHTS);
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

void set_nonblocking(int fd, bool on) {
    int flags = MUST(fcntl(fd, F_GETFL));
    MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

void small_buffer(int fd, int which) {
    int bytes = 8192;
    MUST(setsockopt(fd, SOL_SOCKET, which, &bytes, sizeof bytes));
}

void no_delay(int fd) {
    int yes = 1;
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
}

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

unsigned long memory_used(const char *field) {
    char line[256];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtoul(line + strlen(field), NULL, 10);
    fclose(file);
    return kib;
}

void sleep_ms(unsigned milliseconds) {
    struct timespec rest = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (milliseconds && nanosleep(&rest, &rest) < 0)
        CHECK(errno == EINTR);
}

void join_child(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    errno = 0;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

pthread_t start_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, run, argument);
    CHECK(errno == 0);
    return thread;
}

void await_sleep(volatile pid_t *thread) {
    char path[64], state = 0;
    while (!*thread)
        sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", *thread);
    while (state != 'S') {
        sleep_ms(1);
        FILE *file = fopen(path, "r");
        CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
    }
}

int listen_for_starter(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof here;
    int listener = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(bind(listener, (struct sockaddr *)&here, size));
    MUST(listen(listener, 1));
    MUST(getsockname(listener, (struct sockaddr *)&here, &size));
    CHECK(write(1, &here.sin_port, sizeof here.sin_port) == sizeof here.sin_port);
    return listener;
}
