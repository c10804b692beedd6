//! One attempt to receive: the ring without a lock, TCP under the lock and counted first (PROTOCOLS E6).

use core::sync::atomic::Ordering;

use dp_channel::family::{End, Stage};
use dp_channel::stream;
use dp_channel::switch::{in_ring, View};
use dp_edge::sys::raw;
use dp_edge::Error;

use super::piece::{self, From, Piece};
use super::Step;
use crate::channel::Channel;
use crate::socket;
use crate::walk::{Discard, Walk};

/// Which part of a receive a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The first bytes of it.
    First,
    /// It has something already, behind which alone it goes on, if that is said.
    More(Option<Piece>),
}

/// Turns of a loop that only a hostile peer can keep going.
const TURNS: u32 = 10_000;

impl Channel {
    /// One attempt that does not block and arms nothing. What it takes is part of the receive from then on.
    pub(super) fn receive_step(&self, w: &mut Walk, flags: i32, part: &mut Part) -> Step {
        let rx = self.receiving();
        let peek = flags & libc::MSG_PEEK != 0;
        for _ in 0..TURNS {
            let r = self.rx_epoch.load(Ordering::Acquire);
            if !in_ring(r) {
                match self.receive_from_tcp(&rx, r, w, (flags, part)) {
                    Some(s) => return s,
                    None => continue,
                }
            }
            let from = match part {
                Part::More(Some(behind)) => behind.goes_on_in_ring(&rx, r),
                _ => From::Anywhere,
            };
            let from = match from {
                From::Anywhere => None,
                From::Here(cursor) => Some(cursor),
                From::Nowhere => return Step::Nothing,
            };
            w.mark();
            let (ring, still) = (|| self.ring_of(&rx), || self.is_in(r));
            let got = if flags & libc::MSG_TRUNC != 0 {
                stream::pull_from(from, ring, still, &rx.rx.cursor, &mut Discard::new(w.left()), peek)
            } else {
                stream::pull_from(from, ring, still, &rx.rx.cursor, w, peek)
            };
            match got {
                Ok((n, end)) => {
                    if flags & libc::MSG_TRUNC != 0 {
                        w.skip(n);
                    }
                    if !peek {
                        *part = Part::More(Some(Piece::in_ring(r, end)));
                        self.count_taken(&rx, n);
                        if self.bells_out(&rx) {
                            self.tidy(&rx);
                        }
                    }
                    return Step::Got(n);
                }
                Err(Error::Empty) if !self.is_of_slot() => return self.ends_taken_over(),
                // Another one has taken what comes next, and what is left is not for this one to go beyond.
                Err(Error::Empty) if from.is_some_and(|from| piece::is_beyond(&rx, from)) => {
                    return Step::Nothing
                }
                Err(Error::Empty) => {}
                Err(_) => return self.ends_corrupt(),
            }
            if !rx.tx.moved(r) {
                return Step::Nothing;
            }
            match self.as_receiver(|| self.catch_up(&rx)) {
                Some(true) => {}
                Some(false) => return self.ends_corrupt(),
                None => return Step::Nothing,
            }
        }
        self.ends_corrupt()
    }

