//! Whether a token that was copied is whole, by what its sender may have been writing meanwhile (the module above).

use std::time::{Duration, Instant};

use dp_edge::ring::{self, Cursor, Lines, Pos, Token, HEADER, LINE};
use dp_edge::sync::{fence, relax, Ordering};
use dp_edge::Error;

use super::is_ahead;
use crate::family::Sender;
use crate::observed::{Direction, Ring};
use crate::stream::MAX_TOKEN;

/// Behind its tail a sender makes headers invalid ([`ring::Tail`]): so many lines.
const CLEARED: u64 = 17;
/// Loads until a sender's lock is given up on; each holder keeps it for a copy.
const LOCK_LOOKS: u32 = 64;
/// Longer than a token takes to be copied.
const MOMENT: Duration = Duration::from_micros(2);

/// One token that was copied.
pub struct Copied {
    pub pos: Pos,
    pub header: u64,
    pub token: Token,
    pub range: core::ops::Range<usize>,
}

/// What is known, after tokens were copied, of where the sender may write.
pub struct Check {
    cursor: Pos,
    /// Nothing but what lies behind this is being written, ...
    tail: Pos,
    /// ... and the sender was at rest when that was seen.
    at_rest: bool,
}

impl Check {
    /// `at`: behind the last token that was found.
    pub fn of(ring: &Ring, direction: &Direction<'_>, sender: Option<&Sender<'_>>, mut at: Pos) -> Check {
        // What was copied was copied before any of this is seen.
        fence(Ordering::Acquire);
        let start = at;
        if let Some(tail) = sender.and_then(|sender| sender.resting_tail(LOCK_LOOKS)) {
            if tail == at || is_ahead(tail, at) {
                let cursor = Cursor::unpack(direction.rx.cursor.load(Ordering::Acquire)).pos;
                return Check { cursor, tail, at_rest: true };
            }
        }
        while let Ok(token) = ring::look(ring, at) {
            at = at.add(token.lines());
            if at.since(start) >= ring.count() {
                break;
            }
        }
        let cursor = Cursor::unpack(direction.rx.cursor.load(Ordering::Acquire)).pos;
        Check { cursor, tail: at, at_rest: false }
    }

    pub fn is_whole(&self, ring: &Ring, one: &Copied, bytes: &[u8]) -> bool {
        fence(Ordering::Acquire);
        if ring.header(one.pos).load(Ordering::Relaxed) != one.header {
            return false;
        }
        if one.pos == self.cursor || is_ahead(one.pos, self.cursor) {
            return true;
        }
        let age = self.tail.since(one.pos);
        let longest = dp_edge::ring::lines_for(MAX_TOKEN).min(ring.count() - 1);
        let cleared = if shows_no_clearing(one, bytes) { 1 } else { CLEARED };
        if self.at_rest {
            age + cleared <= ring.count()
        } else {
            age + longest + cleared <= ring.count()
                || age + cleared <= ring.count() && is_the_same_again(ring, one, self.tail, bytes)
        }
    }
}

/// Behind its tail a sender makes headers invalid, at the starts of lines. That of the first line was looked at; whether the
/// copy has a 0 at the start of any other: if not, none of them was.
fn shows_no_clearing(one: &Copied, bytes: &[u8]) -> bool {
    let bytes = bytes.get(one.range.clone()).unwrap_or_default();
    let starts = bytes.get(LINE - HEADER..).unwrap_or_default().chunks(LINE);
    starts.into_iter().all(|line| line.iter().take(HEADER).any(|&byte| byte != 0))
}

/// Whether a token is copied with the same outcome after a moment in which a copy of the sender's would have ended.
fn is_the_same_again(ring: &Ring, one: &Copied, tail: Pos, bytes: &[u8]) -> bool {
    let began = Instant::now();
    while began.elapsed() < MOMENT {
        relax();
    }
    if let Ok(next) = ring::look(ring, tail) {
        // What was being written then: whether it reached us.
        if tail.add(next.lines()).since(one.pos) + CLEARED > ring.count() {
            return false;
        }
    }
    let mut again = Vec::with_capacity(one.token.len);
    ring.append(one.pos, HEADER, one.token.len, &mut again);
    fence(Ordering::Acquire);
    let same = bytes.get(one.range.clone()).is_some_and(|first| first == again);
    same && !matches!(ring::look(ring, one.pos), Err(Error::Empty | Error::Corrupt))
}
