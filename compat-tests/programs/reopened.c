/*
 * A stream of a connection is given another file by freopen(3): the connection is closed, and its number stands for
 * the file.
 *   file     by freopen
 *   large    by freopen64
 *   twin     the stream is made, and closed, by the second names _IO_fdopen and _IO_fclose; it is not reopened
 *   missing  the file is not there: the number is closed all the same
 * First argument: 1: bytes are left unread, so that the other end is reset. Second: 1: the stream was another file's, and
 * the connection was put at its number, so nothing of it ever went through the stream. Third: 1: the program has another thread.
 */
#include "common.h"

#include <dlfcn.h>

/* A C library without the second name has the first alone. */
#define SECOND(name)                                             \
    ({                                                           \
        void *second = dlsym(RTLD_DEFAULT, "_IO_" #name);        \
        (__typeof__(&name))(second ? second : (void *)(name));   \
    })

static void talk(FILE *stream) {
    char line[64];
    for (int i = 0; i < 50; i++) {
        CHECK(fprintf(stream, "line %5d\n", i) == 11 && fflush(stream) == 0);
        CHECK(fgets(line, sizeof line, stream) && atoi(line + 5) == i);
    }
}

/* The number is the file's in every respect, and another connection of the shim's is none of its business. */
static void use_as_file(int fd) {
    struct stat about;
    MUST(fstat(fd, &about));
    CHECK(S_ISREG(about.st_mode));
    char text[100], back[200];
    for (int i = 0; i < 50; i++) {
        fill(text, sizeof text, (uint64_t)i);
        CHECK(write(fd, text, sizeof text) == sizeof text);
        CHECK(lseek(fd, i * 100, SEEK_SET) == i * 100);
        struct pollfd entry = {.fd = fd, .events = POLLIN | POLLOUT};
        CHECK(poll(&entry, 1, 0) == 1 && entry.revents == (POLLIN | POLLOUT));
        CHECK(read(fd, back, 60) == 60 && read(fd, back + 60, 100) == 40);
        CHECK(memcmp(text, back, sizeof text) == 0);
        CHECK(read(fd, back, 1) == 0);
    }
    outcome("send to the file", send(fd, text, 1, 0));
    outcome("recv from the file", recv(fd, back, 1, 0));
    int copy = MUST(dup(fd));
    CHECK(write(copy, text, 1) == 1);
    MUST(close(copy));
}

/* The number is free, and what gets it is used as what it is. */
static void use_as_another(int fd) {
    int got;
    do
        got = MUST(open("/dev/zero", O_RDWR));
    while (got < fd);
    CHECK(got == fd);
    char byte = 1;
    CHECK(read(fd, &byte, 1) == 1 && byte == 0 && write(fd, &byte, 1) == 1);
}

static void reopen(int fd, FILE *stream) {
    char path[4200];
    path_beside(path, sizeof path, mode_is("missing") ? "no/such/file" : "file");
    FILE *got = mode_is("large") ? freopen64(path, "w+", stream) : freopen(path, "w+", stream);
    if (mode_is("missing")) {
        CHECK(!got);
        outcome("freopen", -1);
        outcome("the number", fcntl(fd, F_GETFD));
        use_as_another(fd);
        return;
    }
    CHECK(got == stream && fileno(got) == fd);
    use_as_file(fd);
    CHECK(fclose(got) == 0);
}

static void *sleep_on(void *unused) {
    for (;;)
        pause();
    return unused;
}

void tester(int fd) {
    bool unread = argument(0, 0);
    if (argument(2, 0))
        start_thread(sleep_on, NULL);
    FILE *stream = NULL;
    if (argument(1, 0)) {
        stream = fopen("/dev/null", "r+");
        CHECK(stream && dup2(fd, fileno(stream)) == fileno(stream));
        MUST(close(fd));
        fd = fileno(stream);
        for (int i = 0; i < 50; i++)
            exchange(fd, 11, (uint64_t)i);
    } else {
        stream = mode_is("twin") ? SECOND(fdopen)(fd, "r+") : fdopen(fd, "r+");
        CHECK(stream);
        talk(stream);
    }
    mark(unread ? "more" : "end", 1);
    if (unread) {
        await_mark("sent");
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        CHECK(poll(&entry, 1, 5000) == 1);
    }
    if (mode_is("twin")) {
        CHECK(SECOND(fclose)(stream) == 0);
        use_as_another(fd);
    } else {
        reopen(fd, stream);
    }
    mark("over", 1);
    await_mark("told");
}

void helper(int fd) {
    char line[64];
    for (int i = 0; i < 50; i++) {
        read_exact(fd, line, 11);
        write_all(fd, line, 11);
    }
    if (argument(0, 0)) {
        await_mark("more");
        no_delay(fd);
        write_all(fd, line, 11);
        mark("sent", 1);
    }
    await_mark("over");
    outcome("recv", recv(fd, line, sizeof line, 0));
    outcome("recv", recv(fd, line, sizeof line, 0));
    mark("told", 1);
}
