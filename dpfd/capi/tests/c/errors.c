/* Every errno of the interface, with its sentence. Its argument: "root" or "user". */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char message[DP_MESSAGE_MAX + 1];

static void numbers(const char *who) {
    FAILS(dp_open(-1), EINVAL, "endpoint number -1");
    FAILS(dp_open(65536), EINVAL, "65536");
    int fd = dp_open(2001);
    CHECK(fd >= 0);
    FAILS(dp_open(2001), EADDRINUSE, "2001 is open already");
    CHECK(dp_close(fd) == 0);
    CHECK((fd = dp_open(2001)) >= 0);
    CHECK(stat_of(fd).dpid == 2001 && stat_of(fd).own == 1);
    CHECK(close(fd) == 0);
    CHECK((fd = dp_open(2001)) >= 0); /* after a plain close, too */
    CHECK(dp_close(fd) == 0);
    if (strcmp(who, "root") == 0) {
        CHECK((fd = dp_open(80)) >= 0);
        CHECK(dp_close(fd) == 0);
    } else {
        FAILS(dp_open(80), EACCES, "CAP_NET_BIND_SERVICE");
    }
}

static void descriptors(void) {
    char *at;
    dpmmap_t pool = {0, NULL};
    FAILS(dp_write(-1, "x", 1), EBADF, "descriptor -1");
    FAILS(dp_write(900, "x", 1), EBADF, "900 is not open");
    FAILS(dp_read(900, &at), EBADF, "not open");
    FAILS(dp_recvfrom(900, message, 1, NULL, NULL), EBADF, "not open");
    FAILS(dp_target(900, 0, 2000), EBADF, "not open");
    FAILS(dp_fsync(900, 0), EBADF, "not open");
    FAILS(dp_mmap(900, &pool), EBADF, "not open");
    FAILS(dp_peer(900, NULL, NULL), EBADF, "not open");
    FAILS(dp_option(900, DP_OPT_NONBLOCK, 1), EBADF, "not open");
    FAILS(dp_option_text(900, DP_OPT_ROUTE, NULL), EBADF, "not open");
    FAILS(dp_close(900), EBADF, "not open");

    int null = open("/dev/null", O_RDWR), tcp = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(dp_write(null, "x", 1), ENOTSOCK, "no endpoint");
    FAILS(dp_write(tcp, "x", 1), ENOTSOCK, "no endpoint");
    FAILS(dp_close(null), ENOTSOCK, "no endpoint");
    CHECK(close(null) == 0 && close(tcp) == 0);

    int fd = out_of_the_way(endpoint(0));
    CHECK(close(fd) == 0);
    FAILS(dp_write(fd, "x", 1), EBADF, "not open");
    /* A number that was an endpoint's and is something else's now. */
    fd = endpoint(0);
    make_null(fd);
    FAILS(dp_write(fd, "x", 1), ENOTSOCK, "no endpoint");
    FAILS(dp_read(fd, &at), ENOTSOCK, "no endpoint");
    FAILS(dp_recvfrom(fd, message, 1, NULL, NULL), ENOTSOCK, "no endpoint");
    CHECK(close(fd) == 0);
}

static void sending(void) {
    int fd = endpoint(0), to = endpoint(0);
    FAILS(dp_write(fd, "x", 1), EDESTADDRREQ, "no target; set one with dp_target");
    FAILS(dp_target(fd, 7, 2000), EHOSTUNREACH, "no route to node 7");
    FAILS(dp_target(fd, -1, 2000), EINVAL, "node number -1");
    FAILS(dp_target(fd, 0, 0), EINVAL, "endpoint number 0");
    FAILS(dp_target(fd, 0, 70000), EINVAL, "70000");
    FAILS(dp_sendto(fd, "x", 1, 7, 2000), EHOSTUNREACH, "no route to node 7");
    FAILS(dp_sendto(fd, "x", 1, 0, -5), EINVAL, "-5");
    CHECK(dp_target(fd, 0, stat_of(to).dpid) == 0);
    CHECK(stat_of(fd).target_dpid == stat_of(to).dpid && stat_of(fd).target_nid == 0);
    FAILS(dp_write(fd, NULL, 1), EFAULT, "NULL");
    FAILS(dp_write(fd, message, DP_MESSAGE_MAX + 1), EMSGSIZE, "16777217");
    FAILS(dp_write(fd, message, (size_t)-1), EMSGSIZE, "limit");
    CHECK(dp_close(fd) == 0 && dp_close(to) == 0);
}

