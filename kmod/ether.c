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
#include <net/sch_generic.h>

#include "ether.h"

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
	/* One end of a pair of virtual interfaces (veth(4)). */
	bool is_pair;
};

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
static int dp_ether_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type, struct net_device *orig)
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

	/* Its address may be another one. */
	dp_rust_changed();
	if (event == NETDEV_UNREGISTER && ether) {
		port = dp_ether_find(ether, dev);
		if (port)
			dp_ether_detach_port(port);
	}
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

/* ---- sending across: to the other end of a pair of virtual interfaces, without frames ---- */

/* As dev_nit_active_rcu(): whether anybody sees what comes and goes. */
static bool dp_ether_is_watched(const struct net_device *dev)
{
	return !list_empty(&dev_net_rcu(dev)->ptype_all) || !list_empty(&dev->ptype_all);
}

/* Whether nobody sees, holds up or turns away what an interface sends. Under RCU. */
static bool dp_ether_sends_freely(const struct net_device *dev)
{
	const struct netdev_queue *queue = netdev_get_tx_queue(dev, 0);

#ifdef CONFIG_NET_XGRESS
	if (rcu_access_pointer(dev->tcx_egress))
		return false;
#endif
#ifdef CONFIG_NETFILTER_EGRESS
	if (rcu_access_pointer(dev->nf_hooks_egress))
		return false;
#endif
	return dev->real_num_tx_queues == 1 && qdisc_txq_has_no_queue(queue) && netif_running(dev) &&
	       netif_carrier_ok(dev) && !dp_ether_is_watched(dev);
}

static __always_inline bool dp_ether_has_xdp(const struct net_device *dev, enum bpf_xdp_mode mode)
{
	static_assert(__MAX_XDP_MODE == 3, "more modes than are asked for");

	return READ_ONCE(dev->xdp_state[mode].prog) || READ_ONCE(dev->xdp_state[mode].link);
}

/* Whether nobody sees, turns away or takes over what an interface receives, but for who listens to it alone. Under RCU. */
static bool dp_ether_receives_freely(struct net_device *dev)
{
#ifdef CONFIG_NET_XGRESS
	if (rcu_access_pointer(dev->tcx_ingress))
		return false;
#endif
#ifdef CONFIG_NETFILTER_INGRESS
	if (rcu_access_pointer(dev->nf_hooks_ingress))
		return false;
#endif
	return netif_running(dev) && !dp_ether_has_xdp(dev, XDP_MODE_SKB) && !dp_ether_has_xdp(dev, XDP_MODE_DRV) &&
	       !dp_ether_has_xdp(dev, XDP_MODE_HW) && !rcu_access_pointer(dev->rx_handler) &&
	       list_empty(&dev_net_rcu(dev)->ptype_specific) && !dp_ether_is_watched(dev);
}

/* Who listens to a kind of frames on an interface, if it is us and nobody else. Under RCU. */
static struct dp_ether_port *dp_ether_only_listener(struct net_device *dev)
{
	struct list_head *all = &dev->ptype_specific;
	struct packet_type *type = list_first_or_null_rcu(all, struct packet_type, list);

	if (!type || type->func != dp_ether_receive || rcu_dereference(list_next_rcu(&type->list)) != all)
		return NULL;
	return container_of(type, struct dp_ether_port, type);
}

/*
 * The port at which all frames to `mac` arrive that leave by another one, with nothing on their way that has a say. Under
 * RCU. The kernel's own bpf_redirect_peer() is as quick a way, and more so: it does not ask.
 */
static struct dp_ether_port *dp_ether_other_end(const struct dp_ether_port *port, const u8 *mac)
{
	struct net_device *dev = port->dev, *peer;

	if (!port->is_pair || !dp_ether_sends_freely(dev))
		return NULL;
	peer = dev->netdev_ops->ndo_get_peer_dev(dev);
	if (!peer || !(ether_addr_equal(mac, peer->dev_addr) || is_broadcast_ether_addr(mac)) ||
	    READ_ONCE(peer->mtu) < READ_ONCE(dev->mtu) || !dp_ether_receives_freely(peer))
		return NULL;
	return dp_ether_only_listener(peer);
}

/*
 * A message to the other end of such a pair, into its receiver's pool at once. Returns how many frames it would have been;
 * 0: it does not go this way; -EFAULT: a page of it is missing. If not positive, nothing was done.
 */
int dp_ether_send_across(struct dp_ether *ether, int index, const u8 *mac, void *message, size_t len)
{
	struct dp_ether_port *port, *other;
	int frames = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &ether->ports, list) {
		size_t most;

		if (port->dev->ifindex != index)
			continue;
		other = dp_ether_other_end(port, mac);
		most = min_t(size_t, READ_ONCE(port->dev->mtu), DP_FRAME_HEADER + U16_MAX);
		if (!other || most <= DP_FRAME_HEADER)
			break;
		most -= DP_FRAME_HEADER;
		frames = len <= most ? 1 : DIV_ROUND_UP(len, most);
		if (!dp_rust_across(other->ether->table, other->dev->ifindex, port->dev->dev_addr, message, frames))
			frames = -EFAULT;
		else
			dev_sw_netstats_tx_add(port->dev, frames, frames * (ETH_HLEN + DP_FRAME_HEADER) + len);
		break;
	}
	rcu_read_unlock();
	return frames;
}
