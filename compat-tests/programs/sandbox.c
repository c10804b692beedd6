/*
 * Processes that forbid themselves system calls: whatever is not in their list kills them. Modes:
 *   early      a filter by prctl(2), before the first connection comes
 *   live       a filter by seccomp(2), when the connection is well used; argument 1: one more connection after it
 *   strict     SECCOMP_MODE_STRICT
 *   clock      no filter, but reading the time stamp counter kills (PR_SET_TSC)
 *   epoll      a filter while the connection is in an epoll set; argument 1: edge-triggered
 *   rest       a filter while what the peer sent before it ended is unread
 *   child      a filter in a child that shares the connection, which the parent uses after that
 *   threads    a filter while another thread is blocked in a receive of its own connection
 *   asleep     a filter while another thread, which it does not bind, sleeps in an epoll set of its own connection; argument 1:
 *              for some seconds, instead of for ever
 *   listed     a filter that is there before the program starts, with what it and the shim call; then as question
 *   question   what only asks whether there are filters, and what fails, and PR_SET_NO_NEW_PRIVS
 */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* What the rest of this program calls, and libc with it; natively it is enough. */
static const int allowed[] = {SYS_read, SYS_write, SYS_recvfrom, SYS_sendto, SYS_accept4, SYS_close, SYS_ppoll,
                              SYS_epoll_pwait, SYS_exit_group, SYS_exit, SYS_futex, SYS_rt_sigprocmask, SYS_fstat,
                              SYS_newfstatat, SYS_lseek, SYS_brk, SYS_mmap, SYS_munmap, SYS_madvise, SYS_rt_sigreturn,
#ifdef __x86_64__
                              SYS_poll, SYS_epoll_wait, SYS_accept,
#endif
};
/* What a start and the mode "listed" call natively, and what the shim does. */
static const int listed[] = {SYS_execve, SYS_execveat, SYS_brk, SYS_faccessat, SYS_set_tid_address, SYS_set_robust_list,
                             SYS_exit, SYS_rseq, SYS_clock_nanosleep, SYS_renameat, SYS_rt_sigreturn, SYS_setitimer,
                             SYS_accept, SYS_restart_syscall, SYS_seccomp,
#ifdef __x86_64__
                             SYS_access, SYS_alarm, SYS_arch_prctl, SYS_poll, SYS_rename,
#endif
#define X(name) SYS_##name,
#include "shim_calls.h"
#undef X
};

static void forbid_all_but(const int *calls, size_t n, bool by_prctl) {
    struct sock_filter f[256] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    CHECK(n + 3 <= 256);
    for (size_t i = 0; i < n; i++)
        f[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], (uint8_t)(n - i), 0);
    f[n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)(n + 3), f};
    fflush(stdout);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (by_prctl)
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
    else
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

static void forbid(bool by_prctl) { forbid_all_but(allowed, sizeof allowed / sizeof allowed[0], by_prctl); }

/* Starts again, under a filter of somebody else's. */
static void start_listed(void) {
    if (!getenv("LISTED")) {
        MUST(setenv("LISTED", "1", 1));
        forbid_all_but(listed, sizeof listed / sizeof listed[0], true);
        MUST(execv(program_argv[0], program_argv));
    }
}

static void exchanges(int fd, int n) {
    for (int i = 0; i < n; i++)
        exchange(fd, 1 + (size_t)i * 37 % 4000, (uint64_t)i);
}

/* An exchange by read and write alone, blocking. */
static void plainly(int fd) {
    char out[64], in[64];
    for (int i = 0; i < 200; i++) {
        fill(out, sizeof out, (uint64_t)i);
        CHECK(write(fd, out, sizeof out) == (ssize_t)sizeof out);
        for (size_t at = 0; at < sizeof in;) {
            ssize_t n = read(fd, in + at, sizeof in - at);
            CHECK(n > 0);
            at += (size_t)n;
        }
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
}

static void strict(int fd) {
    fflush(stdout);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
    plainly(fd);
    static const char text[] = "strictly\n";
    CHECK(write(1, text, sizeof text - 1) > 0);
    syscall(SYS_exit, 0);
}

static void watched(int fd) {
    int set = MUST(epoll_create1(0));
    uint32_t edge = argument(0, 0) ? EPOLLET : 0;
    struct epoll_event event = {.events = EPOLLIN | edge, .data.u64 = 5}, got;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    char byte = 'b';
    set_nonblocking(fd, true);
    for (int i = 0; i < 200; i++) {
        if (i == 100)
            forbid(true);
        CHECK(write(fd, &byte, 1) == 1);
        CHECK(epoll_wait(set, &got, 1, 5000) == 1 && got.events == EPOLLIN && got.data.u64 == 5);
        CHECK(read(fd, &byte, 1) == 1 && byte == 'b');
        CHECK(read(fd, &byte, 1) == -1 && errno == EAGAIN);
    }
}

#define REST 20000

static void rest(int fd) {
    static char in[REST];
    ask(fd, REST);
    await_mark("sent");
    forbid(false);
    read_exact(fd, in, REST);
    CHECK(is_pattern(in, REST, 0));
    CHECK(read(fd, in, 1) == 0);
}

static void child(int fd) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        forbid(true);
        exchanges(fd, 100);
        _exit(0);
    }
    join_child(pid);
    exchanges(fd, 100);
}

