//! Following one direction of a channel without taking part: which bytes it carried, and how many were missed.
//!
//! ```text
//!   old lap, taken           not taken             what the sender may be writing now
//!  - -+------+------+- - - -+------+------+-------+------+- - - - - - -
//!     | here |      |       |      |      |       | tail |
//!  - -+------+------+- - - -+------+------+-------+------+- - - - - - -
//!       ^ at: the follower    ^ the receiver's cursor
//! ```
//!
//! A token stays in its ring until the sender comes round to its lines, or clears the headers of the next sixteen of them, so
//! who looks often enough finds all of them. It is
//! copied first, and checked afterwards: it is whole if nothing was written over it by then. That is certain of tokens that
//! the receiver has not taken; of those so far ahead of the tail that no token reaches them; and, where the sender's own
//! notes can be read, of all that lie before its tail at a moment when nobody holds its lock. Of the rest it is as good as
//! certain when they are copied a second time, a moment later, with the same outcome: somebody who writes would have to be
//! stopped in the middle of one copy. Whatever is not found whole is missed, and its length is told.
//!
//! Bytes of a direction are counted through both of its ways: what was sent on TCP (E5, E7) is a gap that nobody missed.

mod check;

use std::io;

use crate::family::{Mark, Sender};
use crate::observed::{Direction, Ring};
use crate::stream::MAX_TOKEN;
use crate::switch::in_ring;
use dp_edge::ring::{self, Cursor, Kind, Lines, Pos, HEADER, LINE};
use dp_edge::sync::Ordering;

use check::{Check, Copied};

/// A part of what a direction carried, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A token's bytes: where they lie in the buffer.
    Bytes(core::ops::Range<usize>),
    /// So many bytes were written over before they were copied.
    Missed(u64),
    /// So many bytes went over TCP.
    OnTcp(u64),
}

/// What a look found out about the direction itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It goes on.
    On,
    /// There is more than one look takes.
    More,
    /// The rings are another connection's, or what stands in them is no honest sender's.
    Over,
}

/// Bytes that one look takes at most.
const ENOUGH: usize = 256 << 10;
/// See the module.
#[derive(Debug)]
pub struct Follower {
    at: Pos,
    ring_number: u32,
    ring: Option<Ring>,
    epoch: u64,
    /// Bytes on TCP where data is data again, in a TCP epoch.
    q: u64,
    /// Bytes that went through rings, as the sender counts them, before `at`.
    through_rings: u64,
    /// Bytes that went over TCP.
    on_tcp: u64,
    /// The sender's own count was to be had.
    marked: bool,
}

impl Follower {
    /// From where `direction` is now, or from its beginning as far as that can still be had (`all`). `None`: its sender is
    /// sending just now, so its counts cannot be had; another time.
    pub fn new(direction: &Direction<'_>, sender: Option<&Sender<'_>>, all: bool) -> Option<Follower> {
        let (tx, rx) = (direction.tx, direction.rx);
        let mut this = Follower {
            at: Cursor::unpack(rx.cursor.load(Ordering::Acquire)).pos,
            ring_number: tx.ring(),
            ring: None,
            epoch: tx.epoch_seen(),
            q: tx.beginnings().1,
            through_rings: 0,
            on_tcp: 0,
            marked: false,
        };
        if this.epoch == 0 {
            return Some(Follower { q: 0, ..this });
        }
        let mark = match sender {
            Some(sender) => Some(sender.mark()?),
            None => None,
        };
        this.count_tcp(direction, mark);
        if let Some(mark) = mark {
            (this.at, this.through_rings, this.marked) = (mark.tail, mark.bytes, true);
            if all {
                this.rewind(direction);
            }
        } else if let Ok(ring) = direction.ring(this.ring_number) {
            // Behind what is in the ring; how much went before nobody tells.
            while let Ok(token) = ring::look(&ring, this.at) {
                this.at = this.at.add(token.lines());
                if Pos::since(this.at, Cursor::unpack(rx.cursor.load(Ordering::Relaxed)).pos) >= ring.count()
                {
                    break;
                }
            }
        }
        Some(this)
    }

    /// Bytes of the direction before what comes next, by either way.
    pub fn offset(&self) -> u64 {
        self.through_rings.wrapping_add(self.on_tcp)
    }

    /// Of these, bytes that went over TCP.
    pub fn on_tcp(&self) -> u64 {
        self.on_tcp
    }

    /// Whether nothing that went through a ring is before what comes next.
    pub fn is_at_start(&self) -> bool {
        self.through_rings == 0 && (self.epoch == 0 || self.marked)
    }

    /// Whether the receiver has taken everything that was found so far.
    pub fn is_taken(&self, direction: &Direction<'_>) -> bool {
        let cursor = Cursor::unpack(direction.rx.cursor.load(Ordering::Relaxed)).pos;
        is_ahead(cursor, self.at) || cursor == self.at
    }

