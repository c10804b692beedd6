/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * What the kernel driver and user space agree on, in C. abi.rs is the definition and explains each field; both
 * check the same numbers, and the module is compiled with both.
 */
#ifndef DP_IOCTL_H
#define DP_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>
#ifndef __KERNEL__
#include <assert.h>
#include <stddef.h>
#endif

#define DP_DEVICE "/dev/dp"

#define DP_IOC_VERSION 1u

#define DP_IOC_MESSAGE_MAX (16u << 20)
#define DP_DPID_MAX 65535u
#define DP_DPID_FREE 1024u
#define DP_NID_MAX 65534u
#define DP_NID_ALL 65535u
#define DP_POOL_MIN 4096u
#define DP_POOL_MAX (1u << 30)
#define DP_POOL_DEFAULT (128u << 10)

#define DP_TOKEN_ALIGN 64u
#define DP_TOKEN_EMPTY 0u
#define DP_TOKEN_MESSAGE 1u
#define DP_TOKEN_VOID 2u
#define DP_TOKEN_DONE 3u
#define DP_TOKEN_OUT_OF_LINE 4u
#define DP_TOKEN_IMMEDIATE 5u
#define DP_TOKEN_OUT_OF_LINE_IMMEDIATE 6u
#define DP_IMMEDIATE 8u

/* `word`: the length in the lower half, the state in the upper. */
struct dp_token {
	__u64 word;
	__u32 nid;
	__u32 dpid;
};

struct dp_control {
	__u64 taken;
	__u64 pad0[7];
	__u64 released;
	__u64 pad1[7];
	__u32 wanted;
	__u32 closed;
	__u32 pad2[14];
};

#define DP_MAP_CONTROL 0
#define DP_MAP_RING (1 << 16)
#define DP_MAP_OUT_OF_LINE (1ull << 40)

struct dp_ioc_open {
	__u32 dpid;
	__u32 version;
	__u64 pool;
};

struct dp_ioc_addr {
	__u32 nid;
	__u32 dpid;
};

struct dp_ioc_sendto {
	__u64 message;
	__u64 len;
	struct dp_ioc_addr to;
	__u32 flags;
	__u32 pad0;
};

/* `pieces`: an array of struct iovec. */
struct dp_ioc_sendmsg {
	__u64 pieces;
	__u32 count;
	__u32 flags;
	struct dp_ioc_addr to;
	__u64 immediate;
};

/* The command area of DP_URING_SENDTO. */
struct dp_uring_sendto {
	struct dp_ioc_addr to;
	__u32 flags;
	__u32 pad0;
};

#define DP_SEND_NOWAIT 1u
#define DP_SEND_TARGET 2u
#define DP_SEND_IMMEDIATE 4u
#define DP_PIECES_MAX 1024u

struct dp_ioc_pool {
	__u64 size;
	__u64 ring;
	__u64 taken;
};

struct dp_ioc_stat {
	__u32 size;
	__u32 dpid;
	__u32 target_nid;
	__u32 target_dpid;
	__u64 sent;
	__u64 sent_bytes;
	__u64 received;
	__u64 received_bytes;
	__u64 full;
	__u64 corrupt;
	__u64 next_len;
	__u64 pool;
	__u64 pool_left;
	__u64 memory;
	__u64 max_message;
	__u32 in_place;
	__u32 pad0;
	__u64 serial;
	__u64 backlog;
	__u64 lost;
};

#define DP_IFACE_NAME 16

/* The next three: CAP_NET_ADMIN, and no endpoint needed. */
struct dp_ioc_node {
	__u32 nid;
	__u32 pad0;
};

struct dp_ioc_iface {
	char name[DP_IFACE_NAME];
	__u32 flags;
	__u32 pad0;
};

struct dp_ioc_route {
	__u32 nid;
	__u32 flags;
	char name[DP_IFACE_NAME];
	__u8 mac[6];
	__u8 pad0[2];
};

#define DP_REMOVE 1u

#define DP_IOC_LETTER 0xBD
#define DP_IOC_OPEN _IOWR(DP_IOC_LETTER, 1, struct dp_ioc_open)
#define DP_IOC_TARGET _IOW(DP_IOC_LETTER, 2, struct dp_ioc_addr)
#define DP_IOC_SENDTO _IOW(DP_IOC_LETTER, 3, struct dp_ioc_sendto)
#define DP_IOC_PEER _IOR(DP_IOC_LETTER, 4, struct dp_ioc_addr)
#define DP_IOC_POOL _IOWR(DP_IOC_LETTER, 5, struct dp_ioc_pool)
#define DP_IOC_FSYNC _IO(DP_IOC_LETTER, 6)
#define DP_IOC_STAT _IOWR(DP_IOC_LETTER, 7, struct dp_ioc_stat)

