//! What to do about each reason for which a connection is on TCP.

use dp_channel::family::Reason;

use crate::needs;

/// The way out; none where it is as it should be.
pub fn of(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::None | Reason::Closed => return None,
        Reason::Rules => {
            "dp rules explain PROGRAM ADDRESS names the rule: change it if it should be a channel (dp-preload.conf(5))"
        }
        Reason::Remote => "nothing to do for another host; for another network namespace of this one, share it (a pod's containers do)",
        Reason::NoDoor => "start the server with dp run, a service by dp enable; where it has the shim, dp doctor of it tells whether a limit, its rules or its network namespace keep it out",
        Reason::NoOffer => "start the client with dp run, a service by dp enable; where it has the shim, see its rules",
        Reason::Owner => "somebody else answered than who has the connection: look for a proxy between the two",
        Reason::Version => "restart the older of the two programs",
        Reason::Memory => "raise RLIMIT_NOFILE, RLIMIT_AS or the memory limit of the control group",
        Reason::Slots => "a limit of dp-preload(7), Limits, is reached: fewer programs in one family or at one address, fewer servers of one client or clients of one server, fewer addresses to listen at, or report it",
        Reason::Silent => "the other end has the shim and did not answer: see dp doctor of that program",
        Reason::Shared => "the program copied or passed the socket before it was connected; only it could do otherwise",
        Reason::Exec => "give the socket SOCK_CLOEXEC if the executed program does not need it",
        Reason::Passed => "nothing to do: the process that got the socket is not followed",
        Reason::Stdio => "nothing to do: stdio reads inside the C library",
        Reason::IoUring => "dp-preload(7), io_uring: let the program use epoll, if it can be told to",
        Reason::State => "the program replaces descriptors by raw system calls: leave it on TCP by a rule",
        Reason::Option => "dp-preload(7), Socket options: a channel does not have it",
        Reason::Corrupt => "the other program wrote into shared memory what cannot be: look at that program first",
        Reason::PeerLeft => "the other end has the reason: see dp doctor of that program",
        Reason::NoUnix => needs::OPEN_FAMILIES,
        Reason::Sandbox => "dp-preload(7), Filters of system calls: start the filter later, or leave it on TCP",
        Reason::Plugin => {
            "dp-preload(7), Plug-ins: have the program load it without RTLD_DEEPBIND, or by its path, if it can be told to"
        }
        Reason::Refused => {
            "dp rules explain PROGRAM ADDRESS names the rule; what it demands was missing for the other reasons here"
        }
        Reason::Nat => "connect to the address and port where the server listens",
    })
}
