// SPDX-License-Identifier: GPL-2.0
/* The tracepoints themselves, and what Rust calls where one of them is on. */
#include <linux/module.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

#include "glue.h"

void dp_glue_trace_send(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len)
{
	trace_dp_send(dpid, peer_nid, peer_dpid, len);
}

void dp_glue_trace_full(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len)
{
	trace_dp_full(dpid, peer_nid, peer_dpid, len);
}

void dp_glue_trace_receive(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len)
{
	trace_dp_receive(dpid, peer_nid, peer_dpid, len);
}