    /// Back to the first token of the ring from which tokens lead to where we are, if no more bytes were ever sent.
    fn rewind(&mut self, direction: &Direction<'_>) {
        let Ok(ring) = direction.ring(self.ring_number) else { return };
        let count = ring.count() as usize;
        // Bytes from a position, so many lines back, to here.
        let mut sums = vec![None; count];
        sums[0] = Some(0u64);
        let mut back = 0;
        for lines in 1..count {
            let pos = Pos::new(self.at.raw().wrapping_sub(lines as u64));
            let Ok(token) = ring::look(&ring, pos) else { continue };
            let rest = lines.checked_sub(token.lines() as usize).and_then(|left| sums[left]);
            sums[lines] = rest.map(|sum| sum + token.len as u64).filter(|&sum| sum <= self.through_rings);
            if sums[lines].is_some() {
                back = lines;
            }
        }
        self.at = Pos::new(self.at.raw().wrapping_sub(back as u64));
        self.through_rings -= sums[back].unwrap_or(0);
    }

    /// What there is since the last look: pieces, whose bytes are appended to `bytes`.
    ///
    /// # Errors
    ///
    /// Those of mmap(2), for a ring that it goes over to.
    pub fn look(
        &mut self,
        direction: &Direction<'_>,
        sender: Option<&Sender<'_>>,
        bytes: &mut Vec<u8>,
        pieces: &mut Vec<Piece>,
    ) -> io::Result<After> {
        // Each turn is an epoch, or a ring; an honest sender needs our receiver for more.
        for _ in 0..8 {
            let epoch = direction.tx.epoch_seen();
            let number = direction.tx.ring();
            if in_ring(self.epoch) {
                match self.walk(direction, sender, bytes, pieces)? {
                    After::On => {}
                    other => return Ok(other),
                }
                if number != self.ring_number {
                    // Nothing was put into the former one since: what it had, was found.
                    self.ring_number = number;
                    self.ring = None;
                    continue;
                }
            }
            if epoch == self.epoch {
                return Ok(After::On);
            }
            if !self.step(direction, sender, epoch, pieces) {
                return Ok(After::Over);
            }
        }
        Ok(After::More)
    }

    /// Into the next epoch; `epoch` is the sender's.
    fn step(
        &mut self,
        direction: &Direction<'_>,
        sender: Option<&Sender<'_>>,
        epoch: u64,
        pieces: &mut Vec<Piece>,
    ) -> bool {
        let (p, q, end) = direction.tx.beginnings();
        let ahead = epoch.wrapping_sub(self.epoch);
        if ahead > u64::MAX / 2 {
            return false; // the line was made anew
        }
        if direction.tx.epoch_seen() != epoch {
            return true; // it moves just now: another look
        }
        let mark = sender.and_then(Sender::mark);
        let unsettled = sender.is_some() && mark.is_none();
        if ahead > 2 && unsettled {
            return true;
        }
        if ahead > 2 {
            // Several switches between two looks: what went over TCP meanwhile is told by the sender's counts alone.
            let before = self.on_tcp;
            self.epoch = epoch;
            self.q = q;
            self.count_tcp(direction, mark);
            let more = self.on_tcp.wrapping_sub(before);
            note(pieces, Piece::OnTcp(if more < u64::MAX / 2 { more } else { 0 }));
            return true;
        }
        let lapped = in_ring(self.epoch) && ahead == 1 && self.at != end;
        if lapped && unsettled {
            return true;
        }
        self.epoch += 1;
        if in_ring(self.epoch) {
            let more = p.wrapping_sub(self.q);
            if more > 0 && more < u64::MAX / 2 {
                self.on_tcp += more;
                note(pieces, Piece::OnTcp(more));
            }
        } else {
            self.q = q;
            if lapped {
                self.resume_at(end, mark, pieces);
            }
        }
        true
    }

    /// How much went over TCP, without having seen it.
    fn count_tcp(&mut self, direction: &Direction<'_>, mark: Option<Mark>) {
        let (p, q, _) = direction.tx.beginnings();
        let bells = u64::from(direction.tx.bells());
        self.on_tcp = if !in_ring(self.epoch) {
            q.wrapping_sub(bells)
        } else if self.epoch == 1 {
            p
        } else {
            match mark {
                Some(mark) => mark.kernel.wrapping_sub(u64::from(direction.tx.bells())),
                None => p.wrapping_sub(bells),
            }
        };
        if self.on_tcp > u64::MAX / 2 {
            self.on_tcp = 0;
        }
    }

    /// Goes on at `end`, where the ring was left: what is before was missed.
    fn resume_at(&mut self, end: Pos, mark: Option<Mark>, pieces: &mut Vec<Piece>) {
        let lines = end.since(self.at);
        self.at = end;
        let mark = mark.filter(|mark| mark.tail == end);
        self.missed(mark.map(|mark| mark.bytes), lines, pieces);
    }

    /// So far as `through_rings` says, or so many lines, which is the most that it can be.
    fn missed(&mut self, through_rings: Option<u64>, lines: u64, pieces: &mut Vec<Piece>) {
        let most = lines.min(u64::from(u32::MAX)) * LINE as u64;
        let counted = through_rings.map(|all| all.wrapping_sub(self.through_rings));
        let missed = counted.filter(|&n| n < u64::MAX / 2).unwrap_or(most);
        self.through_rings = self.through_rings.wrapping_add(missed);
        note(pieces, Piece::Missed(missed));
    }