#define DP_IOC_NODE _IOW(DP_IOC_LETTER, 8, struct dp_ioc_node)
#define DP_IOC_ATTACH_IF _IOW(DP_IOC_LETTER, 9, struct dp_ioc_iface)
#define DP_IOC_NART _IOW(DP_IOC_LETTER, 10, struct dp_ioc_route)
#define DP_IOC_SENDMSG _IOW(DP_IOC_LETTER, 11, struct dp_ioc_sendmsg)

/* What is sent to other nodes: frames of this EtherType, with a header of so many bytes; frame.rs draws it. */
#define DP_ETHER_TYPE 0x88b5
#define DP_FRAME_HEADER 32
#define DP_REMOTE_MAX (64u << 10)

/* `cmd_op` of IORING_OP_URING_CMD. */
#define DP_URING_SENDTO _IOW(DP_IOC_LETTER, 3, struct dp_uring_sendto)

static_assert(sizeof(struct dp_token) == 16 && offsetof(struct dp_token, nid) == 8 &&
	      offsetof(struct dp_token, dpid) == 12, "dp_token");
static_assert(sizeof(struct dp_control) == 192 && offsetof(struct dp_control, released) == 64 &&
	      offsetof(struct dp_control, wanted) == 128 && offsetof(struct dp_control, closed) == 132,
	      "dp_control");
static_assert(sizeof(struct dp_ioc_open) == 16 && offsetof(struct dp_ioc_open, pool) == 8, "dp_ioc_open");
static_assert(sizeof(struct dp_ioc_addr) == 8 && offsetof(struct dp_ioc_addr, dpid) == 4, "dp_ioc_addr");
static_assert(sizeof(struct dp_ioc_sendto) == 32 && offsetof(struct dp_ioc_sendto, to) == 16, "dp_ioc_sendto");
static_assert(sizeof(struct dp_ioc_sendmsg) == 32 && offsetof(struct dp_ioc_sendmsg, to) == 16 &&
	      offsetof(struct dp_ioc_sendmsg, immediate) == 24 && DP_IOC_SENDMSG == 0x4020bd0b, "dp_ioc_sendmsg");
static_assert(sizeof(struct dp_uring_sendto) == 16 && offsetof(struct dp_uring_sendto, flags) == 8, "dp_uring_sendto");
static_assert(sizeof(struct dp_ioc_pool) == 24 && offsetof(struct dp_ioc_pool, taken) == 16, "dp_ioc_pool");
static_assert(sizeof(struct dp_ioc_stat) == 136 && offsetof(struct dp_ioc_stat, sent) == 16 &&
	      offsetof(struct dp_ioc_stat, next_len) == 64 &&
	      offsetof(struct dp_ioc_stat, in_place) == 104 && offsetof(struct dp_ioc_stat, lost) == 128, "dp_ioc_stat");
static_assert(DP_IOC_OPEN == 0xc010bd01 && DP_IOC_TARGET == 0x4008bd02 && DP_IOC_SENDTO == 0x4020bd03 &&
	      DP_IOC_PEER == 0x8008bd04 && DP_IOC_POOL == 0xc018bd05 && DP_IOC_FSYNC == 0xbd06 &&
	      DP_IOC_STAT == 0xc088bd07, "ioctl numbers");
static_assert(sizeof(struct dp_ioc_node) == 8 && sizeof(struct dp_ioc_iface) == 24 &&
	      offsetof(struct dp_ioc_iface, flags) == 16, "dp_ioc_node, dp_ioc_iface");
static_assert(sizeof(struct dp_ioc_route) == 32 && offsetof(struct dp_ioc_route, name) == 8 &&
	      offsetof(struct dp_ioc_route, mac) == 24, "dp_ioc_route");
static_assert(DP_IOC_NODE == 0x4008bd08 && DP_IOC_ATTACH_IF == 0x4018bd09 && DP_IOC_NART == 0x4020bd0a,
	      "ioctl numbers of the network");
static_assert(DP_URING_SENDTO == 0x4010bd03, "io_uring's commands");

#endif