static void receiving(void) {
    char *at;
    int fd = endpoint(0);
    CHECK(dp_option(fd, DP_OPT_NONBLOCK, 1) == 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    FAILS(dp_read(fd, &at), EAGAIN, "at the moment");
    FAILS(dp_recvfrom(fd, message, 8, NULL, NULL), EAGAIN, "at the moment");
    FAILS(dp_recvfrom(fd, NULL, 8, NULL, NULL), EFAULT, "the buffer is NULL");
    FAILS(dp_fsync(fd, 1), EINVAL, "1 messages released, but only 0");
    FAILS(dp_fsync(fd, -1), EINVAL, "-1 messages");
    CHECK(dp_fsync(fd, 0) == 0);
    dpmmap_t pool = {100, NULL};
    FAILS(dp_mmap(fd, &pool), EBUSY, "pool already, of 262144"); /* dp_read made one */
    pool.size = 0;
    CHECK(dp_mmap(fd, &pool) == 0 && pool.size == 262144);
    const char *driver = getenv("DP_DRIVER");
    CHECK((pool.address != NULL) == (driver && strcmp(driver, "kernel") == 0)); /* in one piece only there */
    FAILS(dp_mmap(fd, NULL), EFAULT, "NULL");
    int other = endpoint(0);
    pool.size = 100;
    FAILS(dp_mmap(other, &pool), EINVAL, "4096");
    pool.size = 65536;
    CHECK(dp_mmap(other, &pool) == 0 && stat_of(other).pool == 65536);
    CHECK(dp_close(fd) == 0 && dp_close(other) == 0);
}

static void options(void) {
    int fd = endpoint(0);
    CHECK(stat_of(fd).spin_ns == 50000);
    CHECK(dp_option(fd, DP_OPT_SPIN, 0) == 0 && stat_of(fd).spin_ns == 0);
    FAILS(dp_option(fd, DP_OPT_SPIN, -1), EINVAL, "option 1");
    FAILS(dp_option(fd, DP_OPT_SPIN, 2000000000), EINVAL, "option 1");
    FAILS(dp_option(fd, DP_OPT_NONBLOCK, 2), EINVAL, "option 2");
    CHECK(dp_option(fd, DP_OPT_RELIABILITY, 0) == 0);
    FAILS(dp_option(fd, DP_OPT_RELIABILITY, 2), EOPNOTSUPP, "option 3");
    CHECK(dp_option(fd, DP_OPT_RELIABILITY, 1) == 0);
    CHECK(dp_option(fd, DP_OPT_RELIABILITY, 1) == 0);
    pid_t child = fork();
    if (child == 0) {
        FAILS(dp_option(fd, DP_OPT_RELIABILITY, 0), EOPNOTSUPP, "");
        FAILS(dp_option(fd, DP_OPT_RELIABILITY, 1), EOPNOTSUPP, "");
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    FAILS(dp_option(fd, 99, 1), EINVAL, "option 99");
    FAILS(dp_option(fd, DP_OPT_ROUTE, 1), EINVAL, "option 5");
    CHECK(dp_option_text(fd, DP_OPT_ROUTE, NULL) == 0);
    FAILS(dp_option_text(fd, DP_OPT_ROUTE, "eth"), ENOENT, "no route eth");
    FAILS(dp_option_text(fd, DP_OPT_SPIN, "1"), EINVAL, "option 1");
    dpstat_t st = {0};
    FAILS(dp_stat(fd, &st), EINVAL, "size is 0; set it to sizeof");
    FAILS(dp_stat(fd, NULL), EFAULT, "NULL");
    /* A program of tomorrow, with a larger struct: what is not known stays. */
    struct {
        dpstat_t known;
        long more;
    } later = {{0}, 42};
    later.known.size = sizeof later;
    CHECK(dp_stat(fd, &later.known) == 0 && later.known.size == sizeof(dpstat_t) && later.more == 42);
    CHECK(st.max_message == 0 && stat_of(fd).max_message == DP_MESSAGE_MAX && stat_of(fd).max_plain > 4096);
    errno = ENOENT;
    CHECK(strcmp(dp_errno_text(), strerror(ENOENT)) == 0 && errno == ENOENT);
    CHECK(dp_close(fd) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    numbers(argv[1]);
    descriptors();
    sending();
    receiving();
    options();
    puts("ok");
    return 0;
}
