/*
 * Connections across fork().
 *   child_serves        the parent accepts, has exchanged some, and closes its copy; the child serves
 *   child_serves_cold   the same, but the child makes the very first read
 *   prefork             four workers accept on one listener
 *   snapshot            children only exit while the parent goes on (a database saving in the background)
 *   in_turns            child and parent use the same connection, one after the other
 *   client_child        the connecting side forks, the child goes on with it
 */
#include "common.h"

#define WORKERS 4
#define BATCHES 8
#define EXCHANGES 100

static void echo_exactly(int fd, size_t messages) {
    char message[100];
    for (size_t i = 0; i < messages; i++) {
        read_exact(fd, message, sizeof message);
        write_all(fd, message, sizeof message);
    }
}

static void child_serves(int listener) {
    int fd = mode_is("child_serves_cold") ? MUST(accept(listener, NULL, NULL)) : accepted(listener);
    pid_t child = MUST(fork());
    if (child == 0) {
        close(listener);
        if (mode_is("child_serves_cold"))
            warm_up(fd);
        echo_until_eof(fd);
        exit(0);
    }
    MUST(close(fd));
    join_child(child);
}

static void prefork(int listener) {
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        if ((workers[i] = MUST(fork())) == 0) {
            /* One connection of each batch, by whoever comes: every worker must get some of the last batch. */
            for (;;) {
                int fd = accepted(listener);
                char last;
                read_exact(fd, &last, 1);
                echo_until_eof(fd);
                close(fd);
                if (last == 'L')
                    exit(0);
            }
        }
    for (int i = 0; i < WORKERS; i++)
        join_child(workers[i]);
}

static void snapshot(int listener) {
    int fd = accepted(listener);
    for (int i = 0; i < 6; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            sleep_ms(5);
            if (i % 2)
                exit(0);
            _exit(0);
        }
        echo_exactly(fd, EXCHANGES);
        join_child(child);
        echo_exactly(fd, EXCHANGES);
    }
    echo_until_eof(fd);
}

static void in_turns(int listener) {
    int fd = accepted(listener);
    for (int i = 0; i < 6; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            echo_exactly(fd, EXCHANGES);
            exit(0);
        }
        join_child(child);
        echo_exactly(fd, EXCHANGES);
    }
    echo_until_eof(fd);
}

void server(void) {
    int listener = listen_here();
    if (mode_is("prefork"))
        prefork(listener);
    else if (mode_is("snapshot"))
        snapshot(listener);
    else if (mode_is("in_turns"))
        in_turns(listener);
    else if (mode_is("client_child"))
        echo_until_eof(accepted(listener));
    else
        child_serves(listener);
    say("served");
}

static void many_exchanges(int fd) {
    for (int i = 0; i < 12 * EXCHANGES; i++)
        exchange(fd, 100, (uint64_t)i);
}

static void against_workers(void) {
    for (int batch = 0; batch < BATCHES; batch++) {
        int fds[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            fds[i] = connected();
            no_delay(fds[i]);
            write_all(fds[i], batch == BATCHES - 1 ? "L" : "-", 1);
        }
        for (int k = 0; k < 30; k++)
            for (int i = 0; i < WORKERS; i++)
                exchange(fds[i], 200, (uint64_t)(k * WORKERS + i));
        for (int i = 0; i < WORKERS; i++)
            MUST(close(fds[i]));
    }
    say("%d connections", BATCHES * WORKERS);
}

static void goes_on_in_child(void) {
    int fd = connected();
    pid_t child = MUST(fork());
    if (child == 0) {
        many_exchanges(fd);
        exit(0);
    }
    join_child(child);
    many_exchanges(fd); /* and the parent after it */
    close(fd);
}

void client(void) {
    if (mode_is("prefork")) {
        against_workers();
    } else if (mode_is("client_child")) {
        goes_on_in_child();
    } else {
        int fd = connected();
        many_exchanges(fd);
        char byte;
        MUST(shutdown(fd, SHUT_WR));
        CHECK(read(fd, &byte, 1) == 0);
        close(fd);
    }
    say("%d exchanges each", 12 * EXCHANGES);
}
