/*
 * A stranger at the door of a shimmed server, itself without the shim. Modes:
 *   garbage, magic, version, no_fd, pipe, unsealed, tiny, wrong_size, many, silent   one wrong introduction
 *   lingers  TCP sockets in place of memory, whose last close waits for an hour
 *   flood    four hundred connections, half of them silent, kept open until the mark `over`
 *   ahead    takes the first of the door's names (argument: the port), and lets nobody in, until the mark `over`
 *   squat    takes the door's names first (arguments: the port; how many names, else all) and every offer in the arenas
 *            it is given, and says what it could read in them
 *   between  takes all names but the first, and hands the arenas it is given on to the server, as its own
 *   huge     eight arenas in order but for their size, of 128 GiB each
 *   proper   eight arenas in order, without an offer
 *   lie      one arena in order, in which it offers every connection to the port (argument) that others have, and
 *            answers each challenge at once, or with that of an earlier lie
 */
#include "arena.h"

#include <stddef.h>
#include <sys/un.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct hello {
    char magic[8];
    uint32_t version, pad;
    uint64_t link;
};

static socklen_t door(struct sockaddr_un *name, unsigned port, int copy) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "dp-door-1/00000000000000000000ffff7f000001/%04x/%x",
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

static struct arena_header header_of(uint32_t lines) {
    struct arena_header header = {"DPARENA", ARENA_VERSION, 1024, lines, 0};
    header.magic[7] = '1';
    return header;
}

static int memory_of(size_t length, bool sealed, uint32_t lines) {
    int fd = MUST(memfd_create("dp-arena", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    MUST(ftruncate(fd, (off_t)length));
    struct arena_header header = header_of(lines);
    MUST(pwrite(fd, &header, sizeof header < length ? sizeof header : length, 0));
    if (sealed)
        MUST(fcntl(fd, F_ADD_SEALS, SEALS));
    return fd;
}

static int memory(size_t length, bool sealed) {
    return memory_of(length, sealed, 2048);
}

/* A TCP socket with unread bytes, whose last close waits for their reader, who never comes. */
static int lingering(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(bind(listener, (void *)&here, length));
    MUST(listen(listener, 1));
    MUST(getsockname(listener, (void *)&here, &length));
    MUST(connect(fd, (void *)&here, length));
    MUST(accept(listener, NULL, NULL)); /* stays open */
    close(listener);
    static char bytes[1 << 16];
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    struct linger linger = {.l_onoff = 1, .l_linger = 3600};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
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

enum { LOOKED_AT = 64 }; /* slots */

/* Answers every offer there is, and takes it, as if it were ours: odd ones at once, even ones when the client has
 * shown its own proof. */
static void take_offers(char *arena) {
    for (size_t i = 0; i < LOOKED_AT; i++) {
        volatile uint64_t *words = (void *)(arena + arena_slot_at((void *)arena, i));
        uint64_t state = words[0];
        if ((state & 0xff) != 1)
            continue;
        words[11] = 1; /* the challenge */
        if ((state >> 8 & 1) || words[12])
            __sync_bool_compare_and_swap(words, state, state + 1);
    }
}

static long bytes_in(const char *arena) {
    long bytes = 0;
    const struct arena_header *header = (const void *)arena;
    for (size_t i = 0; i < LOOKED_AT; i += ARENA_CHUNK) {
        const char *chunk = arena + arena_slot_at(header, i);
        for (size_t at = ARENA_CHUNK * ARENA_SLOT; at < arena_chunk(header); at++)
            bytes += chunk[at] != 0;
    }
    return bytes;
}

/* The hello that came by `fd`: its arena, and handed on to door `on` unless that is negative. */
static char *take_hello(int fd, unsigned port, int on) {
    char words[64];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {words, sizeof words};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 200) != 1)
        return NULL;
    ssize_t n = recvmsg(fd, &message, 0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (n <= 0 || !c || c->cmsg_type != SCM_RIGHTS)
        return NULL;
    int memory;
    memcpy(&memory, CMSG_DATA(c), sizeof memory);
    char *arena = arena_mapped(memory);
    if (on >= 0) {
        struct sockaddr_un name;
        socklen_t length = door(&name, port, on);
        int next = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
        if (connect(next, (void *)&name, length) == 0)
            send_with(next, words, (size_t)n, &memory, 1);
        close(next);
    }
    close(memory);
    return arena;
}

enum { NAMES = 16, GIVEN = 64 }; /* names of a door; arenas that are looked at */

/* `on` negative: takes `names` names, and the offers. Else takes the other names and hands hellos on to that door. */
static void squat(unsigned port, int on, int names) {
    struct pollfd doors[NAMES];
    CHECK(names <= NAMES);
    for (int i = 0; i < names; i++) {
        struct sockaddr_un name;
        socklen_t length = door(&name, port, i);
        doors[i] = (struct pollfd){.fd = i == on ? -1 : MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0)), .events = POLLIN};
        if (i == on)
            continue;
        MUST(bind(doors[i].fd, (void *)&name, length));
        MUST(listen(doors[i].fd, 64));
    }
    mark("squatting", 1);
    int given = 0;
    char *arenas[GIVEN];
    while (!is_marked("over")) {
        poll(doors, (nfds_t)names, 1);
        for (int i = 0; i < names; i++) {
            if (doors[i].fd < 0 || !(doors[i].revents & POLLIN))
                continue;
            int fd = MUST(accept(doors[i].fd, NULL, NULL));
            char *arena = given < GIVEN ? take_hello(fd, port, on) : NULL;
            if (arena)
                arenas[given++] = arena;
            close(fd);
        }
        for (int i = 0; i < given && on < 0; i++)
            take_offers(arenas[i]);
    }
    long read = 0;
    for (int i = 0; i < given; i++)
        read += bytes_in(arenas[i]);
    say("%s, read %ld bytes", given ? "given memory" : "given nothing", read);
}

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum { LIES = 8 };

