/*
 * A stranger at the door of a shimmed server, itself without the shim. Modes:
 *   garbage, magic, version, no_fd, pipe, unsealed, tiny, wrong_size, many, silent   one wrong introduction
 *   flood    four hundred connections, half of them silent, kept open until the mark `over`
 *   ahead    takes the first of the door's names (argument: the port), and lets nobody in, until the mark `over`
 *   squat    takes the door's names first (argument: the port) and counts what it is given
 */
#include "common.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/un.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct hello {
    char magic[8];
    uint32_t version, pad;
};

static socklen_t door(struct sockaddr_un *name, unsigned port, int copy) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "dp-door-1/00000000000000000000ffff7f000001/%04x/%d",
                     port, copy);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int knock(void) {
    struct sockaddr_storage address;
    there(&address);
    struct sockaddr_un name;
    socklen_t length = door(&name, ntohs(((struct sockaddr_in *)&address)->sin_port), 0);
    int fd = MUST(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
    return connect(fd, (void *)&name, length) == 0 ? fd : (close(fd), -1);
}

static int memory(size_t length, bool sealed) {
    int fd = MUST(memfd_create("dp-arena", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    MUST(ftruncate(fd, (off_t)length));
    struct {
        char magic[8];
        uint32_t version, slots, lines;
    } header = {"DPARENA1", 1, 1024, 2048};
    header.magic[7] = '1';
    MUST(pwrite(fd, &header, sizeof header < length ? sizeof header : length, 0));
    if (sealed)
        MUST(fcntl(fd, F_ADD_SEALS, SEALS));
    return fd;
}

static void stand_ahead(unsigned port) {
    struct sockaddr_un name;
    socklen_t length = door(&name, port, 0);
    int fd = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    MUST(bind(fd, (void *)&name, length));
    MUST(listen(fd, 0));
    while (connect(MUST(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0)), (void *)&name, length) == 0)
        ;
    CHECK(errno == EAGAIN);
    mark("squatting", 1);
    await_mark("over");
}

static void squat(unsigned port) {
    struct pollfd doors[4];
    for (int i = 0; i < 4; i++) {
        struct sockaddr_un name;
        socklen_t length = door(&name, port, i);
        doors[i] = (struct pollfd){.fd = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0)), .events = POLLIN};
        MUST(bind(doors[i].fd, (void *)&name, length));
        MUST(listen(doors[i].fd, 64));
    }
    mark("squatting", 1);
    int visits = 0, hellos = 0;
    char path[512];
    path_beside(path, sizeof path, "over");
    while (access(path, F_OK) != 0) {
        poll(doors, 4, 10);
        for (int i = 0; i < 4; i++) {
            if (!(doors[i].revents & POLLIN))
                continue;
            int fd = MUST(accept(doors[i].fd, NULL, NULL));
            char words[64];
            visits++;
            hellos += recv(fd, words, sizeof words, 0) > 0;
            close(fd);
        }
    }
    say("%s, given %d", visits ? "visited" : "not visited", hellos);
}

void client(void) {
    struct hello hello = {"DPHELLO", 1, 0};
    hello.magic[7] = '1';
    if (mode_is("squat")) {
        squat((unsigned)argument(0, 0));
        return;
    }
    if (mode_is("ahead")) {
        stand_ahead((unsigned)argument(0, 0));
        return;
    }
    int fds[64], count = mode_is("flood") ? 400 : 8;
    size_t right = 64u << 20; /* anything but the size its header asks for */
    for (int round = 0; round < count; round++) {
        int fd = knock();
        if (fd < 0) {
            sleep_ms(1); /* the backlog is full: that, too, is a flood */
            continue;
        }
        int one = -1;
        size_t n = 1;
        if (mode_is("silent") || (mode_is("flood") && round % 2))
            continue;
        if (mode_is("garbage")) {
            char noise[3000];
            fill(noise, sizeof noise, (uint64_t)round);
            send_with(fd, noise, 1 + (size_t)round * 400, &one, 0);
            continue;
        }
        if (mode_is("pipe")) {
            MUST(pipe(fds));
            one = fds[0];
        } else if (mode_is("tiny")) {
            one = memory((size_t)round, true);
        } else {
            one = memory(right, !mode_is("unsealed"));
        }
        hello.magic[7] = mode_is("magic") ? '0' + (char)round + 2 : '1';
        hello.version = mode_is("version") ? 2 + (uint32_t)round * 1000 : 1;
        if (mode_is("no_fd"))
            n = 0;
        if (mode_is("many"))
            n = 4u << (round % 5);
        for (size_t i = 0; i < n; i++)
            fds[i] = one;
        send_with(fd, &hello, sizeof hello, fds, n);
        close(one);
    }
    mark("knocked", 1);
    await_mark("over");
    say("knocked");
}

void server(void) {}
