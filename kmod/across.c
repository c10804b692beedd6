// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to the other end of a pair of virtual interfaces, without frames: whether one may go that way. What it means is
 * Rust's business (across.rs).
 */
#include <linux/etherdevice.h>
#include <linux/rculist.h>
#include <net/dsa.h>
#include <net/sch_generic.h>

#include "ether.h"

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
	return dev->real_num_tx_queues == 1 && qdisc_txq_has_no_queue(queue) && !netif_xmit_stopped(queue) &&
	       netif_running(dev) && netif_carrier_ok(dev) && !dp_ether_is_watched(dev);
}

static __always_inline bool dp_ether_has_xdp(const struct net_device *dev, enum bpf_xdp_mode mode)
{
	static_assert(__MAX_XDP_MODE == 3, "more modes than are asked for");

	return READ_ONCE(dev->xdp_state[mode].prog) || READ_ONCE(dev->xdp_state[mode].link);
}

/* Whether nobody sees, turns away or takes over what an interface receives, but for who asked for such frames. Under RCU. */
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
	       !netdev_uses_dsa(dev) && !dp_ether_is_watched(dev);
}

/*
 * Who asked for our frames from an interface, if it is us and nobody else. Under RCU. What asks for them from all interfaces
 * of all namespaces is another module, and not to be seen from here.
 */
static struct dp_ether_port *dp_ether_only_listener(struct net_device *dev)
{
	struct dp_ether_port *port = NULL;
	struct packet_type *type;

	list_for_each_entry_rcu(type, &dev_net_rcu(dev)->ptype_specific, list)
		if (type->type == htons(DP_ETHER_TYPE))
			return NULL;
	list_for_each_entry_rcu(type, &dev->ptype_specific, list) {
		if (type->type != htons(DP_ETHER_TYPE))
			continue;
		if (port || type->func != dp_ether_receive)
			return NULL;
		port = container_of(type, struct dp_ether_port, type);
	}
	return port;
}

/*
 * The port at which all frames to `mac` arrive that leave by another one, with nothing on their way that has a say. Under
 * RCU. bpf_redirect_peer() is such a way, too, for whoever wrote the program; here nobody did, so all are asked.
 */
static struct dp_ether_port *dp_ether_other_end(const struct dp_ether_port *port, const u8 *mac)
{
	struct net_device *dev = port->dev, *peer;

	if (!port->is_pair || !dp_ether_sends_freely(dev))
		return NULL;
	peer = dev->netdev_ops->ndo_get_peer_dev(dev);
	/* Of groups there is only the one of all. */
	if (!peer || !(ether_addr_equal_unaligned(mac, peer->dev_addr) || is_multicast_ether_addr(mac)) ||
	    READ_ONCE(peer->mtu) < READ_ONCE(dev->mtu) || !dp_ether_receives_freely(peer))
		return NULL;
	return dp_ether_only_listener(peer);
}

/*
 * A message to the other end of such a pair, into its receiver's pool at once. Returns how many frames it would have been;
 * 0: it does not go this way; -EFAULT: a page of it is missing. If not positive, nothing was sent.
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
		if (!dp_rust_across(other->ether->table, other->dev->ifindex, port->dev->dev_addr, message, frames)) {
			frames = -EFAULT;
			break;
		}
		/* A CPU's counters, which softirqs change, too. */
		local_bh_disable();
		dev_sw_netstats_tx_add(port->dev, frames, frames * (ETH_HLEN + DP_FRAME_HEADER) + len);
		local_bh_enable();
		break;
	}
	rcu_read_unlock();
	return frames;
}
