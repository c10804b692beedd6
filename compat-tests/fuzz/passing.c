// Operations that hand descriptors to other processes: a relative, which was forked, or a stranger, which is another program.
#include <fcntl.h>
#include <sys/socket.h>

#include "interp.h"

static void say_done(struct line *line, long result) {
    if (result >= 0)
        say(line, "ok");
    else
        say_result(line, result);
}

union room {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

// Beside the number of its stream.
static long send_descriptor(int link, const struct name *name) {
    int place = place_of(name->stream);
    union room control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&place, sizeof place};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &name->fd, sizeof(int));
    return sendmsg(link, &message, MSG_NOSIGNAL);
}

static long receive_descriptor(int link, struct name *name) {
    int place = -1;
    union room control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&place, sizeof place};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    long result = recvmsg(link, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *header = result > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *name = (struct name){.fd = -1, .stream = stream_at(place)};
    if (header) memcpy(&name->fd, CMSG_DATA(header), sizeof(int));
    return result > 0 ? name->fd : result;
}

static struct name named(struct line *line) {
    struct name *name = find(word(line, 1));
    return name ? *name : (struct name){.fd = -1};
}

// pass OLD NEW: hands it to this process itself, over an AF_UNIX connection
static void pass(struct line *line) {
    struct name old = named(line), new = {.fd = -1};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return say(line, "failed");
    long result = send_descriptor(ends[0], &old);
    if (result >= 0) result = receive_descriptor(ends[1], &new);
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    say_done(line, result);
    if (new.fd >= 0) bind_name(word(line, 2), new.fd, new.stream);
}

// post NAME [F]: puts it on its way to child F, or to whoever started this process
static void post(struct line *line) {
    struct name name = named(line);
    say_done(line, send_descriptor(link_to(word(line, 2)), &name));
}

// take NEW [F]: what comes from there
static void take(struct line *line) {
    struct name new;
    long result = receive_descriptor(link_to(word(line, 2)), &new);
    say_done(line, result);
    if (result >= 0) bind_name(word(line, 1), new.fd, new.stream);
}

void become_stranger(int to, int from, int link, int bare) {
    char *arguments[] = {"fuzz_interpreter", is_server ? "server" : "client", "stranger", NULL}, *none[] = {NULL};
    int places[] = {to, from, link, SHARED}, numbers[] = {0, 1, UPWARD, SHARED};
    for (int i = 0; i < 3; i++)
        if (dup2(places[i], numbers[i]) < 0) _exit(95);
    // All that this process has, whoever made it inheritable.
    close_range(3, SHARED - 1, 0);
    close_range(UPWARD + 1, ~0u, 0);
    fcntl(SHARED, F_SETFD, 0);
    if (bare)
        execve("/proc/self/exe", arguments, none);
    else
        execv("/proc/self/exe", arguments);
    _exit(96);
}

int run_passing(struct line *line) {
    const char *what = word(line, 0);
    if (!strcmp(what, "pass")) return pass(line), 1;
    if (!strcmp(what, "post")) return post(line), 1;
    if (!strcmp(what, "take")) return take(line), 1;
    return 0;
}
