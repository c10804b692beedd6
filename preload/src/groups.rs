//! Groups, by which sets say that they sleep: whose they are, and what of those becomes whose owners ended (PROTOCOLS W3).

use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use dp_channel::arena::GROUPS;
use dp_channel::bell::Group;
use dp_channel::family::{space, Conn, Family, Stage};
use dp_edge::sys::raw;

/// What wakes whoever sleeps in a set of this process that has a connection, of which a bell was taken that may have told them.
pub static WAKES: OnceLock<fn(u32)> = OnceLock::new();

/// A bell of connection `conn` was taken, or its word is cold, while a set that it tells may sleep.
pub fn bell_was_taken(conn: u32) {
    if let Some(wake) = WAKES.get() {
        wake(conn);
    }
}

/// Pid namespace and pid of this process, as an owner.
fn me() -> u64 {
    u64::from(space()) << 32 | u64::from(raw::getpid())
}

/// A pid says something only in its own namespace; elsewhere the owner counts as alive.
fn has_ended(owner: u64) -> bool {
    owner >> 32 == u64::from(space()) && raw::probe_process(owner as u32) == Err(libc::ESRCH)
}

/// Whether the process whose set has the group has ended. It has left the group asleep, or told, for ever.
pub fn owner_has_ended(group: &Group) -> bool {
    match group.taken.load(Ordering::Relaxed) {
        0 => false,
        owner => has_ended(owner),
    }
}

/// A group for a set of this process, in the arena of connection `c`: its number, from 0 on. `None`: all are taken.
pub fn take(family: Family, c: &Conn) -> Option<usize> {
    let groups = c.my_groups();
    let me = me();
    let i = (0..GROUPS).find(|&i| {
        let owner = groups[i].taken.load(Ordering::Relaxed);
        let exchange =
            || groups[i].taken.compare_exchange(owner, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        match owner {
            0 => exchange(),
            _ if owner != me && has_ended(owner) && exchange() => {
                leave_those_of(family, c, i);
                true
            }
            _ => false,
        }
    })?;
    groups[i].wake();
    Some(i)
}

/// Connections that the dead owner had hot, and that a relative of its has as well, tell group `i` of the arena of `here` still: theirs
/// are bells from here on, or each would be one for a set in which they are not.
#[cold]
fn leave_those_of(family: Family, here: &Conn, i: usize) {
    let Some(arena) = here.mapped() else { return };
    for conn in family.used() {
        let c = family.conn(conn);
        if !matches!(c.stage(), Stage::Accepted | Stage::Live) || c.is_client() != here.is_client() {
            continue;
        }
        // Of those that a relative has alone nothing need be mapped here.
        if let Some(word) = c.word_in(&arena).filter(|word| word.group() == i + 1) {
            word.make_cold();
        }
    }
}

#[cfg(test)]
mod tests;
