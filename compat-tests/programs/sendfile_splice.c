/*
 * Bytes between a file and the connection without passing through the program.
 * Modes: sendfile, splice_out (file, pipe, socket), splice_in (socket, pipe, file).
 */
#include "common.h"

#include <sys/sendfile.h>

#define SIZE (2 * 1024 * 1024 + 123)

static char data[SIZE], back[SIZE];

static int data_file(bool filled) {
    char path[512];
    path_beside(path, sizeof path, is_client ? "client-data" : "server-data");
    int file = MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
    if (filled) {
        write_all(file, data, SIZE);
        MUST(lseek(file, 0, SEEK_SET));
    }
    return file;
}

static void with_sendfile(int fd, int file) {
    off_t offset = 1000;
    CHECK(sendfile(fd, file, NULL, 1000) == 1000); /* the file's own position moves */
    while (offset < SIZE / 2)
        MUST(sendfile(fd, file, &offset, (size_t)(SIZE / 2 - offset)));
    CHECK(lseek(file, 0, SEEK_CUR) == 1000); /* and stays when an offset is given */
    MUST(lseek(file, SIZE / 2, SEEK_SET));
    for (size_t left = SIZE - SIZE / 2; left > 0;)
        left -= (size_t)MUST(sendfile(fd, file, NULL, left));
    outcome("sendfile at the end", sendfile(fd, file, NULL, 10));
}

static void splice_out(int fd, int file) {
    int ends[2];
    MUST(pipe(ends));
    for (ssize_t n; (n = MUST(splice(file, NULL, ends[1], NULL, 50000, 0))) > 0;)
        while (n > 0)
            n -= MUST(splice(ends[0], NULL, fd, NULL, (size_t)n, SPLICE_F_MORE));
}

static void splice_in(int fd, int file) {
    int ends[2];
    MUST(pipe(ends));
    for (ssize_t n; (n = MUST(splice(fd, NULL, ends[1], NULL, 50000, SPLICE_F_MOVE))) > 0;)
        while (n > 0)
            n -= MUST(splice(ends[0], NULL, file, NULL, (size_t)n, 0));
    CHECK(pread(file, back, SIZE, 0) == SIZE);
    say("spliced in: %s", memcmp(data, back, SIZE) == 0 ? "same" : "DIFFERENT");
}

void tester(int fd) {
    fill(data, SIZE, 77);
    if (mode_is("splice_in")) {
        splice_in(fd, data_file(false));
        char byte = 'k';
        write_all(fd, &byte, 1);
    } else {
        int file = data_file(true);
        exchange(fd, 1000, 5); /* ordinary calls before and after must stay in order */
        if (mode_is("sendfile"))
            with_sendfile(fd, file);
        else
            splice_out(fd, file);
        exchange(fd, 1000, 6);
    }
    say("%d bytes", SIZE);
}

void helper(int fd) {
    fill(data, SIZE, 77);
    if (mode_is("splice_in")) {
        write_all(fd, data, SIZE);
        MUST(shutdown(fd, SHUT_WR));
        read_exact(fd, back, 1);
        return;
    }
    read_exact(fd, back, 1000);
    write_all(fd, back, 1000);
    read_exact(fd, back, SIZE);
    say("arrived: %s", memcmp(data, back, SIZE) == 0 ? "same" : "DIFFERENT");
    echo_until_eof(fd);
}
