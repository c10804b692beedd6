/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints, below /sys/kernel/tracing/events/dp: dp(4). trace.rs asks for each, at the cost of a no-op while it is off. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dp

#if !defined(DP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DP_TRACE_H

#include <linux/tracepoint.h>

/* One message between an endpoint of this namespace and another endpoint; node 0 is this one. */
DECLARE_EVENT_CLASS(dp_message,
	TP_PROTO(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len),
	TP_ARGS(dpid, peer_nid, peer_dpid, len),
	TP_STRUCT__entry(
		__field(u32, dpid)
		__field(u32, peer_nid)
		__field(u32, peer_dpid)
		__field(u64, len)
	),
	TP_fast_assign(
		__entry->dpid = dpid;
		__entry->peer_nid = peer_nid;
		__entry->peer_dpid = peer_dpid;
		__entry->len = len;
	),
	TP_printk("dpid=%u peer=%u/%u len=%llu", __entry->dpid, __entry->peer_nid, __entry->peer_dpid, __entry->len)
);

/* A message was accepted: it is in its receiver's pool, or on its way to another node. */
DEFINE_EVENT(dp_message, dp_send,
	TP_PROTO(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len),
	TP_ARGS(dpid, peer_nid, peer_dpid, len)
);

/* There was no room for it: its sender waits, or gets EAGAIN. */
DEFINE_EVENT(dp_message, dp_full,
	TP_PROTO(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len),
	TP_ARGS(dpid, peer_nid, peer_dpid, len)
);

/* read(2) took it. What is read in place is read without the kernel. */
DEFINE_EVENT(dp_message, dp_receive,
	TP_PROTO(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len),
	TP_ARGS(dpid, peer_nid, peer_dpid, len)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
