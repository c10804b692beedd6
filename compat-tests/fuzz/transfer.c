// Operations that move bytes, by every call that can.
#include <poll.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "interp.h"

static int flags_from(struct line *line, int at) {
    int flags = 0;
    for (; at < line->words; at++) {
        const char *w = line->word[at];
        if (!strcmp(w, "dontwait")) flags |= MSG_DONTWAIT;
        if (!strcmp(w, "peek")) flags |= MSG_PEEK;
        if (!strcmp(w, "waitall")) flags |= MSG_WAITALL;
        if (!strcmp(w, "trunc")) flags |= MSG_TRUNC;
        if (!strcmp(w, "nosignal")) flags |= MSG_NOSIGNAL;
        if (!strcmp(w, "more")) flags |= MSG_MORE;
        if (!strcmp(w, "oob")) flags |= MSG_OOB;
        if (!strcmp(w, "eor")) flags |= MSG_EOR;
        if (!strcmp(w, "confirm")) flags |= MSG_CONFIRM;
        if (!strcmp(w, "zerocopy")) flags |= MSG_ZEROCOPY;
        if (!strcmp(w, "errqueue")) flags |= MSG_ERRQUEUE;
        if (!strcmp(w, "cloexec")) flags |= MSG_CMSG_CLOEXEC;
    }
    return flags;
}

static void two_parts(struct iovec *parts, void *bytes, size_t length) {
    parts[0] = (struct iovec){bytes, length / 3};
    parts[1] = (struct iovec){(char *)bytes + length / 3, length - length / 3};
}

static ssize_t from_a_file(int fd, const void *bytes, size_t length) {
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    off_t offset = 0;
    ssize_t n = write(file, bytes, length) < 0 ? -1 : sendfile(fd, file, &offset, length);
    int error = errno;
    close(file);
    errno = error;
    return n;
}

// A pipe holds no more than that.
enum { PIPE = 65536 };

static ssize_t from_a_pipe(int fd, const void *bytes, size_t length, int dont_wait) {
    int ends[2];
    if (length > PIPE) length = PIPE;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return -1;
    ssize_t n = write(ends[1], bytes, length);
    if (n > 0) n = splice(ends[0], NULL, fd, NULL, (size_t)n, dont_wait ? SPLICE_F_NONBLOCK : 0);
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return n;
}

static ssize_t into_a_pipe(int fd, void *bytes, size_t length, int dont_wait) {
    int ends[2];
    if (length > PIPE) length = PIPE;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return -1;
    ssize_t n = splice(fd, NULL, ends[1], NULL, length, dont_wait ? SPLICE_F_NONBLOCK : 0);
    int error = errno;
    if (n > 0) n = read(ends[0], bytes, (size_t)n);
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return n;
}

ssize_t give(const char *how, int fd, void *bytes, size_t length, int flags) {
    struct iovec parts[2];
    two_parts(parts, bytes, length);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (!strcmp(how, "write")) return write(fd, bytes, length);
    if (!strcmp(how, "writev")) return writev(fd, parts, 2);
    if (!strcmp(how, "sendmsg")) return sendmsg(fd, &message, flags);
    if (!strcmp(how, "sendfile")) return from_a_file(fd, bytes, length);
    if (!strcmp(how, "spliceto")) return from_a_pipe(fd, bytes, length, flags & MSG_DONTWAIT);
    return send(fd, bytes, length, flags);
}

static ssize_t take(const char *how, int fd, void *bytes, size_t length, int flags) {
    struct iovec parts[2];
    two_parts(parts, bytes, length);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (!strcmp(how, "read")) return read(fd, bytes, length);
    if (!strcmp(how, "readv")) return readv(fd, parts, 2);
    if (!strcmp(how, "recvmsg")) return recvmsg(fd, &message, flags);
    if (!strcmp(how, "splicefrom")) return into_a_pipe(fd, bytes, length, flags & MSG_DONTWAIT);
    return recv(fd, bytes, length, flags);
}

// send|write|writev|sendmsg|sendfile|spliceto NAME N [flags]
static void one_send(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    size_t length = (size_t)number(line, 2, 1);
    char *bytes = malloc(length + 1);
    fill(name.stream, bytes, length, 0);
    ssize_t n = give(word(line, 0), name.fd, bytes, length, flags_from(line, 3));
    say_result(line, n);
    // An urgent byte is not in the stream.
    if (n > 0 && flags_from(line, 3) & MSG_OOB) n--;
    if (n > 0 && name.stream) atomic_fetch_add(&name.stream->sent, (uint64_t)n);
    free(bytes);
}

