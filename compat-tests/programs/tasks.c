/*
 * A program that has a connection to one server, and forks a process for each task, which connects to another server and ends by
 * _exit with the connection open. Arguments: the mode "", then the port of a server; for the client both
 * ports, and how many tasks. A server echoes until it is killed, in a process for each connection; the client marks "done" and
 * waits for the mark "looked".
 */
#include "common.h"

#define EXCHANGES 200

static struct sockaddr_in address(int n) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)argument(n, 0))};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return here;
}

void server(void) {
    struct sockaddr_in here = address(0);
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    MUST(bind(listener, (void *)&here, sizeof here));
    MUST(listen(listener, 128));
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    for (;;) {
        int fd = MUST(accept(listener, NULL, NULL));
        if (MUST(fork()) == 0) {
            echo_until_eof(fd);
            _exit(0);
        }
        MUST(close(fd));
    }
}

static int task(int n) {
    struct sockaddr_in there = address(n);
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    for (int turn = 0; connect(fd, (void *)&there, sizeof there) != 0; turn++) {
        CHECK(turn < 500 && errno == ECONNREFUSED);
        usleep(10000);
    }
    no_delay(fd);
    for (int k = 0; k < EXCHANGES; k++)
        exchange(fd, 100, (uint64_t)k);
    return fd;
}

void client(void) {
    int fd = task(0);
    for (long i = 0, count = argument(2, 70); i < count; i++) {
        pid_t pid = MUST(fork());
        if (pid == 0) {
            task(1);
            _exit(0);
        }
        int status;
        MUST(waitpid(pid, &status, 0));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    exchange(fd, 100, 1);
    mark("done", 1);
    await_mark("looked");
    say("fine");
}
