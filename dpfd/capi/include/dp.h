/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Directed Point: communication endpoints that are Unix file descriptors. Link with -ldp.
 *
 * An endpoint has a number on its node, its DPID, and a target; what is written to it is one message to the target.
 * read(2), write(2), poll(2), select(2), epoll(7), fcntl(2), dup(2) and close(2) work on the descriptor. The calls
 * here are the quick way: dp_write() puts a message straight into the receiver's pool, dp_read() shows it there.
 * Messages on one edge arrive whole and in order, and none is dropped.
 *
 * Every call that fails returns -1 and sets errno; dp_errno_text() has a sentence. No call ends the program, none
 * is async-signal-safe. Threads may share an endpoint. Pages dp_open(3) to dp_errno_text(3) tell all.
 */
#ifndef DP_H
#define DP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest message of dp_write(), bytes. */
#define DP_MESSAGE_MAX (16 << 20)

/* Endpoint `dpid`, 1 to 65535, on this node; 0: any free one. Below 1024 CAP_NET_BIND_SERVICE is needed. The
 * descriptor blocks and stays open over exec, as with open(2). The kernel driver serves it where /dev/dp can be opened,
 * else this library does; then the endpoint itself ends with the program that opened it, by exec too. DP_DRIVER=user or
 * kernel in the environment decides otherwise.
 * EINVAL, EADDRINUSE, EACCES, ENFILE, EMFILE, ENOENT, ENOMEM. */
int dp_open(int dpid);

/* The default destination: node `nid` (0: this one), endpoint `dpid`. It need not exist yet.
 * EINVAL, EHOSTUNREACH, EACCES (DP_GRAPH), EOPNOTSUPP (another process's endpoint), EAGAIN (see dp_target(3)). */
int dp_target(int fd, int nid, int dpid);

/* Sends one message of 0 to DP_MESSAGE_MAX bytes to the target; returns `len`. No system call, unless the receiver
 * sleeps; with the kernel driver one. Waits while there is no room or no receiver; with O_NONBLOCK: EAGAIN, and POLLOUT later.
 * EDESTADDRREQ, EMSGSIZE, EAGAIN, EINTR, EACCES, ESHUTDOWN. */
ssize_t dp_write(int fd, const void *msg, size_t len);

/* The same to another destination. Also EINVAL, EHOSTUNREACH, EOPNOTSUPP. */
ssize_t dp_sendto(int fd, const void *msg, size_t len, int nid, int dpid);

/* Sends `iovcnt` pieces of memory, 0 to 1024, one behind the other as one message to the target; returns its length. What
 * dp_write() does with all of them in a row, at the same cost: nothing is put together first. Errors as dp_write(). */
ssize_t dp_writev(int fd, const struct iovec *iov, int iovcnt);

/* There is an immediate. */
#define DP_MSG_IMMEDIATE 1u
/* To `nid` and `dpid`; without it, to the target. */
#define DP_MSG_TO 2u

/* By `route`; without it, as all messages of the endpoint. */
#define DP_MSG_ROUTE 4u

/* A message for dp_sendmsg(). Fields may be added at the end. */
typedef struct dpmsg {
    size_t size;             /* sizeof(dpmsg_t) */
    const struct iovec *iov; /* its pieces */
    int iovcnt;              /* how many, 0 to 1024 */
    unsigned flags;          /* DP_MSG_IMMEDIATE, DP_MSG_TO, DP_MSG_ROUTE, together or 0 */
    int nid;                 /* with DP_MSG_TO: the node, 0: this one */
    int dpid;                /* and the endpoint */
    uint64_t immediate;      /* with DP_MSG_IMMEDIATE: 8 bytes that travel beside the message */
    const char *route;       /* with DP_MSG_ROUTE: by which it goes to another node, such as "udp" or "eth" */
} dpmsg_t;

/* Sends one message of several pieces, to any destination, with an immediate or without. As dp_writev() and dp_sendto();
 * also EPROTONOSUPPORT: the receiver's library, the kernel's module, or a route to another node knows no immediates;
 * ENOENT: the gateway has no such route, or there is none. */
ssize_t dp_sendmsg(int fd, const dpmsg_t *msg);

/* The next message, in place: its length, and in `*address` its first byte (not if `address` is NULL). It stays
 * there, to be read only, until dp_fsync() releases it; until then its sender has that much less room. 0 is an
 * empty message, never an end. With O_NONBLOCK and nothing there: EAGAIN.
 * The first call, or dp_mmap(), moves the endpoint to its pool for good: use dp_read(), no longer read(2). */
ssize_t dp_read(int fd, char **address);

