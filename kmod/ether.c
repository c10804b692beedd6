// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: interfaces that are ours to hear, frames sent, frames received. What they mean is Rust's business (ether.rs).
 *
 * Locks: the list of ports changes under the RTNL, and is read under RCU. A port goes before its namespace's table:
 * once it is off the list of packet types, and a grace period is over, no frame is on its way up any more.
 */
#include <linux/capability.h>
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/nsproxy.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/rtnetlink.h>

#include "ether.h"

struct dp_ether *dp_ether_new(void)
{
	struct dp_ether *ether = kzalloc(sizeof(*ether), GFP_KERNEL);

	if (ether)
		INIT_LIST_HEAD(&ether->ports);
	return ether;
}

void dp_ether_free(struct dp_ether *ether)
{
	kfree(ether);
}

void dp_ether_start(struct dp_ether *ether, void *table)
{
	ether->table = table;
}

/* ---- receiving ---- */

/* In softirq. What is above us is in order: one frame of a sender after the other. */
int dp_ether_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type, struct net_device *orig)
{
	struct dp_ether_port *port = container_of(type, struct dp_ether_port, type);

	/* Not to us: it is heard only because somebody listens to everything. */
	if (skb->pkt_type == PACKET_OTHERHOST)
		goto drop;
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return NET_RX_DROP;
	/* Too short a frame is counted there. */
	dp_rust_frame(port->ether->table, dev->ifindex, skb);
	return NET_RX_SUCCESS;
drop:
	kfree_skb(skb);
	return NET_RX_DROP;
}

/* Six bytes. */
const u8 *dp_ether_source(const struct sk_buff *skb)
{
	return eth_hdr(skb)->h_source;
}

/* Bytes behind our header; SIZE_MAX if not even that is there. */
size_t dp_ether_behind_header(const struct sk_buff *skb)
{
	return skb->len < DP_FRAME_HEADER ? SIZE_MAX : skb->len - DP_FRAME_HEADER;
}

bool dp_ether_copy(const struct sk_buff *skb, size_t at, void *to, size_t len)
{
	return !skb_copy_bits(skb, at, to, len);
}

void dp_ether_free_frame(struct sk_buff *skb)
{
	consume_skb(skb);
}

/* ---- interfaces ---- */

/* Whether the calling process may change the network of this namespace, which must be its own. */
int dp_ether_may_administer(const struct dp_ether *ether)
{
	struct net *net = current->nsproxy->net_ns;

	if (dp_glue_net_ether(net) != ether)
		return -EXDEV;
	return ns_capable(net->user_ns, CAP_NET_ADMIN) ? 0 : -EPERM;
}

static struct dp_ether_port *dp_ether_find(struct dp_ether *ether, const struct net_device *dev)
{
	struct dp_ether_port *port;

	list_for_each_entry(port, &ether->ports, list)
		if (port->dev == dev)
			return port;
	return NULL;
}

static int dp_ether_attach_device(struct dp_ether *ether, struct net_device *dev)
{
	struct dp_ether_port *port;

	if (dev->type != ARPHRD_ETHER)
		return -EPROTOTYPE;
	if (dp_ether_find(ether, dev))
		return -EEXIST;
	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return -ENOMEM;
	port->ether = ether;
	port->dev = dev;
	port->is_pair = dev->rtnl_link_ops && !strcmp(dev->rtnl_link_ops->kind, "veth") &&
			dev->netdev_ops->ndo_get_peer_dev && dev->pcpu_stat_type == NETDEV_PCPU_STAT_TSTATS;
	netdev_hold(dev, &port->held, GFP_KERNEL);
	port->type.type = htons(DP_ETHER_TYPE);
	port->type.dev = dev;
	port->type.func = dp_ether_receive;
	list_add_tail_rcu(&port->list, &ether->ports);
	dev_add_pack(&port->type);
	return 0;
}

static void dp_ether_detach_port(struct dp_ether_port *port)
{
	list_del_rcu(&port->list);
	/* Waits for the frames that are on their way up. */
	dev_remove_pack(&port->type);
	netdev_put(port->dev, &port->held);
	kfree_rcu(port, rcu);
}

/* `name` ends with a zero. */
int dp_ether_attach(struct dp_ether *ether, const char *name)
{
	struct net_device *dev;
	int result = -ENODEV;

	rtnl_lock();
	dev = __dev_get_by_name(current->nsproxy->net_ns, name);
	if (dev)
		result = dp_ether_attach_device(ether, dev);
	rtnl_unlock();
	return result;
}

