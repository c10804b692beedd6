// SPDX-License-Identifier: GPL-2.0

//! Tracepoints. The kernel's own `declare_trace` is for those of its tree only; this is the same for ours: a no-op in
//! the code while a tracepoint is off.

use crate::abi::Addr;

macro_rules! tracepoint {
    ($(#[$doc:meta])* $name:ident, $point:ident, $call:ident) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(dpid: u32, peer: Addr, len: u64) {
            #[cfg(CONFIG_TRACEPOINTS)]
            {
                // A lock class in it is empty without lockdep, which C has no layout for.
                #[allow(improper_ctypes)]
                extern "C" {
                    static $point: kernel::bindings::tracepoint;
                    fn $call(dpid: u32, peer_nid: u32, peer_dpid: u32, len: u64);
                }
                // SAFETY: a tracepoint of this module's, whose key may be asked for at any time.
                if unsafe { kernel::jump_label::static_branch_unlikely!($point, kernel::bindings::tracepoint, key) } {
                    // SAFETY: takes numbers.
                    unsafe { $call(dpid, peer.nid, peer.dpid, len) };
                }
            }
            #[cfg(not(CONFIG_TRACEPOINTS))]
            let _ = (dpid, peer, len);
        }
    };
}

tracepoint! {
    /// A message was accepted.
    sent, __tracepoint_dp_send, dp_glue_trace_send
}
tracepoint! {
    /// There was no room for a message.
    full, __tracepoint_dp_full, dp_glue_trace_full
}
tracepoint! {
    /// read(2) took a message.
    received, __tracepoint_dp_receive, dp_glue_trace_receive
}
