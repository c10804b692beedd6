/*
 * Several writers of records on one blocking connection, whose reader is slow. While there is room in the buffers each
 * record comes whole, as on TCP, where a call that need not wait has the socket to itself; also where it does not fit a
 * ring. Before there can be too much the writers wait for the reader.
 *   calls    threads, each with a call of its own: write, writev of many pieces, sendmsg, send with MSG_MORE
 *   files    the same with sendfile and splice
 *   forked   processes, with the first calls
 */
#include "common.h"

#include <sys/mman.h>
#include <sys/sendfile.h>

#define WRITERS 4
#define ROUNDS 25
#define EACH 25
#define RECORD 3000
#define PIECES 100

static int connection;
static pthread_barrier_t *turn;

static ssize_t gather(const char *record, bool more) {
    struct iovec pieces[PIECES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){(char *)record + i * (RECORD / PIECES), RECORD / PIECES};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = PIECES};
    return more ? sendmsg(connection, &message, MSG_NOSIGNAL) : writev(connection, pieces, PIECES);
}

static ssize_t by_file(const char *record) {
    static __thread int file = -1;
    if (file < 0) {
        file = MUST(memfd_create("record", 0));
        write_all(file, record, RECORD);
    }
    off_t start = 0;
    return sendfile(connection, file, &start, RECORD);
}

static ssize_t by_pipe(const char *record) {
    static __thread int ends[2] = {-1, -1};
    if (ends[0] < 0)
        MUST(pipe(ends));
    CHECK(write(ends[1], record, RECORD) == RECORD);
    return splice(ends[0], NULL, connection, NULL, RECORD, 0);
}

static ssize_t send_one(int writer, const char *record, bool last) {
    bool files = mode_is("files");
    switch (writer) {
    case 0: return write(connection, record, RECORD);
    case 1: return gather(record, false);
    case 2: return files ? by_file(record) : gather(record, true);
    default: return files ? by_pipe(record) : send(connection, record, RECORD, last ? 0 : MSG_MORE);
    }
}

static void *write_records(void *number) {
    int writer = (int)(intptr_t)number;
    char record[RECORD], byte;
    memset(record, 'a' + writer, sizeof record);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(turn);
        for (int i = 0; i < EACH; i++)
            CHECK(send_one(writer, record, i == EACH - 1) == RECORD);
        if (writer == 0)
            read_exact(connection, &byte, 1);
    }
    return NULL;
}

static void begin(void) {
    turn = mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(turn != MAP_FAILED);
    pthread_barrierattr_t attribute;
    pthread_barrierattr_init(&attribute);
    pthread_barrierattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(turn, &attribute, WRITERS);
}

void client(void) {
    begin();
    connection = connected();
    pthread_t threads[WRITERS];
    pid_t children[WRITERS];
    for (intptr_t i = 1; i < WRITERS; i++) {
        if (!mode_is("forked")) {
            threads[i] = start_thread(write_records, (void *)i);
        } else if ((children[i] = MUST(fork())) == 0) {
            write_records((void *)i);
            _exit(0);
        }
    }
    write_records(NULL);
    for (int i = 1; i < WRITERS; i++) {
        if (mode_is("forked"))
            join_child(children[i]);
        else
            pthread_join(threads[i], NULL);
    }
    say("wrote");
}

static bool is_whole(const char *record) {
    return *record >= 'a' && *record < 'a' + WRITERS && memcmp(record, record + 1, RECORD - 1) == 0;
}

void server(void) {
    int fd = accepted(listen_here());
    unsigned whole = 0, of[WRITERS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WRITERS * EACH; i++) {
            char record[RECORD];
            if (i % 10 == 0)
                sleep_ms(i ? 1 : 3);
            read_exact(fd, record, sizeof record);
            if (is_whole(record)) {
                whole++;
                of[*record - 'a']++;
            }
        }
        write_all(fd, "", 1);
    }
    say("whole: %u of %u", whole, ROUNDS * WRITERS * EACH);
    for (int i = 0; i < WRITERS; i++)
        say("writer %d: %u", i, of[i]);
}
