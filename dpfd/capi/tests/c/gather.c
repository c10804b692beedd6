/* Messages in pieces, and immediates. */
#include "check.h"
#include <sys/wait.h>

static struct iovec piece(const char *text) { return (struct iovec){(void *)text, strlen(text)}; }

static dpmsg_t message(const struct iovec *iov, int iovcnt) {
    return (dpmsg_t){.size = sizeof(dpmsg_t), .iov = iov, .iovcnt = iovcnt};
}

static void pieces(int fd, int to) {
    struct iovec three[] = {piece("one "), piece("message "), piece("of three")};
    CHECK(dp_writev(fd, three, 3) == 20);
    expect(to, "one message of three");
    CHECK(dp_writev(fd, NULL, 0) == 0);
    expect(to, "");
    struct iovec gaps[] = {{NULL, 0}, piece("a"), {NULL, 0}, piece("b"), {NULL, 0}};
    CHECK(dp_writev(fd, gaps, 5) == 2);
    expect(to, "ab");

    static char byte = 'x', much[6 << 20];
    static struct iovec many[1025], long_ones[3] = {{much, sizeof much}, {much, sizeof much}, {much, sizeof much}};
    for (int i = 0; i < 1025; i++) many[i] = (struct iovec){&byte, 1};
    CHECK(dp_writev(fd, many, 1024) == 1024);
    char all[1024];
    CHECK(dp_recvfrom(to, all, sizeof all, NULL, NULL) == 1024 && all[0] == 'x' && all[1023] == 'x');
    FAILS(dp_writev(fd, many, 1025), EINVAL, "1025 pieces");
    FAILS(dp_writev(fd, many, -1), EINVAL, "-1 pieces");
    FAILS(dp_writev(fd, long_ones, 3), EMSGSIZE, "18874368");
    FAILS(dp_writev(fd, NULL, 1), EFAULT, "NULL");
    many[7].iov_base = NULL;
    FAILS(dp_writev(fd, many, 9), EFAULT, "NULL");
    FAILS(dp_writev(900, three, 3), EBADF, "not open");
}

static void immediates(int fd, int to) {
    uint64_t got = 1;
    struct iovec text[] = {piece("te"), piece("xt")};
    dpmsg_t msg = message(text, 2);
    CHECK(dp_sendmsg(fd, &msg) == 4);
    expect(to, "text");
    CHECK(dp_immediate(to, &got) == 0 && got == 1);
    msg.flags = DP_MSG_IMMEDIATE;
    for (uint64_t i = 0; i < 3; i++) {
        msg.immediate = i - 1;
        CHECK(dp_sendmsg(fd, &msg) == 4 && dp_write(fd, "plain", 5) == 5);
        expect(to, "text");
        CHECK(dp_immediate(to, &got) == 1 && got == i - 1 && dp_immediate(to, NULL) == 1);
        expect(to, "plain");
        CHECK(dp_immediate(to, &got) == 0);
    }
    /* Nothing but the immediate, to another destination, copied. */
    dpmsg_t alone = message(NULL, 0);
    alone.flags = DP_MSG_IMMEDIATE | DP_MSG_TO;
    alone.dpid = (int)stat_of(fd).dpid;
    alone.immediate = 77;
    CHECK(dp_sendmsg(fd, &alone) == 0);
    int dpid = 0;
    CHECK(dp_recvfrom(fd, NULL, 0, NULL, &dpid) == 0 && dpid == alone.dpid);
    CHECK(dp_immediate(fd, &got) == 1 && got == 77);

    /* No gateway runs here, so there is no route. A program from before there were any has a shorter dpmsg_t. */
    alone.flags |= DP_MSG_ROUTE;
    FAILS(dp_sendmsg(fd, &alone), EFAULT, "NULL");
    alone.route = "eth";
    FAILS(dp_sendmsg(fd, &alone), ENOENT, "no route eth");
    alone.size = offsetof(dpmsg_t, route);
    FAILS(dp_sendmsg(fd, &alone), EINVAL, "sizeof(dpmsg_t)");
    alone.flags &= ~DP_MSG_ROUTE;
    alone.route = (const char *)1;
    CHECK(dp_sendmsg(fd, &alone) == 0);
    CHECK(dp_recvfrom(fd, NULL, 0, NULL, &dpid) == 0 && dpid == alone.dpid);

    alone.dpid = 70000;
    FAILS(dp_sendmsg(fd, &alone), EINVAL, "70000");
    alone.flags = 8;
    FAILS(dp_sendmsg(fd, &alone), EINVAL, "0x8");
    alone.size = 8;
    FAILS(dp_sendmsg(fd, &alone), EINVAL, "sizeof(dpmsg_t)");
    FAILS(dp_sendmsg(fd, NULL), EFAULT, "NULL");
    FAILS(dp_immediate(900, &got), EBADF, "not open");
}

/* A child has the parent's endpoint for plain messages. */
static void in_a_child(int fd, int to) {
    pid_t child = fork();
    if (child == 0) {
        struct iovec two[] = {piece("from "), piece("a child")};
        CHECK(dp_writev(fd, two, 2) == 12);
        dpmsg_t msg = message(two, 2);
        msg.flags = DP_MSG_IMMEDIATE;
        FAILS(dp_sendmsg(fd, &msg), EOPNOTSUPP, "another process");
        msg.flags = DP_MSG_ROUTE;
        msg.route = "eth";
        FAILS(dp_sendmsg(fd, &msg), EOPNOTSUPP, "another process");
        CHECK(dp_immediate(fd, NULL) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    expect(to, "from a child");
}

int main(void) {
    int to = endpoint(0), fd = endpoint((int)stat_of(to).dpid);
    struct iovec none[] = {piece("where to?")};
    int lost = endpoint(0);
    FAILS(dp_writev(lost, none, 1), EDESTADDRREQ, "no target");
    pieces(fd, to);
    immediates(fd, to);
    in_a_child(fd, to);
    puts("ok");
    return 0;
}
