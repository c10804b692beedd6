//! `require` and `refuse`: connections that are not to be, or not to be plain TCP (dp-preload.conf(5)).
//!
//! What a rule demands holds for the calls that the shim sees; it is no wall against the program itself, which can do without
//! the shim. A connection that must be a channel begins on TCP as every other: both sides have to take part in it first. It
//! ends where that turns out to be impossible, which is mostly before connect(2) returns.

use dp_channel::family::{Conn, Reason, Stage};
use dp_channel::tcp::{self, Addr};
use dp_edge::sys::raw;
use dp_rules::{Action, Decision, Direction};

use crate::channel::Channel;
use crate::socket::{self, Kernel};
use crate::{client, life, own, rules, state};

/// What connect(2) fails with where the rules refuse: as if nobody listened there.
const REFUSED: i32 = libc::ECONNREFUSED;
/// Where they demand a channel: "Protocol not supported", which connect(2) says of nothing else.
const NO_CHANNEL: i32 = libc::EPROTONOSUPPORT;

/// A connect of `fd` to `peer` is about to be made. Whether [`after_connect`] has something to say of it.
///
/// # Errors
///
/// The rules do not allow it; the errno.
pub fn before_connect(fd: i32, peer: Addr) -> Result<bool, i32> {
    if !rules::may_end(Direction::Connect) || !is_stream(fd) {
        return Ok(false);
    }
    let ip = peer.towards();
    let action =
        |here| rules::decide(Direction::Connect, ip, peer.port, here).map(|decision| decision.action);
    // Whether another address is one of this host's shows when the kernel has found the way there.
    let ways = [action(true), if ip.is_loopback() { action(true) } else { action(false) }];
    let all = |errno, what: &dyn Fn(&Option<Action>) -> bool| {
        if ways.iter().all(what) {
            Err(errno)
        } else {
            Ok(())
        }
    };
    let refused = all(REFUSED, &|action| *action == Some(Action::Refuse));
    let not_tcp = || all(NO_CHANNEL, &|action| *action == Some(Action::Require) && !tcp::is_tcp(fd));
    refused.and_then(|()| not_tcp()).inspect_err(|_| count())?;
    Ok(ways.iter().any(|action| matches!(action, Some(Action::Refuse | Action::Require))))
}

/// An operator is to see it, also where the process has no other connection.
fn count() {
    if state::is_borrowed_memory() {
        return;
    }
    if let Some(family) = own::family_or_make().filter(|_| state::member().is_some()) {
        family.count(Reason::Refused);
    }
}

/// What is connected by an address of IP and is no stream, is no connection.
fn is_stream(fd: i32) -> bool {
    raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Ok(libc::SOCK_STREAM)
}

/// A connect of `fd` to `peer` was made, or begun; `here`: within this host. Whether it may stay, and become a channel if it
/// must; else it is over.
///
/// # Errors
///
/// It may not; the errno.
pub fn after_connect(fd: i32, peer: Addr, here: bool) -> Result<(), i32> {
    let action =
        rules::decide(Direction::Connect, peer.ip(), peer.port, here).map(|decision| decision.action);
    let over = |errno| {
        count();
        tcp::disconnect(fd);
        Err(errno)
    };
    // Where nobody listens, the program is to hear that.
    match action {
        Some(Action::Refuse | Action::Require) if socket::state(fd) == Kernel::Error => Ok(()),
        Some(Action::Refuse) => over(REFUSED),
        Some(Action::Require) => {
            let Some(c) = Channel::of(fd).filter(|c| c.stage() == Stage::Candidate) else {
                return over(NO_CHANNEL);
            };
            obstacle(&c).map_or(Ok(()), |why| {
                c.give_up(why);
                Err(NO_CHANNEL)
            })
        }
        _ => Ok(()),
    }
}

/// Why a candidate cannot become a channel, as far as this can be known now.
fn obstacle(c: &Channel) -> Option<Reason> {
    if socket::is_unsuited(c.fd) {
        return Some(Reason::Option);
    }
    match client::may_offer(c) {
        Ok(()) => None,
        Err(Reason::NoDoor) if state::unix_is_forbidden() => Some(Reason::NoUnix),
        Err(why) => Some(why),
    }
}

/// The connection of `fd`, which could not become a channel and was ended for it, is connected anew: nothing is left of it.
pub fn is_over(i: u32) -> bool {
    state::family().is_some_and(|f| f.conn(i).has(Conn::REQUIRED) && f.conn(i).stage() == Stage::Plain)
}

/// Whether a connection that came in may stay, for all that is known when it does; `here`: from this host, `door`: its client
/// may find us.
pub fn may_come_in(decision: &Decision, here: bool, door: bool) -> bool {
    match decision.action {
        Action::Refuse => false,
        Action::Require => here && door,
        _ => true,
    }
}

/// Ends a connection that came in, before the program knows of it: its client gets a reset.
pub fn turn_away(fd: i32) {
    count();
    // It may have an entry by now, which says that it stays on TCP.
    life::forget_stale(fd);
    raw::reset_at_close(fd);
    raw::close(fd);
}
