//! What comes through the door: a guest's memory.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::os::fd::BorrowedFd;

use dp_channel::family::{Id, Reason};
use dp_channel::share;
use dp_channel::unmapped::{key, Key, Unmapped};
use dp_edge::sys::raw;

use super::room::{close_mapped, is_used, place, put_away_those_gone};
use super::{HIGH, LARGER, MET, RETIRED};
use crate::{link, own, rights, state};

/// The process whose hello was refused last for its version.
static OTHER_VERSION: AtomicU32 = AtomicU32::new(u32::MAX);

/// Counts a client of another version: one that nobody answers says hello again and again, and is still one.
pub fn count_other_version(cred: &libc::ucred) {
    let pid = cred.pid as u32;
    if OTHER_VERSION.swap(pid, Ordering::Relaxed) != pid {
        state::count(Reason::Version);
    }
}

/// Clients for whom there was no room: each, by its memory, at the place that this says.
static NO_ROOM: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The place of a client in [`NO_ROOM`], and what stands there of it.
fn no_room(key: Key) -> (&'static AtomicU64, u64) {
    let name = (key[0].rotate_left(32) ^ key[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (&NO_ROOM[(name >> 58) as usize], name)
}

/// There is no room for a client. It says hello again and again meanwhile, and is still one; false: it was told of.
fn is_news(key: Key) -> bool {
    let (place, name) = no_room(key);
    place.swap(name, Ordering::Relaxed) != name
}

/// There is room for it now: if that ends, it is counted again.
fn has_room(key: Key) {
    let (place, name) = no_room(key);
    let _ = place.compare_exchange(name, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// A hello came; `opener` opened the door. True if there is something to look into. One thread at a time.
/// `fd` is this one's to close, and so are the links: our name of the connection, and the client's.
pub fn receive(fd: i32, cred: &libc::ucred, opener: Id, links: [u64; 2]) -> bool {
    close_mapped();
    if let Some(family) = state::family() {
        RETIRED.unmap(family, is_used);
        put_away_those_gone(family);
    }
    // SAFETY: just received, ours alone.
    let memory = unsafe { BorrowedFd::borrow_raw(fd) };
    let ours = state::largest();
    let limit = LARGER * ours.len();
    let looked = Unmapped::look(memory, limit).map(|(memory, spoken)| (memory.geometry(), spoken));
    // By hand, as all here: the thread may be ended anywhere, and nothing may have to be dropped then.
    let refused = |why| {
        rights::refuse(fd);
        link::end(links[0]);
        state::count(why);
        false
    };
    let (geometry, spoken, key) = match (looked, key(memory)) {
        (Ok((theirs, _)), _) if !share::may_be_filled(theirs.lines.into(), ours.lines.into()) => {
            return refused(Reason::Memory);
        }
        (Ok((geometry, spoken)), Ok(key)) => (geometry, spoken, key),
        (Err(libc::EPROTONOSUPPORT), _) => {
            raw::close(fd);
            link::end(links[0]);
            count_other_version(cred);
            return false;
        }
        (Err(libc::EFBIG), _) => return refused(Reason::Memory),
        _ => return refused(Reason::Corrupt),
    };
    // Without an opener nothing could be proven.
    if opener == Id::default() {
        return refused(Reason::Owner);
    }
    if let Some(g) = MET.iter().find(|g| g.in_use() && g.key() == key) {
        raw::close(fd);
        g.set_links(links);
        return true;
    }
    let Some(i) = place(cred.uid) else {
        rights::refuse(fd);
        link::end(links[0]);
        if is_news(key) {
            state::count(Reason::Slots);
        }
        return false;
    };
    has_room(key);
    let Some(fd) = own::keep(fd) else {
        link::end(links[0]);
        state::count(Reason::Memory);
        return false;
    };
    let g = &MET[i];
    // Those of the guest that had this place are no good to its client, who has been forgotten.
    link::end(g.links[0].swap(0, Ordering::Relaxed));
    g.set_links(links);
    g.uid.store(cred.uid, Ordering::Relaxed);
    g.pid.store(cred.pid as u32, Ordering::Relaxed);
    g.since.store(state::now(), Ordering::Relaxed);
    for (to, from) in g.key.iter().zip(key).chain(g.opener.iter().zip(opener)) {
        to.store(from, Ordering::Relaxed);
    }
    for (to, from) in g.sizes.iter().zip([geometry.slots, geometry.lines, geometry.spare, spoken]) {
        to.store(from, Ordering::Relaxed);
    }
    g.fd.store(fd, Ordering::SeqCst);
    HIGH.fetch_max(i + 1, Ordering::Release);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_room_is_counted_once_however_often_it_says_hello() {
        let count = |key| (0..5).filter(|_| is_news(key)).count();
        assert_eq!(count([1, 2]), 1);
        assert_eq!((count([2, 1]), count([1, 2])), (1, 0), "another one");
        has_room([1, 2]);
        assert_eq!((count([1, 2]), count([2, 1])), (1, 0));
    }
}
