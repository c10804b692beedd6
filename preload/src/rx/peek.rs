//! Looking at what there is to read and taking none of it: MSG_PEEK and FIONREAD.
//!
//! Up to three segments are readable at once, one behind the other, and a program that peeks until it sees
//! enough must see all of them (W15):
//!
//! ```text
//!   kernel   b b d d d d | b b b | d d d ...     b bell, d data
//!                        P       Q
//!   seen         1             2   3             2: what is in the ring
//! ```
//!
//! The kernel's bytes come in one recvmsg with MSG_PEEK whose list puts the bells into scratch memory. It is
//! called under the receiver's lock, so nobody takes bytes from TCP meanwhile, and no acknowledgement lets the
//! sender begin another segment.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use dp_channel::family::End;
use dp_channel::stream;
use dp_channel::switch::{in_ring, View};
use dp_edge::sys::raw;
use dp_edge::Error;
use libc::iovec;

use super::step::Part;
use super::Step;
use crate::channel::Channel;
use crate::kept;
use crate::walk::Walk;

/// What the kernel's queue holds, in order, in bytes.
#[derive(Default)]
struct Queue {
    bells: usize,
    before: usize,
    gap: usize,
    after: usize,
    /// Everything in front of the ring has arrived, so what is in the ring can be read next.
    ring: bool,
}

impl Queue {
    /// Counted first, then the epoch is looked at (E6). Again where another thread followed the sender meanwhile: then positions of
    /// one epoch would be taken for those of another.
    fn count(c: &Channel, rx: &End) -> Result<Queue, i32> {
        for _ in 0..TRIES {
            let r = c.rx_epoch.load(Ordering::Acquire);
            let queue = Queue::count_in(r, c, rx)?;
            if c.is_in(r) {
                return Ok(queue);
            }
        }
        Ok(Queue::default())
    }

    fn count_in(r: u64, c: &Channel, rx: &End) -> Result<Queue, i32> {
        if in_ring(r) && !rx.tx.moved(r) {
            return Ok(Queue { ring: true, ..Queue::default() });
        }
        let there = raw::queued(c.fd)? as u64;
        let at = c.rx_kernel.load(Ordering::Relaxed);
        // Where a position lies in the queue, or the queue's end.
        let place = |p: u64| p.saturating_sub(at).min(there);
        let (begin, end, again, ring) = match rx.tx.view(r) {
            Ok(View::RingAt(p)) => {
                let begin = c.rx_data.load(Ordering::Relaxed).min(p);
                (place(begin), place(p), rx.tx.beyond(r).map_or(there, place), at + there >= p)
            }
            Ok(View::TcpAt { q, .. }) => (0, 0, place(q), true),
            // In the ring: a switch that has come since then is seen next time.
            Ok(View::Same) if in_ring(r) => (0, 0, there, true),
            _ => (place(c.rx_data.load(Ordering::Relaxed)), there, there, false),
        };
        Ok(Queue {
            bells: begin as usize,
            before: end.saturating_sub(begin) as usize,
            gap: again.saturating_sub(end) as usize,
            after: (there - again) as usize,
            ring,
        })
    }

    /// All that can be read.
    fn readable(&self, rx: &End) -> usize {
        let ring = if self.ring { stream::bytes_waiting(&rx.ring(), &rx.rx.cursor, TOKENS) } else { 0 };
        self.before + ring + self.after
    }
}

/// Times it is counted while others follow the sender, before nothing is said to be there.
const TRIES: u32 = 16;
/// Tokens looked at to count what is in a ring.
const TOKENS: usize = 1 << 16;

impl Channel {
    /// FIONREAD: bytes for the program, in the ring and on either side of it, never bells.
    pub fn readable_bytes(&self) -> Result<usize, i32> {
        let rx = self.receiving();
        // W16: who takes just what is counted here may wait for an edge then. What comes from now on makes one.
        super::arm_if_rung(&rx);
        Ok(Queue::count(self, &rx)?.readable(&rx))
    }

    /// A receive with MSG_PEEK that does not block.
    pub(super) fn peek(&self, w: &Walk, flags: i32) -> Step {
        let rx = self.receiving();
        let r = self.rx_epoch.load(Ordering::Acquire);
        if !in_ring(r) || rx.tx.moved(r) {
            // In a handler inside a receive of this thread, the ring is all that can be looked at.
            match self.as_receiver(|| with_list(w, |pieces| self.look_past_bells(&rx, w, flags, pieces))) {
                Some(Ok(0)) | None => {}
                Some(Ok(n)) => return Step::Got(n),
                Some(Err(_)) => return self.ends_corrupt(),
            }
        }
        // One segment, or none: then it is to be found out why.
        let mut copy = *w;
        self.receive_step(&mut copy, flags, &mut Part::First)
    }
}

