/*
 * Load until the other process dies. The bytes of every direction are a function of their position, so whoever
 * survives knows that what it got is a correct prefix.
 *   echo    four connections, requests of random size
 *   stream  four connections, both directions at full speed at once
 *   mixed   two and two
 * A survivor must see EOF, ECONNRESET or EPIPE on every connection; it ends then with status 0. COMPAT_PORT is the
 * port to listen on.
 */
#include "common.h"

#define CONNECTIONS 4
#define LARGEST 40000

static int connections[CONNECTIONS];
static const uint64_t half = 1u << 23; /* the client's stream and the server's are different */

static bool is_stream(int i) { return mode_is("stream") || (mode_is("mixed") && i % 2); }

static bool died(ssize_t n) {
    if (n > 0)
        return false;
    CHECK(n == 0 || errno == ECONNRESET || errno == EPIPE);
    return true;
}

static uint8_t *salted(uint64_t from, size_t length, uint8_t *to) {
    for (size_t i = 0; i < length; i++)
        to[i] = pattern(from + i);
    return to;
}

static bool send_whole(int fd, const uint8_t *from, size_t length) {
    while (length > 0) {
        ssize_t n = send(fd, from, length, MSG_NOSIGNAL);
        if (died(n ? n : 1))
            return false;
        from += n;
        length -= (size_t)n;
    }
    return true;
}

/* What arrives, at least one byte, at most `most`; 0 when the other side is gone. */
static size_t receive(int fd, uint64_t position, size_t most) {
    static __thread uint8_t buffer[LARGEST];
    ssize_t n = recv(fd, buffer, most < sizeof buffer ? most : sizeof buffer, 0);
    if (died(n))
        return 0;
    CHECK(is_pattern(buffer, (size_t)n, position));
    return (size_t)n;
}

static void *stream_out(void *which) {
    int fd = connections[(intptr_t)which];
    uint8_t chunk[LARGEST];
    uint64_t state = (uint64_t)(intptr_t)which + 77, position = is_client ? 0 : half;
    for (;;) {
        size_t n = 1 + next_random(&state) % (state % 5 ? 2000 : sizeof chunk);
        if (!send_whole(fd, salted(position, n, chunk), n))
            return NULL;
        position += n;
    }
}

static void stream(intptr_t which) {
    pthread_t sender = start_thread(stream_out, (void *)which);
    uint64_t position = is_client ? half : 0;
    for (size_t n; (n = receive(connections[which], position, LARGEST)) > 0;)
        position += n;
    /* A sender that found its peer gone has ended; one that sleeps in a full buffer must be woken by the end, too. */
    pthread_join(sender, NULL);
}

static void request(intptr_t which) {
    int fd = connections[which];
    uint8_t chunk[LARGEST];
    uint64_t state = (uint64_t)which + 99, position = 0;
    for (;;) {
        size_t n = 1 + next_random(&state) % (state % 50 ? 300 : sizeof chunk);
        if (!send_whole(fd, salted(position, n, chunk), n))
            return;
        for (size_t got; n > 0; n -= got, position += got)
            if ((got = receive(fd, position, n)) == 0)
                return;
    }
}

static void answer(intptr_t which) {
    int fd = connections[which];
    uint8_t chunk[LARGEST];
    uint64_t position = 0;
    for (size_t n; (n = receive(fd, position, sizeof chunk)) > 0; position += n)
        if (!send_whole(fd, salted(position, n, chunk), n))
            return;
}

static void *use(void *which) {
    intptr_t i = (intptr_t)which;
    if (is_stream((int)i))
        stream(i);
    else if (is_client)
        request(i);
    else
        answer(i);
    return NULL;
}

static void use_all(void) {
    pthread_t threads[CONNECTIONS];
    for (intptr_t i = 0; i < CONNECTIONS; i++)
        threads[i] = start_thread(use, (void *)i);
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
    say("%d connections ended, what came before was right", CONNECTIONS);
}

static int listen_on(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)), yes = 1;
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    MUST(bind(listener, (void *)&address, sizeof address));
    MUST(listen(listener, 128));
    return listener;
}

void server(void) {
    int listener = listen_on(getenv("COMPAT_PORT"));
    mark("listening", 1);
    for (int i = 0; i < CONNECTIONS; i++)
        connections[i] = MUST(accept(listener, NULL, NULL));
    use_all();
}

void client(void) {
    await_mark("listening");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(getenv("COMPAT_PORT")))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CONNECTIONS; i++) {
        connections[i] = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(connections[i], (void *)&address, sizeof address));
    }
    mark("connected", 1);
    use_all();
}
