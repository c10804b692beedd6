// SPDX-License-Identifier: GPL-2.0

//! The kernel driver of Directed Point: /dev/dp, whose open files are endpoints.
//!
//! | file | what |
//! |---|---|
//! | `abi/` | numbers and layouts, shared with user space |
//! | `file.rs`, `ioctl.rs` | the calls on an open file |
//! | `uring.rs` | the command of io_uring |
//! | `endpoint.rs`, `away.rs` | sending, receiving, and what poll(2) says; sending to other nodes |
//! | `sender.rs`, `source.rs`, `sink.rs` | what a sender remembers; what is copied from, and to |
//! | `pool.rs`, `positions.rs`, `reading.rs` | where messages wait: reserving, publishing, releasing; taking by read(2) |
//! | `ring.rs`, `word.rs`, `memory.rs`, `shape.rs` | the pool's memory as tokens, as pages, and how it is exchanged |
//! | `table.rs`, `backlog.rs` | the endpoints of a network namespace by number; messages for numbers without one |
//! | `proc.rs` | /proc/net/dp, which lists them |
//! | `network.rs`, `assembly.rs`, `abi/frame.rs` | other nodes: where they are, messages as frames, /proc/net/dp_ether |
//! | `ether.c`, `ether.h`, `ether.rs` | attached interfaces, and frames by them |
//! | `across.c`, `across.rs` | nodes of one kernel that a pair of interfaces joins: messages without frames |
//! | `sleeper.rs`, `wait.rs` | how readers and senders sleep: one alone, many in queues, and relays between queues |
//! | `later.rs` | what happens later by itself |
//! | `trace.h`, `trace.c`, `trace.rs` | tracepoints |
//! | `glue.c`, `copy.c`, `sleeper.c`, `glue.h`, `glue.rs` | what Rust cannot say to the kernel |
//!
//! # Locks
//!
//! In the order in which they are taken; the first three may sleep, under the others nothing sleeps, allocates or
//! waits for a page of a program's: what is copied with the fourth held is copied only if it is there.
//!
//! 1. `Endpoint::tx`, one sender at a time in an endpoint
//! 2. `Table::map`, the numbers of a namespace
//! 3. `Pool::shape`, one exchange of a pool's memory at a time
//! 4. `Pool::inner`, the positions
//! 5. the queue of those who wait for room (`Pool::room`, `Table::arrivals`)
//! 6. the queue of readers (`Pool::readers`), and behind it whatever poll(2)'s callers have
//!
//! `Network::nart`, `Network::reach` and `Network::assembly` are taken where 4 is, none of them with another of all those.
//!
//! A sender copies its message with `Endpoint::tx` held at most, and without waiting for a page; to a node of the same
//! kernel in an RCU section, in which nothing sleeps either.

use kernel::{bindings, error::to_result, prelude::*, types::Opaque};

#[path = "abi/abi.rs"]
pub mod abi;
mod across;
mod assembly;
mod away;
mod backlog;
mod endpoint;
mod ether;
mod file;
#[path = "abi/frame.rs"]
pub mod frame;
mod glue;
mod ioctl;
mod later;
mod memory;
mod network;
mod pool;
mod positions;
mod proc;
mod reading;
mod ring;
mod sender;
mod shape;
mod sink;
mod sleeper;
mod softlock;
mod source;
mod table;
mod trace;
mod uring;
mod wait;
mod word;

module! {
    type: Driver,
    name: "dp",
    authors: ["Directed Point"],
    description: "Directed Point: communication endpoints that are file descriptors",
    license: "GPL",
    params: {
        nid: u32 {
            default: 1,
            description: "this node's number, 1 to 65534",
        },
        user_mib: u32 {
            default: 64,
            description: "MiB of pools that each user has before RLIMIT_MEMLOCK counts",
        },
    },
}

#[cfg(not(kernel_7_3))]
const OWNER: &ThisModule = &THIS_MODULE;
#[cfg(kernel_7_3)]
const OWNER: &ThisModule = kernel::module::this_module::<LocalModule>();

/// This node's number.
fn own_nid() -> u32 {
    #[cfg(not(kernel_7_3))]
    return *module_parameters::nid.value();
    #[cfg(kernel_7_3)]
    return module_parameters::nid.value();
}

/// What pools of one user need no RLIMIT_MEMLOCK.
fn free_mib() -> u32 {
    #[cfg(not(kernel_7_3))]
    return *module_parameters::user_mib.value();
    #[cfg(kernel_7_3)]
    return module_parameters::user_mib.value();
}

#[pin_data(PinnedDrop)]
struct Driver {
    #[pin]
    device: Opaque<bindings::miscdevice>,
}

// SAFETY: the device is only registered and taken back, which any thread may do.
unsafe impl Send for Driver {}
// SAFETY: nothing can be done with a shared reference.
unsafe impl Sync for Driver {}

impl kernel::InPlaceModule for Driver {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            device <- Opaque::try_ffi_init(|slot| {
                if own_nid() == 0 || own_nid() > abi::NID_MAX {
                    pr_err!("nid={}: a node's number is 1 to {}\n", own_nid(), abi::NID_MAX);
                    return Err(EINVAL);
                }
                if !glue::constants_are_right() {
                    pr_err!("built with other numbers than this kernel's\n");
                    return Err(EINVAL);
                }
                // SAFETY: before anybody has an endpoint.
                unsafe { glue::dp_glue_sleepers_start() };
                // SAFETY: undone in drop, or below.
                to_result(unsafe { glue::dp_glue_net_register() })?;
                // SAFETY: `slot` is valid for writes, stays where it is, and is taken back in drop.
                let registered = to_result(unsafe { register(slot) });
                if registered.is_err() {
                    // SAFETY: registered just now, and nobody has an endpoint.
                    unsafe { glue::dp_glue_net_unregister() };
                }
                registered
            }),
        })
    }
}

/// # Safety
///
/// `slot` is valid for writes and stays where it is until misc_deregister().
unsafe fn register(slot: *mut bindings::miscdevice) -> i32 {
    // SAFETY: by what the caller promises; a device of zeros is one without the optional parts. Who may open it is
    // udev's business: until then nobody but root.
    unsafe {
        slot.write_bytes(0, 1);
        (*slot).minor = bindings::MISC_DYNAMIC_MINOR as i32;
        (*slot).name = c"dp".as_char_ptr();
        (*slot).fops = &file::OPERATIONS.0;
        bindings::misc_register(slot)
    }
}

#[pinned_drop]
impl PinnedDrop for Driver {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered in init; open files hold the module, so there is none.
        unsafe {
            bindings::misc_deregister(self.device.get());
            glue::dp_glue_net_unregister();
        }
    }
}
