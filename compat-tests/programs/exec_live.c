/*
 * A process with a live, well used connection on fd 0 and 1 becomes another program.
 *   cat      /bin/cat, with the environment as it is
 *   bare     /bin/cat with LD_PRELOAD gone
 *   static   a statically linked program: no preload reaches it
 *   stdio    sed, which reads and writes through the C library's streams
 *   shell    sh, which reads byte by byte and starts programs of its own
 *   child    fork, and the child executes; the parent keeps its copy and waits
 */
#include "common.h"

#include <libgen.h>

#define LINES 100
#define BULK 200000

static void become(void) {
    char beside[512];
    if (mode_is("bare"))
        unsetenv("LD_PRELOAD");
    if (mode_is("static")) {
        snprintf(beside, sizeof beside, "%s/static_cat", dirname(strdup(program_argv[0])));
        execl(beside, "static_cat", (char *)NULL);
    } else if (mode_is("stdio")) {
        execl("/bin/sed", "sed", "-u", "s/^/sed: /", (char *)NULL);
    } else if (mode_is("shell")) {
        execl("/bin/sh", "sh", "-c", "while read -r x; do echo \"sh: $x\"; /bin/true; done", (char *)NULL);
    } else {
        execl("/bin/cat", "cat", (char *)NULL);
    }
    CHECK(!"exec");
}

void helper(int fd) {
    pid_t child = mode_is("child") ? MUST(fork()) : 0;
    if (child > 0) {
        join_child(child);
        say("the child ended");
        return;
    }
    alarm(25); /* a timer survives exec */
    if (fd != 0) {
        MUST(dup2(fd, 0));
        MUST(dup2(fd, 1));
        MUST(close(fd));
    }
    become();
}

static void exchange_line(int fd, const char *prefix, int i) {
    char line[400], want[420], got[420];
    snprintf(line, sizeof line, "%d %0*d\n", i, i * 3 % 300, i);
    snprintf(want, sizeof want, "%s%s", prefix, line);
    write_all(fd, line, strlen(line));
    read_exact(fd, got, strlen(want));
    CHECK(memcmp(got, want, strlen(want)) == 0);
}

void tester(int fd) {
    const char *prefix = mode_is("stdio") ? "sed: " : mode_is("shell") ? "sh: " : "";
    /* The first lines are most likely written before the other side has executed anything. */
    for (int i = 0; i < LINES; i++)
        exchange_line(fd, prefix, i);
    if (*prefix == 0) {
        static char out[BULK], in[BULK];
        fill(out, sizeof out, 3);
        write_all(fd, out, sizeof out);
        read_exact(fd, in, sizeof in);
        say("%d bytes: %s", BULK, memcmp(in, out, sizeof in) == 0 ? "same" : "DIFFERENT");
    }
    char byte;
    MUST(shutdown(fd, SHUT_WR));
    outcome("at the end", read(fd, &byte, 1));
}