/* The next message, copied to `buf` as far as `len` bytes; its whole length: if that is more, the rest is gone. Who sent
 * it in `*nid` and `*dpid`, as dp_peer() does, where these are not NULL. Nothing stays to be released: for short messages
 * this is the quickest. Waits, and moves the endpoint to its pool, as dp_read() does. */
ssize_t dp_recvfrom(int fd, void *buf, size_t len, int *nid, int *dpid);

/* Who sent the message that dp_read() or dp_recvfrom() returned last. `*nid` 0: this node. `*dpid` 0: nobody can tell. */
int dp_peer(int fd, int *nid, int *dpid);

/* Whether an immediate came with the message that dp_read() or dp_recvfrom() returned last: 1, and stored at `immediate`
 * unless that is NULL; or 0. read(2) shows nothing of it. */
int dp_immediate(int fd, uint64_t *immediate);

/* Releases the `n` oldest messages that dp_read() returned; EINVAL if there are not so many. */
int dp_fsync(int fd, int n);

/* A pool for dp_mmap(). */
typedef struct dpmmap {
    size_t size;   /* in: bytes, 4096 to 1073741824, 0: as it is, or 262144 that grow; out: bytes */
    void *address; /* out: NULL where the pool has no one address, as with the user-space driver */
} dpmmap_t;

/* Gives the endpoint its pool: a budget for all its senders. EBUSY: it has one of another size. EINVAL, ENOMEM. */
int dp_mmap(int fd, dpmmap_t *tbp);

/* Closes the descriptor. The last one of an endpoint takes the pool along: addresses that dp_read() gave end. */
int dp_close(int fd);

/* How long dp_read() looks before it sleeps, at most: ns, 0 to 1000000000; 50000. 0: not at all. */
#define DP_OPT_SPIN 1
/* 1: calls fail with EAGAIN instead of waiting; 0, the default: they wait. The same as O_NONBLOCK. */
#define DP_OPT_NONBLOCK 2
/* 0, the default: nothing is lost. 1: messages to other nodes go raw: they wait for nobody, and what is lost is counted. It cannot
 * be turned off again. EOPNOTSUPP: other values, and 0 where it is 1; another process
 * opened the endpoint. */
#define DP_OPT_RELIABILITY 3
/* 1: a write(2) is never overtaken by a dp_write() after it; each dp_write() costs a system call then. */
#define DP_OPT_ORDER 4

/* Sets an option. EINVAL: there is no such option, or not with this value. */
int dp_option(int fd, int option, long value);

/* By which route messages to endpoints of other nodes go, as long as it works: one of the gateway's, such as "udp" or "eth"; NULL,
 * the default: the one that the graph says. ENOENT: the gateway has no such route, or there is none. */
#define DP_OPT_ROUTE 5

/* Sets an option whose value is a text. EINVAL: there is no such option. */
int dp_option_text(int fd, int option, const char *value);

/* Limits and counters. Fields may be added at the end: set `size` to sizeof(dpstat_t) before each call. */
typedef struct dpstat {
    size_t size;             /* in: sizeof(dpstat_t); out: bytes that were filled in */
    uint32_t dpid;           /* the endpoint's number; 0: not known */
    uint32_t own;            /* 1: this process opened it; 0: another one, and most fields are 0 */
    uint32_t target_nid;     /* the target's node; 0: this one */
    uint32_t target_dpid;    /* the target; 0: none */
    uint64_t sent;           /* messages handed to their receivers */
    uint64_t sent_bytes;
    uint64_t received;       /* messages that dp_read() or dp_recvfrom() returned */
    uint64_t received_bytes;
    uint64_t loaned;           /* messages that dp_read() returned and dp_fsync() did not release */
    int64_t next_len;        /* bytes of the next message in the pool; -1: none is there */
    uint64_t pool;           /* bytes; 0: none yet */
    uint64_t pool_left;      /* bytes of it that no sender has */
    uint64_t edges;          /* senders with an edge into the pool */
    uint64_t full;           /* times a message found no room on its direct way */
    uint64_t sleeps;         /* times dp_read() slept */
    uint64_t corrupt;        /* edges given up, because their senders wrote nonsense into them */
    uint64_t max_message;    /* longest message for dp_write(), bytes */
    uint64_t max_plain;      /* longest message for write(2), and to receivers without a pool, bytes */
    uint64_t spin_ns;        /* DP_OPT_SPIN */
} dpstat_t;

/* Fills in `*stat`. EINVAL: `size` is none. */
int dp_stat(int fd, dpstat_t *stat);

/* A sentence about the last call that failed in this thread: what it is about, and a way out. If errno is no longer
 * that call's, strerror(3)'s words for errno. Never NULL; valid until the thread's next call of this function. */
const char *dp_errno_text(void);

#ifdef __cplusplus
}
#endif

#endif