static struct {
    volatile uint64_t *words; /* the slot */
    unsigned port;            /* of the client whose connection it offers */
    bool challenged;
} lies[LIES];

static void lie_about(int n, uint64_t server, unsigned client_port, unsigned port, uint64_t network) {
    volatile uint64_t *words = lies[n].words;
    uint64_t state = words[0], address = 0x0100007fffff0000;
    words[0] = state & ~0xffull;
    words[3] = 0, words[4] = address, words[5] = 0, words[6] = server;
    words[7] = (uint64_t)client_port << 48 | (uint64_t)port << 32;
    words[8] = 1, words[9] = network, words[10] = 4711;
    words[11] = words[12] = 0;
    lies[n].port = client_port;
    lies[n].challenged = false;
    __sync_synchronize();
    words[0] = ((state >> 8) + 1) << 8 | 1;
}

/* Client ports of the connections to `port` in the network namespace. */
static int connections_to(unsigned port, unsigned *ports, int most) {
    FILE *list = fopen("/proc/net/tcp", "r");
    CHECK(list);
    char line[512];
    int n = 0;
    while (n < most && fgets(line, sizeof line, list)) {
        unsigned own, other, state;
        if (sscanf(line, " %*u: %*x:%x %*x:%x %x", &own, &other, &state) == 3 && other == port && state == 1)
            ports[n++] = own;
    }
    fclose(list);
    return n;
}

static void lie(unsigned port) {
    struct arena_header header = header_of(2048);
    int memory = memory_of(arena_length(&header), true, 2048), door = knock(), at = 0, challenged = 0, taken = 0;
    char *arena = arena_mapped(memory);
    CHECK(door >= 0);
    for (int i = 0; i < LIES; i++)
        lies[i].words = (void *)(arena + arena_slot_at(&header, (size_t)i));
    /* a look at any eight entries in a row finds all */
    for (int i = 0; i < 4096; i++)
        ((volatile uint32_t *)(arena + 8192))[i] = (uint32_t)(i % LIES) + 1;
    uint64_t network = 0, earlier = 0;
    socklen_t size = sizeof network;
    int any = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(getsockopt(any, SOL_SOCKET, SO_NETNS_COOKIE, &network, &size));
    struct hello hello = {"DPHELLO", 3, 0, 0};
    hello.magic[7] = '1';
    send_with(door, &hello, sizeof hello, &memory, 1);
    mark("knocked", 1);
    while (!is_marked("over")) {
        unsigned ports[64];
        int n = connections_to(port, ports, 64);
        for (int i = 0; i < n; i++) {
            bool known = false;
            for (int k = 0; k < LIES; k++)
                known |= lies[k].port == ports[i];
            if (!known)
                lie_about(at++ % LIES, 0x0100007fffff0000, ports[i], port, network);
        }
        for (int i = 0; i < LIES; i++) {
            volatile uint64_t *words = lies[i].words;
            taken += (words[0] & 0xff) > 1;
            if (words[11] == 0 || words[12] == words[11])
                continue;
            if (!lies[i].challenged && ++challenged == 3)
                mark("challenged", 1);
            lies[i].challenged = true;
            words[12] = challenged % 3 == 2 ? earlier : words[11];
            earlier = words[11];
        }
    }
    say("%s, taken %d times", challenged >= 3 ? "challenged" : "hardly challenged", taken);
}

void client(void) {
    struct hello hello = {"DPHELLO", 3, 0, 0};
    hello.magic[7] = '1';
    if (mode_is("squat")) {
        squat((unsigned)argument(0, 0), -1, (int)argument(1, NAMES));
        return;
    }
    if (mode_is("between")) {
        squat((unsigned)argument(0, 0), 0, NAMES);
        return;
    }
    if (mode_is("lie")) {
        lie((unsigned)argument(0, 0));
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
        } else if (mode_is("lingers")) {
            one = lingering();
        } else if (mode_is("tiny")) {
            one = memory((size_t)round, true);
        } else if (mode_is("huge") || mode_is("proper")) {
            uint32_t lines = mode_is("huge") ? 1u << 20 : 2048;
            struct arena_header header = header_of(lines);
            one = memory_of(arena_length(&header), true, lines);
        } else {
            one = memory(right, !mode_is("unsealed"));
        }
        hello.magic[7] = mode_is("magic") ? '0' + (char)round + 2 : '1';
        hello.version = mode_is("version") ? 1 + (uint32_t)round * 1000 : 3;
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