/// The list for a recvmsg that looks past bells.
struct List<'a> {
    pieces: &'a mut [iovec],
    n: usize,
}

/// Pieces of a list on the stack, which may be a small one; half of them are for bells.
const FEW: usize = 32;
/// Pieces of a long list, the most that the kernel takes.
const MANY: usize = 1024;
const _: () = assert!(MANY * size_of::<iovec>() <= kept::SIZE);

/// Gives `f` room for the list that a look into `w` takes.
fn with_list<R>(w: &Walk, mut f: impl FnMut(&mut [iovec]) -> R) -> R {
    // SAFETY: as many as fit, at the start of a page, and any bytes are a value of them.
    let long = |place: *mut u8| f(unsafe { core::slice::from_raw_parts_mut(place.cast(), MANY) });
    let result = if w.pieces() > FEW / 2 { kept::with(long) } else { None };
    result.unwrap_or_else(|| f(&mut [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; FEW]))
}

/// Where the kernel puts bells that are looked past: by any thread, and nobody reads it.
struct Scratch(UnsafeCell<[u8; SCRATCH]>);
// SAFETY: nothing of ours reads or writes it.
unsafe impl Sync for Scratch {}

const SCRATCH: usize = 4096;
static NOWHERE: Scratch = Scratch(UnsafeCell::new([0; SCRATCH]));

impl List<'_> {
    /// Looks past `bytes`. False when there is no room for so many.
    fn skip(&mut self, mut bytes: usize) -> bool {
        // What is behind the first half of a list is the program's.
        while bytes > 0 && self.n < FEW / 2 {
            let k = bytes.min(SCRATCH);
            self.pieces[self.n] = iovec { iov_base: NOWHERE.0.get().cast(), iov_len: k };
            self.n += 1;
            bytes -= k;
        }
        bytes == 0
    }

    /// Fills the program's memory from `at` on with up to `bytes`, and steps over it; how many fit.
    fn fill(&mut self, at: &mut Walk, bytes: usize) -> usize {
        let list = at.fill_list(&mut self.pieces[self.n..], bytes);
        let covered = list.iter().map(|v| v.iov_len).sum();
        self.n += list.len();
        at.skip(covered);
        covered
    }
}

impl Channel {
    /// What is readable, into the program's memory. 0: nothing, or [`Channel::receive_step`] knows better. Under the lock.
    fn look_past_bells(&self, rx: &End, w: &Walk, flags: i32, pieces: &mut [iovec]) -> Result<usize, Error> {
        let Ok(queue) = Queue::count(self, rx) else { return Ok(0) };
        if flags & libc::MSG_TRUNC != 0 {
            return Ok(queue.readable(rx).min(w.left()));
        }
        let mut list = List { pieces, n: 0 };
        let mut at = *w;
        if queue.before + queue.after > 0 && !list.skip(queue.bells) {
            return Ok(0);
        }
        let before = list.fill(&mut at, queue.before);
        let (mut ring, mut after) = (0, 0);
        if queue.ring && before == queue.before && at.left() > 0 {
            at.mark();
            // Under the lock nobody follows.
            ring = match stream::pull_where(|| self.ring_of(rx), || true, &rx.rx.cursor, &mut at, true) {
                Ok(n) => n,
                Err(Error::Empty) => 0,
                Err(_) if before > 0 => 0,
                Err(e) => return Err(e),
            };
            // With room left the ring was seen to its end.
            if queue.after > 0 && at.left() > 0 && list.skip(queue.gap) {
                after = list.fill(&mut at, queue.after);
            }
        }
        if before + after == 0 {
            return Ok(ring);
        }
        // SAFETY: msghdr is plain data.
        let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
        msg.msg_iov = list.pieces.as_mut_ptr();
        msg.msg_iovlen = list.n as _;
        // SAFETY: the list covers the program's own buffers, and ours.
        let Ok(n) = (unsafe { raw::recvmsg(self.fd, &mut msg, libc::MSG_PEEK | libc::MSG_DONTWAIT) }) else {
            return Ok(if before > 0 { 0 } else { ring });
        };
        // It may stop early, as at an urgent byte: nothing behind the stop is shown.
        let first = n.saturating_sub(queue.bells).min(before);
        if first < before {
            return Ok(first);
        }
        Ok(before + ring + n.saturating_sub(queue.bells + before + queue.gap).min(after))
    }
}

/// Whether there may be more to look at than was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    /// Something came.
    Came,
    /// It was there without a wait.
    There,
    /// The wait ended without: a time limit, a signal, the end of the stream.
    No,
}
