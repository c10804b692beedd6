/*
 * Many connections after each other, twenty exchanges each. Both sides print what they hold at the start, in the
 * middle and at the end (arguments: connections, and 1 for the server to close first): descriptors below and within
 * 64 of the limit, those of the latter that an exec would pass on, and memory. The numbers differ with the shim:
 * tests look at them, they are not compared.
 */
#include "common.h"

#include <dirent.h>
#include <sys/resource.h>

static void report(long served) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    int low = 0, high = 0, kept = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(folder))
            continue;
        if ((rlim_t)fd + 64 < limit.rlim_cur) {
            low++;
        } else {
            high++;
            kept += !(MUST(fcntl(fd, F_GETFD)) & FD_CLOEXEC);
        }
    }
    closedir(folder);
    say("after %ld: low %d high %d kept %d VmSize %lu RssShmem %lu", served, low, high, kept, memory_used("VmSize:"),
        memory_used("RssShmem:"));
}

void server(void) {
    int listener = listen_here();
    long count = argument(0, 2000);
    for (long i = 0; i < count; i++) {
        if (i == 1 || i == count / 2)
            report(i);
        int fd = MUST(accept(listener, NULL, NULL));
        char buffer[100];
        for (int k = 0; k < 20; k++) {
            read_exact(fd, buffer, sizeof buffer);
            write_all(fd, buffer, sizeof buffer);
        }
        if (argument(1, 0) == 0)
            CHECK(read(fd, buffer, 1) == 0);
        MUST(close(fd));
    }
    report(count);
}

void client(void) {
    long count = argument(0, 2000);
    for (long i = 0; i < count; i++) {
        if (i == 1 || i == count / 2)
            report(i);
        int fd = connect_there();
        for (int k = 0; k < 20; k++)
            exchange(fd, 100, (uint64_t)(i * 20 + k));
        char more;
        if (argument(1, 0) == 1)
            CHECK(read(fd, &more, 1) == 0);
        MUST(close(fd));
    }
    report(count);
}
