/*
 * A fork while another thread accepts. The process is large, so that the kernel copies memory for a while after it has
 * copied the descriptors: the child opens files under the numbers that the connections got meanwhile in its parent.
 *   files    writes to them go to the files
 *   exec     the child executes something; the connections go on
 */
#include "common.h"

#include <sys/mman.h>

#define ROUNDS 3
#define FORKS 6
#define AT_ONCE 96
#define FILES 120
#define EXCHANGES 16
#define HEAP (1ul << 30)

static int listener, fds[AT_ONCE];
static pthread_barrier_t start;

static void *accept_all(void *unused) {
    (void)unused;
    pthread_barrier_wait(&start);
    for (int i = 0; i < AT_ONCE; i++) {
        fds[i] = MUST(accept(listener, NULL, NULL));
        usleep(100); /* all the forks are to have some */
    }
    for (int k = 0; k < EXCHANGES; k++)
        for (int i = 0; i < AT_ONCE; i++) {
            char message[64];
            read_exact(fds[i], message, sizeof message);
            write_all(fds[i], message, sizeof message);
        }
    return NULL;
}

static void name_of(char *name, const char *what, int round) { sprintf(name, "%s%d", what, round); }

static int files(int round) {
    int file[FILES], wrong = 0;
    char name[32];
    for (int i = 0; i < FILES; i++)
        file[i] = MUST(memfd_create("file", 0));
    name_of(name, "warm", round);
    await_mark(name);
    for (int i = 0; i < FILES; i++) {
        struct stat found;
        ssize_t n = write(file[i], "secret", 6);
        wrong += n != 6 || fstat(file[i], &found) != 0 || found.st_size != 6;
    }
    return wrong;
}

/* Much to copy, and no memory: pages that were only read are all the same one. */
static void grow(void) {
    volatile char *heap = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(heap != MAP_FAILED);
    madvise((void *)heap, HEAP, MADV_NOHUGEPAGE);
    heap[0] = 1;
    for (size_t at = 4096; at < HEAP; at += 4096)
        CHECK(heap[at] == 0);
}

void server(void) {
    grow();
    pthread_barrier_init(&start, NULL, 2);
    listener = listen_here();
    close(accepted(listener));
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        pid_t child[FORKS];
        int wrong = 0;
        name_of(name, "waiting", round);
        await_mark(name);
        pthread_t thread = start_thread(accept_all, NULL);
        pthread_barrier_wait(&start);
        for (int i = 0; i < FORKS; i++) {
            child[i] = MUST(fork());
            if (child[i] == 0 && mode_is("exec")) {
                execl("/bin/true", "true", (char *)NULL);
                _exit(1);
            }
            if (child[i] == 0)
                _exit(files(round));
        }
        for (int i = 0; i < FORKS; i++) {
            int status;
            MUST(waitpid(child[i], &status, 0));
            wrong += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
        }
        CHECK(pthread_join(thread, NULL) == 0);
        say("round %d: %d files are wrong", round, wrong);
        for (int i = 0; i < AT_ONCE; i++)
            MUST(close(fds[i]));
    }
}

void client(void) {
    close(connected());
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        for (int i = 0; i < AT_ONCE; i++)
            fds[i] = MUST(connect_there());
        name_of(name, "waiting", round);
        mark(name, 1);
        for (int k = 0; k < EXCHANGES; k++)
            for (int i = 0; i < AT_ONCE; i++)
                exchange(fds[i], 64, (uint64_t)(round * 10000 + k * 100 + i));
        name_of(name, "warm", round);
        mark(name, 1);
        for (int i = 0; i < AT_ONCE; i++) {
            char byte;
            CHECK(read(fds[i], &byte, 1) == 0);
            MUST(close(fds[i]));
        }
    }
    say("done");
}