int dp_ether_detach(struct dp_ether *ether, const char *name)
{
	struct dp_ether_port *port;
	int result = -ENODEV;

	rtnl_lock();
	list_for_each_entry(port, &ether->ports, list) {
		if (strncmp(port->dev->name, name, IFNAMSIZ) == 0) {
			dp_ether_detach_port(port);
			result = 0;
			break;
		}
	}
	rtnl_unlock();
	return result;
}

/* The namespace goes. */
void dp_ether_stop(struct dp_ether *ether)
{
	struct dp_ether_port *port, *next;

	rtnl_lock();
	list_for_each_entry_safe(port, next, &ether->ports, list)
		dp_ether_detach_port(port);
	rtnl_unlock();
}

/* The port with the next higher index. */
bool dp_ether_next(struct dp_ether *ether, int after, struct dp_ether_port_info *out)
{
	struct dp_ether_port *port;
	bool found = false;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &ether->ports, list) {
		const struct net_device *dev = port->dev;

		if (dev->ifindex <= after || (found && dev->ifindex > out->index))
			continue;
		found = true;
		out->index = dev->ifindex;
		out->mtu = READ_ONCE(dev->mtu);
		strscpy_pad(out->name, dev->name, sizeof(out->name));
	}
	rcu_read_unlock();
	return found;
}

/* An interface goes, or goes to another namespace: so do its routes' frames. */
static int dp_ether_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);
	struct dp_ether *ether = dp_glue_net_ether(dev_net(dev));
	struct dp_ether_port *port;

	if (event == NETDEV_UNREGISTER && ether) {
		port = dp_ether_find(ether, dev);
		if (port)
			dp_ether_detach_port(port);
	}
	/* Its address, if nothing else, may be another one. */
	dp_rust_changed();
	return NOTIFY_DONE;
}

static struct notifier_block dp_ether_events = {
	.notifier_call = dp_ether_event,
};

int dp_ether_register(void)
{
	return register_netdevice_notifier(&dp_ether_events);
}

void dp_ether_unregister(void)
{
	unregister_netdevice_notifier(&dp_ether_events);
}

/* ---- sending ---- */

static struct net_device *dp_ether_hold(struct dp_ether *ether, int index, netdevice_tracker *held)
{
	struct dp_ether_port *port;
	struct net_device *dev = NULL;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &ether->ports, list) {
		if (port->dev->ifindex == index) {
			dev = port->dev;
			netdev_hold(dev, held, GFP_ATOMIC);
			break;
		}
	}
	rcu_read_unlock();
	return dev;
}

static int dp_ether_transmit(struct net_device *dev, const u8 *mac, const u8 *header, struct iov_iter *from, size_t len)
{
	size_t room = LL_RESERVED_SPACE(dev);
	struct sk_buff *skb;
	int result;

	if (!netif_running(dev) || !netif_carrier_ok(dev))
		return -ENETDOWN;
	if (DP_FRAME_HEADER + len > READ_ONCE(dev->mtu))
		return -EMSGSIZE;
	skb = alloc_skb(room + DP_FRAME_HEADER + len + dev->needed_tailroom, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	skb_reserve(skb, room);
	skb_reset_network_header(skb);
	skb_put_data(skb, header, DP_FRAME_HEADER);
	if (len && !copy_from_iter_full(skb_put(skb, len), len, from)) {
		kfree_skb(skb);
		return -EFAULT;
	}
	skb->dev = dev;
	skb->protocol = htons(DP_ETHER_TYPE);
	if (dev_hard_header(skb, dev, DP_ETHER_TYPE, mac, dev->dev_addr, skb->len) < 0) {
		kfree_skb(skb);
		return -EINVAL;
	}
	result = dev_queue_xmit(skb);
	return result > 0 ? net_xmit_errno(result) : result;
}

/* One frame, by an attached interface. It takes `len` bytes from `from`, or none. */
int dp_ether_send(struct dp_ether *ether, int index, const u8 *mac, const u8 *header, struct iov_iter *from, size_t len)
{
	netdevice_tracker held;
	struct net_device *dev = dp_ether_hold(ether, index, &held);
	int result;

	if (!dev)
		return -ENODEV;
	result = dp_ether_transmit(dev, mac, header, from, len);
	netdev_put(dev, &held);
	return result;
}