// recvctl NAME N [flags]: what a message header says afterwards, too
static void receive_with_control(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    size_t length = (size_t)number(line, 2, 1);
    int flags = flags_from(line, 3);
    char *bytes = malloc(length + 1), control[64], from[64];
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
                             .msg_name = from, .msg_namelen = sizeof from, .msg_flags = 0x7777};
    ssize_t n = recvmsg(name.fd, &message, flags);
    say_result(line, n);
    if (n >= 0) say(line, " flags %x control %zu name %u", (unsigned)message.msg_flags, message.msg_controllen, message.msg_namelen);
    if (n > 0 && !(flags & MSG_OOB)) check(line, name.stream, flags & MSG_TRUNC ? NULL : bytes, (size_t)n, !(flags & MSG_PEEK));
    free(bytes);
}

// recv|read|readv|recvmsg|splicefrom NAME N [flags]
static void one_receive(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    size_t length = (size_t)number(line, 2, 1);
    int flags = flags_from(line, 3);
    char *bytes = malloc(length + 1);
    ssize_t n = take(word(line, 0), name.fd, bytes, length, flags);
    say_result(line, n);
    if (n > 0 && !(flags & MSG_OOB)) check(line, name.stream, flags & MSG_TRUNC ? NULL : bytes, (size_t)n, !(flags & MSG_PEEK));
    free(bytes);
}

// sendmmsg NAME COUNT SIZE
static void many_sends(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    enum { MOST = 16 };
    unsigned count = (unsigned)number(line, 2, 2);
    size_t size = (size_t)number(line, 3, 10);
    if (count > MOST) count = MOST;
    char *bytes = malloc(count * size + 1);
    fill(name.stream, bytes, count * size, 0);
    struct mmsghdr messages[MOST];
    struct iovec parts[MOST];
    memset(messages, 0, sizeof messages);
    for (unsigned i = 0; i < count; i++) {
        parts[i] = (struct iovec){bytes + i * size, size};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int n = sendmmsg(name.fd, messages, count, flags_from(line, 4));
    say_result(line, n);
    for (int i = 0; i < n; i++) {
        say(line, " %u", messages[i].msg_len);
        if (name.stream) atomic_fetch_add(&name.stream->sent, messages[i].msg_len);
    }
    free(bytes);
}

// recvmmsg NAME COUNT SIZE TIMEOUT_MS [flags]; TIMEOUT_MS 0 is none
static void many_receives(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    enum { MOST = 16 };
    unsigned count = (unsigned)number(line, 2, 2);
    size_t size = (size_t)number(line, 3, 10);
    long limit = number(line, 4, 0);
    if (count > MOST) count = MOST;
    char *bytes = malloc(count * size + 1);
    struct mmsghdr messages[MOST];
    struct iovec parts[MOST];
    memset(messages, 0, sizeof messages);
    for (unsigned i = 0; i < count; i++) {
        parts[i] = (struct iovec){bytes + i * size, size};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    struct timespec time = {limit / 1000, limit % 1000 * 1000000};
    int flags = flags_from(line, 5);
    if (!strcmp(word(line, 5), "waitforone")) flags |= MSG_WAITFORONE;
    int n = recvmmsg(name.fd, messages, count, flags, limit ? &time : NULL);
    say_result(line, n);
    for (int i = 0; i < n; i++) {
        say(line, " %u", messages[i].msg_len);
        check(line, name.stream, parts[i].iov_base, messages[i].msg_len, 1);
    }
    free(bytes);
}

static void readable_soon(int fd, short events, int limit) {
    struct pollfd one = {fd, events, 0};
    while (poll(&one, 1, limit) < 0 && errno == EINTR) {
    }
}

// drain NAME [SIZE] [MS]: takes until nothing comes for so long, 15 ms; the sum, and what ended it
static void drain(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    size_t size = (size_t)number(line, 2, 65536);
    char *bytes = malloc(size + 1);
    long sum = 0;
    for (int calls = 0; calls < 400000; calls++) {
        ssize_t n = recv(name.fd, bytes, size, MSG_DONTWAIT);
        if (n > 0) {
            sum += n;
            check(line, name.stream, bytes, (size_t)n, 1);
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            struct pollfd one = {name.fd, POLLIN, 0};
            if (poll(&one, 1, (int)number(line, 3, 15)) == 1) continue;
            errno = EAGAIN;
        }
        int error = errno;
        say(line, "%ld ", sum);
        errno = error;
        say_result(line, n);
        break;
    }
    free(bytes);
}

// sendall NAME TOTAL PIECE: without blocking, waiting for room with poll
static void send_all(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    long total = number(line, 2, 1000), piece = number(line, 3, 65536), done = 0;
    char *bytes = malloc((size_t)piece + 1);
    while (done < total) {
        size_t length = (size_t)(total - done < piece ? total - done : piece);
        fill(name.stream, bytes, length, 0);
        ssize_t n = send(name.fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            readable_soon(name.fd, POLLOUT, 500);
            continue;
        }
        if (n < 0) break;
        done += n;
        if (name.stream) atomic_fetch_add(&name.stream->sent, (uint64_t)n);
    }
    say_result(line, done == total ? done : -1);
    free(bytes);
}

// trickle NAME SIZE COUNT MS: a piece each MS
static void trickle(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    size_t size = (size_t)number(line, 2, 2);
    char *bytes = malloc(size + 1);
    ssize_t n = 0;
    for (long i = number(line, 3, 1); i > 0 && n >= 0; i--) {
        usleep((useconds_t)number(line, 4, 10) * 1000);
        fill(name.stream, bytes, size, 0);
        n = send(name.fd, bytes, size, MSG_NOSIGNAL);
        if (n > 0 && name.stream) atomic_fetch_add(&name.stream->sent, (uint64_t)n);
    }
    say_result(line, n);
    free(bytes);
}

// warm NAME COUNT: small messages to and fro, so that the connection becomes a channel
static void warm(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    char bytes[64];
    ssize_t n;
    for (long i = number(line, 2, 20); i > 0; i--) {
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) != is_server) {
                fill(name.stream, bytes, sizeof bytes, 0);
                n = send(name.fd, bytes, sizeof bytes, MSG_NOSIGNAL);
                if (n != sizeof bytes) goto failed;
                if (name.stream) atomic_fetch_add(&name.stream->sent, sizeof bytes);
            } else {
                n = recv(name.fd, bytes, sizeof bytes, MSG_WAITALL);
                if (n != sizeof bytes) goto failed;
                check(line, name.stream, bytes, sizeof bytes, 1);
            }
        }
    }
    say(line, "ok");
    return;