static void *blocked(void *with) {
    char in[16];
    int fd = *(int *)with;
    for (int i = 0; i < 50; i++) {
        ssize_t n = recv(fd, in, sizeof in, MSG_WAITALL);
        CHECK(n == (ssize_t)sizeof in);
        CHECK(send(fd, in, sizeof in, 0) == (ssize_t)sizeof in);
    }
    return NULL;
}

/* Sleeps in a set until the peer sends when it did. */
static void *asleep(void *with) {
    int fd = *(int *)with, set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, got;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    CHECK(epoll_wait(set, &got, 1, argument(0, 0) ? 8000 : -1) == 1 && got.events == EPOLLIN && got.data.u64 == 5);
    uint64_t sent;
    CHECK(recv(fd, &sent, sizeof sent, MSG_DONTWAIT) == (ssize_t)sizeof sent);
    CHECK(now_ms() - sent < 500);
    return NULL;
}

static void question(int fd) {
    if (mode_is("question")) {
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    }
    for (long i = 0; i < argument(0, 100); i++)
        exchange(fd, 1 + (size_t)i * 7 % 200, (uint64_t)i);
    if (argument(0, 0)) {
        mark("server-done", 1);
        mark("client-done", 1);
        await_mark("looked");
    }
}

void server(void) {
    if (mode_is("listed"))
        start_listed();
    int listener = listen_here();
    if (mode_is("early"))
        forbid(true);
    int fd = accepted(listener), second;
    if (mode_is("live")) {
        forbid(false);
        exchanges(fd, 100);
        if (argument(0, 0)) {
            second = accepted(listener);
            exchanges(second, 100);
        }
    } else if (mode_is("early")) {
        exchanges(fd, 100);
    } else if (mode_is("strict")) {
        strict(fd);
    } else if (mode_is("clock")) {
#ifdef __x86_64__
        MUST(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0));
#endif
        plainly(fd);
    } else if (mode_is("epoll")) {
        watched(fd);
    } else if (mode_is("rest")) {
        rest(fd);
    } else if (mode_is("child")) {
        child(fd);
    } else if (mode_is("threads") || mode_is("asleep")) {
        second = accepted(listener);
        pthread_t other = start_thread(mode_is("asleep") ? asleep : blocked, &second);
        sleep_ms(mode_is("asleep") ? 200 : 50);
        forbid(true);
        exchanges(fd, 100);
        CHECK(write(fd, "now", 3) == 3);
        CHECK(pthread_join(other, NULL) == 0);
    } else if (mode_is("question") || mode_is("listed")) {
        question(fd);
    }
    say("served");
}

static void *echo(void *fd) {
    echo_until_eof(*(int *)fd);
    return NULL;
}

/* Echoes until the server says that it has forbidden itself everything else. */
static void echo_until_now(int fd) {
    char bytes[4096];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        CHECK(n > 0);
        if (n == 3 && memcmp(bytes, "now", 3) == 0)
            return;
        write_all(fd, bytes, (size_t)n);
    }
}

static void send_the_rest(int fd) {
    char out[REST], asked[8];
    read_exact(fd, asked, sizeof asked);
    for (size_t i = 0; i < REST; i++)
        out[i] = (char)pattern(i);
    for (size_t at = 0; at < REST; at += 1000)
        write_all(fd, out + at, 1000);
    MUST(close(fd));
    mark("sent", 1);
}

void client(void) {
    if (mode_is("listed"))
        start_listed();
    int fd = connected(), second;
    if (mode_is("live") && argument(0, 0)) {
        pthread_t other = start_thread(echo, &fd);
        second = connected();
        echo_until_eof(second);
        CHECK(pthread_join(other, NULL) == 0);
    } else if (mode_is("threads")) {
        second = connected();
        echo_until_now(fd);
        for (int i = 0; i < 50; i++)
            exchange(second, 16, (uint64_t)i);
    } else if (mode_is("asleep")) {
        second = connected();
        echo_until_now(fd);
        sleep_ms(1500);
        uint64_t sent = now_ms();
        write_all(second, &sent, sizeof sent);
    } else if (mode_is("rest")) {
        send_the_rest(fd);
    } else {
        echo_until_eof(fd);
    }
    say("EOF");
}
