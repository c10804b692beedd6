/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two sides of ether.c and across.c: what Rust calls there, and what they call in Rust. ether.rs and across.rs declare
 * the same.
 */
#ifndef DP_ETHER_H
#define DP_ETHER_H

#include <linux/netdevice.h>
#include <linux/types.h>

#include "abi/dp_ioctl.h"

struct iov_iter;
struct net;
struct sk_buff;

struct dp_ether {
	struct list_head ports;
	void *table;
};

struct dp_ether_port {
	struct packet_type type;
	struct net_device *dev;
	netdevice_tracker held;
	struct dp_ether *ether;
	struct list_head list;
	struct rcu_head rcu;
	/* One end of a pair of virtual interfaces: veth. (netkit has such pairs, too, and programs of its own in between.) */
	bool is_pair;
};

/* In Rust: Port in ether.rs. */
struct dp_ether_port_info {
	int index;
	u32 mtu;
	char name[DP_IFACE_NAME];
};

int dp_ether_register(void);
void dp_ether_unregister(void);

struct dp_ether *dp_ether_new(void);
void dp_ether_start(struct dp_ether *ether, void *table);
void dp_ether_stop(struct dp_ether *ether);

void dp_ether_free(struct dp_ether *ether);
int dp_ether_may_administer(const struct dp_ether *ether);
int dp_ether_attach(struct dp_ether *ether, const char *name);
int dp_ether_detach(struct dp_ether *ether, const char *name);
bool dp_ether_next(struct dp_ether *ether, int after, struct dp_ether_port_info *out);
int dp_ether_send(struct dp_ether *ether, int index, const u8 *mac, const u8 *header, struct iov_iter *from, size_t len);
int dp_ether_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type, struct net_device *orig);

/* In across.c. */
int dp_ether_send_across(struct dp_ether *ether, int index, const u8 *mac, void *message, size_t len);

const u8 *dp_ether_source(const struct sk_buff *skb);
size_t dp_ether_behind_header(const struct sk_buff *skb);
bool dp_ether_copy(const struct sk_buff *skb, size_t at, void *to, size_t len);
void dp_ether_free_frame(struct sk_buff *skb);

/* In glue.c: the one of a namespace. */
struct dp_ether *dp_glue_net_ether(struct net *net);

/* In ether.rs. Takes the frame over, whose data begins with our header. */
void dp_rust_frame(void *table, int index, struct sk_buff *skb);

/* In across.rs. */
void dp_rust_changed(void);

/* In across.rs. A message that came from `mac` in so many frames that never were. False: a page of it is missing. */
bool dp_rust_across(void *table, int index, const u8 *mac, void *message, unsigned int frames);

#endif