failed:
    say_result(line, n);
}

// echo NAME: as many bytes as come, at once, until the end
static void echo(struct line *line) {
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    char bytes[4096];
    ssize_t n;
    while ((n = recv(name.fd, bytes, sizeof bytes, 0)) > 0) {
        check(line, name.stream, bytes, (size_t)n, 1);
        fill(name.stream, bytes, (size_t)n, 0);
        n = send(name.fd, bytes, (size_t)n, MSG_NOSIGNAL);
        if (n < 0) break;
        if (name.stream) atomic_fetch_add(&name.stream->sent, (uint64_t)n);
    }
    say_result(line, n);
}

static const char *const sends[] = {"send", "write", "writev", "sendmsg", "sendfile", "spliceto", NULL};
static const char *const receives[] = {"recv", "read", "readv", "recvmsg", "splicefrom", NULL};

static int among(const char *const *list, const char *word) {
    for (; *list; list++)
        if (!strcmp(*list, word)) return 1;
    return 0;
}

int run_transfer(struct line *line) {
    const char *what = word(line, 0);
    void (*blocking)(struct line *) = NULL;
    if (among(sends, what)) blocking = one_send;
    if (among(receives, what)) blocking = one_receive;
    if (!strcmp(what, "recvctl")) blocking = receive_with_control;
    if (!strcmp(what, "sendmmsg")) blocking = many_sends;
    if (!strcmp(what, "recvmmsg")) blocking = many_receives;
    if (blocking) {
        // With a time-out of its own recvmmsg ends by itself.
        int hurry = !line->patient && !(blocking == many_receives && number(line, 4, 0));
        if (hurry) impatient(1);
        blocking(line);
        if (hurry) impatient(0);
        return 1;
    }
    if (!strcmp(what, "drain")) return drain(line), 1;
    if (!strcmp(what, "sendall")) return send_all(line), 1;
    if (!strcmp(what, "echo")) return echo(line), 1;
    if (!strcmp(what, "trickle")) return trickle(line), 1;
    if (!strcmp(what, "warm")) return warm(line), 1;
    return 0;
}