    /// Takes the tokens that are there.
    fn walk(
        &mut self,
        direction: &Direction<'_>,
        sender: Option<&Sender<'_>>,
        bytes: &mut Vec<u8>,
        pieces: &mut Vec<Piece>,
    ) -> io::Result<After> {
        let ring = match self.ring.take() {
            Some(ring) => ring,
            None => match direction.ring(self.ring_number) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(After::Over),
                ring => ring?,
            },
        };
        let before = self.at;
        let mut after = self.walk_in(&ring, direction, sender, bytes, pieces);
        if after == After::On && self.at != before && bytes.is_empty() {
            // It came round: what is there now.
            after = self.walk_in(&ring, direction, sender, bytes, pieces);
        }
        self.ring = Some(ring);
        Ok(after)
    }

    fn walk_in(
        &mut self,
        ring: &Ring,
        direction: &Direction<'_>,
        sender: Option<&Sender<'_>>,
        bytes: &mut Vec<u8>,
        pieces: &mut Vec<Piece>,
    ) -> After {
        let began = bytes.len();
        let mut copied = Vec::new();
        let mut at = self.at;
        let mut ended = After::On;
        while ended == After::On {
            let header = ring.header(at).load(Ordering::Acquire);
            let Ok(token) = ring::look(ring, at) else { break };
            if token.kind != Kind::Data || token.len > MAX_TOKEN {
                ended = After::Over;
                break;
            }
            let from = bytes.len();
            ring.append(at, HEADER, token.len, bytes);
            copied.push(Copied { pos: at, header, token, range: from..bytes.len() });
            at = at.add(token.lines());
            if bytes.len() - began >= ENOUGH || at.since(self.at) >= ring.count() {
                ended = After::More;
            }
        }
        if copied.is_empty() {
            if self.is_lapped(ring, direction) {
                self.catch_up(ring, direction, sender, pieces);
            }
            return ended;
        }
        let check = Check::of(ring, direction, sender, at);
        for one in copied {
            let whole = check.is_whole(ring, &one, bytes);
            note(pieces, if whole { Piece::Bytes(one.range) } else { Piece::Missed(one.token.len as u64) });
            self.through_rings = self.through_rings.wrapping_add(one.token.len as u64);
        }
        self.at = at;
        ended
    }

    /// Whether the sender came round to the token that we look for: the receiver is beyond it, and it is not there.
    fn is_lapped(&self, ring: &Ring, direction: &Direction<'_>) -> bool {
        let cursor = Cursor::unpack(direction.rx.cursor.load(Ordering::Acquire)).pos;
        // In this order: a token that was published and taken meanwhile is there still, unless it was written over.
        is_ahead(cursor, self.at)
            && direction.tx.ring() == self.ring_number
            && ring::look(ring, self.at).is_err()
            // The slot's next connection begins a lap further, after its line was made anew.
            && direction.tx.epoch_seen() >= self.epoch
    }

    /// To the oldest token that is there for certain: the first that is not taken yet.
    fn catch_up(
        &mut self,
        ring: &Ring,
        direction: &Direction<'_>,
        sender: Option<&Sender<'_>>,
        pieces: &mut Vec<Piece>,
    ) {
        let cursor = || Cursor::unpack(direction.rx.cursor.load(Ordering::Acquire)).pos;
        let mark = sender.and_then(Sender::mark);
        if sender.is_some() && mark.is_none() {
            return; // another time
        }
        let mut to = cursor();
        let mut through = None;
        if let Some(mark) = mark {
            // From the receiver's place to the tail.
            let (mut pos, mut sum) = (to, 0u64);
            while pos != mark.tail && is_ahead(mark.tail, pos) {
                let Ok(token) = ring::look(ring, pos) else { break };
                sum += token.len as u64;
                pos = pos.add(token.lines());
                if pos.since(to) > ring.count() {
                    break;
                }
            }
            if pos == mark.tail {
                through = Some(mark.bytes.wrapping_sub(sum));
            } else {
                (to, through) = (mark.tail, Some(mark.bytes));
            }
        }
        let lines = to.since(self.at);
        if !is_ahead(to, self.at) {
            return;
        }
        self.at = to;
        self.missed(through, lines, pieces);
    }
}

/// Adds a piece. What is missing side by side is one piece, of however many tokens it was.
fn note(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (_, Piece::Missed(0) | Piece::OnTcp(0)) => {}
        (Some(Piece::Missed(sum)), Piece::Missed(n)) | (Some(Piece::OnTcp(sum)), Piece::OnTcp(n)) => {
            *sum = sum.saturating_add(n);
        }
        (_, piece) => pieces.push(piece),
    }
}

/// Whether `pos` comes behind `other`, and not just before it.
fn is_ahead(pos: Pos, other: Pos) -> bool {
    let lines = pos.since(other);
    lines > 0 && lines < 1 << 47
}