    /// One attempt while the direction is on TCP: count first, look, then read no more than was counted.
    /// `None`: the epoch changed, start over.
    fn receive_from_tcp(
        &self,
        rx: &End,
        r: u64,
        w: &mut Walk,
        (flags, part): (i32, &mut Part),
    ) -> Option<Step> {
        let attempt = || {
            if self.rx_epoch.load(Ordering::Relaxed) != r {
                return None;
            }
            let known = self
                .rx_counted
                .load(Ordering::Relaxed)
                .saturating_sub(self.rx_kernel.load(Ordering::Relaxed));
            // Where less is known than is asked for, there may be more by now, and a short receive says that there is not.
            let there = match known as usize {
                n if n < w.left().max(1) => match raw::queued(self.fd) {
                    Ok(n) => n,
                    Err(e) => return Some(Step::Err(e)),
                },
                n => n,
            };
            if !self.catch_up(rx) {
                return Some(self.ends_corrupt());
            }
            if self.rx_epoch.load(Ordering::Relaxed) != r {
                return None;
            }
            if matches!(part, Part::More(Some(behind)) if !behind.goes_on_on_tcp(self, rx, r)) {
                return Some(Step::Nothing);
            }
            let at = self.rx_kernel.load(Ordering::Relaxed);
            let limit = match rx.tx.view(r) {
                Ok(View::RingAt(p)) => there.min(p.saturating_sub(at) as usize),
                _ => there,
            };
            // A reader of small pieces asks the kernel once for all of them.
            self.rx_counted.store(at + limit as u64, Ordering::Relaxed);
            let mut limit = limit;
            let bells = self.rx_data.load(Ordering::Relaxed).saturating_sub(at) as usize;
            if bells > 0 && limit > 0 {
                let n = self.drain_and_tell(rx, bells.min(limit));
                return if n == 0 { Some(Step::Nothing) } else { None };
            }
            if limit == 0 {
                // Nothing to read of this epoch: is it the end, an error, or just nothing yet?
                let at_kernel = socket::peek_one(self.fd);
                if rx.tx.moved(r) && at_kernel != Err(libc::EAGAIN) && there == 0 {
                    // It said where it went before it ended (W11). If that place is never reached, the end took
                    // bytes with it: a reset, whatever the kernel calls it.
                    let error = match (self.catch_up(rx), at_kernel) {
                        (true, _) if self.rx_epoch.load(Ordering::Relaxed) != r => return None,
                        (_, Err(e)) => e,
                        _ if raw::queued(self.fd).is_ok_and(|n| n > 0) => return None,
                        _ => libc::ECONNRESET,
                    };
                    // It is told once, and from then on the kernel answers.
                    self.kill_slot();
                    self.set_stage(Stage::Plain);
                    return Some(Step::Err(error));
                }
                let steps_over = there == 0 && *part == Part::First && flags & libc::MSG_PEEK == 0;
                match at_kernel {
                    // Nothing follows it. A receive that begins there steps over it all the same: it is urgent no more.
                    Ok(0) | Err(libc::EAGAIN) if steps_over && socket::at_mark(self.fd) => limit = usize::MAX,
                    Ok(0) => return Some(Step::Eof),
                    // FIONREAD ends at an urgent byte, also when that was read. Who sent one never switches again.
                    Ok(_) if there == 0 && socket::at_mark(self.fd) => {
                        limit = usize::MAX;
                    }
                    Ok(_) if there == 0 => return None,
                    Ok(_) => return Some(Step::Nothing),
                    Err(libc::EAGAIN) => return Some(Step::Nothing),
                    Err(e) => return Some(Step::Err(e)),
                }
            }
            if *part != Part::First && socket::at_mark(self.fd) {
                return Some(Step::Err(libc::EAGAIN)); // no receive goes across
            }
            let mut pieces = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; 16];
            let list = w.fill_list(&mut pieces, limit);
            if list.is_empty() {
                return Some(Step::Got(0));
            }
            // SAFETY: msghdr is plain data.
            let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
            msg.msg_iov = list.as_mut_ptr();
            msg.msg_iovlen = list.len() as _;
            let keep = flags & (libc::MSG_PEEK | libc::MSG_TRUNC);
            // SAFETY: the list covers the program's own buffers.
            match unsafe { raw::recvmsg(self.fd, &mut msg, keep | libc::MSG_DONTWAIT) } {
                Ok(n) => {
                    if flags & libc::MSG_PEEK == 0 {
                        *part = Part::More(Some(Piece::on_tcp(rx, r, at + n as u64)));
                        self.rx_kernel.store(at + n as u64, Ordering::Relaxed);
                        rx.rx.consumed.store(at + n as u64, Ordering::Release);
                        w.skip(n);
                    }
                    if n == 0 {
                        self.rx_counted.store(0, Ordering::Relaxed);
                    }
                    Some(if n == 0 { Step::Nothing } else { Step::Got(n) })
                }
                Err(libc::EAGAIN) => {
                    // Somebody else took what was counted.
                    self.rx_counted.store(0, Ordering::Relaxed);
                    Some(Step::Nothing)
                }
                Err(e) => Some(Step::Err(e)),
            }
        };
        self.as_receiver(attempt).unwrap_or(Some(Step::Nothing))
    }

    /// The slot was given to another connection, as the kernel knew nothing of this one any more: what it says now.
    #[cold]
    pub(super) fn ends_taken_over(&self) -> Step {
        let ended = socket::peek_one(self.fd) == Ok(0);
        let reset = self.ends_corrupt();
        if ended {
            Step::Eof
        } else {
            reset
        }
    }
}
