/* Opens an endpoint and hands it to a program in another language, as descriptor 3.
 *
 *     cc give_endpoint.c -ldp && ./a.out python3 plain_fd.py
 *
 * The program sends to this process and is answered. This process stays: it carries what the program writes.
 */
#include <dp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIVEN = 3201, ECHO = 3202, HANDED_AS = 3 };

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dp_errno_text());
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s program [argument ...]\n", argv[0]);
        return 2;
    }
    int given = dp_open(GIVEN), echo = dp_open(ECHO);
    if (given < 0 || echo < 0) die("dp_open");
    if (dp_target(given, 0, ECHO) < 0 || dp_target(echo, 0, GIVEN) < 0) die("dp_target");

    pid_t child = fork();
    if (child == 0) {
        if (given != HANDED_AS) dup2(given, HANDED_AS); /* not close-on-exec, as everything from dp_open */
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    for (;;) {
        char text[256] = "echo: ";
        ssize_t n = read(echo, text + 6, sizeof text - 6);
        if (n < 0) die("read");
        if (n == 0) break; /* an empty message: the program has finished */
        if (write(echo, text, 6 + n) < 0) die("write");
    }
    int status;
    waitpid(child, &status, 0);
    return dp_close(given) < 0 || dp_close(echo) < 0 || status != 0;
}
