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
        Reason::IoUring => "dp-preload(7), What stays on TCP: let the program use epoll, if it can be told to",
        Reason::State => "the program replaces descriptors by raw system calls: leave it on TCP by a rule",
        Reason::Option => "SO_RCVLOWAT, SO_PEEK_OFF, SO_TIMESTAMP*, TCP_MD5SIG, TCP_ULP, TCP_REPAIR, O_ASYNC (dp-preload(7), What stays on TCP): have the program leave it unset, if it can be told to, or leave it on TCP by a rule",
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

#[cfg(test)]
mod tests {
    #[test]
    fn sections_of_the_manual_that_are_named_are_there() {
        let page = include_str!("../../../../man/dp-preload.7");
        let named = |line: &'static str| line.strip_prefix(".Ss ").or_else(|| line.strip_prefix(".Sh "));
        let sections: Vec<&str> = page.lines().filter_map(named).collect();
        let mut found = 0;
        for source in [include_str!("advice.rs"), include_str!("process.rs"), include_str!("../program.rs")] {
            for rest in source.split(concat!("dp-preload(7)", ", ")).skip(1) {
                let is_there = sections.iter().any(|section| rest.starts_with(section));
                assert!(is_there, "{:?}", rest.lines().next());
                found += 1;
            }
        }
        assert!(found >= 7, "{found}");
    }
}
