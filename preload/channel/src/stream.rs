//! Bytes over tokens: what a channel carries.
//!
//! A write is cut into tokens of at most [`MAX_TOKEN`] bytes, so that the receiver copies the first
//! while the sender fills the second. A receive takes what is there, across token borders. Several
//! threads or processes may receive: each copies out, then commits the cursor by compare-and-swap; the
//! loser discards its copy and starts over (L1), so a receiver that dies or stops leaves nothing to mend.

use dp_edge::ring::{self, lines_for, Cursor, Kind, Lines, Pos, Tail, HEADER, LINE};
use dp_edge::sync::{fence, AtomicU64, Ordering};
use dp_edge::Error;

/// Longest payload of one stream token, bytes: 256 lines with the header.
pub const MAX_TOKEN: usize = 256 * LINE - HEADER;
/// Times a receive starts over because others moved the cursor, before it is content with a brief piece.
const TRIES: u32 = 4;
/// A brief piece, bytes: as quickly copied as the cursor is moved.
const BRIEF: usize = 1024;
/// Times a receive tries to take a brief piece. Each failure is a receive that somebody else completed, and of
/// these each of its neighbours has a like share, so honest ones never get there; a peer that only spins on the
/// cursor does, and has cost less than a millisecond.
const BRIEF_TRIES: u32 = 4096;

/// Where the bytes of a write come from: a walk over a scatter list.
pub trait Source {
    /// Bytes left.
    fn left(&self) -> usize;
    /// Calls `f(pointer, length)` for the next `n` bytes, piece by piece, and steps over them.
    fn take(&mut self, n: usize, f: impl FnMut(*const u8, usize));
}

/// Where the bytes of a receive go.
pub trait Sink {
    /// Bytes of room left.
    fn left(&self) -> usize;
    /// Calls `f(pointer, length)` for the next `n` bytes of room, piece by piece, and steps over them.
    fn fill(&mut self, n: usize, f: impl FnMut(*mut u8, usize));
    /// Back to the beginning: what was filled does not count.
    fn rewind(&mut self);
}

/// Puts one token of up to `MAX_TOKEN` bytes of `src` into the ring; its length.
///
/// `Full` when not even a small token fits; a token shorter than asked when only that fits.
#[inline(always)]
pub fn push<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    src: &mut impl Source,
) -> Result<usize, Error> {
    let count = ring.count();
    // The ring's own limit, too: a smaller ring would never have room for MAX_TOKEN.
    let mut len = src.left().min(MAX_TOKEN).min(ring::max_payload(count));
    if let Err(e) = tail.reserve(count, lines_for(len), cursor) {
        len = shorter(e, tail, count, len)?;
    }
    tail.write(ring, len, Kind::Data, |ring, pos| {
        let mut at = HEADER;
        src.take(len, |p, n| {
            // SAFETY: `p` is readable for `n` bytes by Source's contract; the token was reserved, and
            // lines + 1 <= count keeps at + n inside the ring.
            unsafe { ring.put(pos, at, p, n) };
            at += n;
        });
    })?;
    Ok(len)
}

/// What still fits when the whole token did not: at least a quarter of it, or nothing.
#[cold]
fn shorter(e: Error, tail: &Tail, count: u64, want: usize) -> Result<usize, Error> {
    if e != Error::Full {
        return Err(e);
    }
    let room = (tail.free(count) as usize * LINE).saturating_sub(HEADER);
    // A trickle of tiny tokens would cost more than waiting for the receiver.
    if room >= want / 4 && room > 0 && want > ring::SMALL {
        Ok(room.min(want))
    } else {
        Err(Error::Full)
    }
}

/// After a sender died holding the lock: steps over what it published without moving the tail (L4).
///
/// The receiver may have taken that already, so the header is all there is to go by. A header that no
/// sender of ours wrote is left where it is: the next commit meets it, and is `Corrupt`.
pub fn recover<L: Lines + ?Sized>(ring: &L, tail: &mut Tail) {
    let start = tail.pos;
    while let Ok(token) = ring::look(ring, tail.pos) {
        let next = tail.pos.add(token.lines());
        // Not once around: a hostile peer can make every line look like a token.
        if next.since(start) >= ring.count() {
            break;
        }
        tail.pos = next;
    }
}

/// Copies what is there into `dst`, up to its room, and takes it.
///
/// `Empty` when nothing is there. With `peek` nothing is taken, and what there is to take has bytes, or it is `Corrupt`.
#[inline(always)]
pub fn pull<L: Lines + ?Sized>(
    ring: &L,
    cursor: &AtomicU64,
    dst: &mut impl Sink,
    peek: bool,
) -> Result<usize, Error> {
    pull_where(|| ring, || true, cursor, dst, peek)
}

/// The same where the sender may go over to another ring ([`crate::spare`]): which it is, is asked after each look at the
/// cursor. One beyond the tail at which it went over was put there by a receiver that knew the new ring, so we know it; one
/// at that tail finds nothing in the former; one before it cannot be committed once there is a new one.
///
/// `still`: whether the receiver is in the ring epoch in which this receive began, asked after each look at the tokens. Another
/// thread may follow the sender to TCP meanwhile, and acknowledge that; then the sender may be in the ring again, behind bytes
/// on TCP that nobody has read. Such a token is not taken: whoever sees it sees that the receiver's epoch moved, since
/// the sender had seen the acknowledgement before it put it there.
#[inline(always)]
pub fn pull_where<L: Lines>(
    ring: impl Fn() -> L,
    still: impl Fn() -> bool,
    cursor: &AtomicU64,
    dst: &mut impl Sink,
    peek: bool,
) -> Result<usize, Error> {
    pull_from(None, ring, still, cursor, dst, peek).map(|(n, _)| n)
}

/// The same, and where it ended. `from`: `Empty` where the cursor is not there, since another receiver has moved it.
#[inline(always)]
pub fn pull_from<L: Lines>(
    from: Option<Cursor>,
    ring: impl Fn() -> L,
    still: impl Fn() -> bool,
    cursor: &AtomicU64,
    dst: &mut impl Sink,
    peek: bool,
) -> Result<(usize, Cursor), Error> {
    match tries(TRIES, from, (&ring, &still), cursor, dst, peek) {
        Some(result) => result,
        None => brief(from, (&ring, &still), cursor, dst, peek),
    }
}

/// The same for a receive that has a long way, too, and leaves it to that where others are quicker again and again: a brief piece is
/// short, and says nothing of what is left (W16). `Empty` then, and nothing is taken.
#[inline(always)]
pub fn pull_quickly<L: Lines>(
    ring: impl Fn() -> L,
    still: impl Fn() -> bool,
    cursor: &AtomicU64,
    dst: &mut impl Sink,
) -> Result<(usize, Cursor), Error> {
    tries(TRIES, None, (&ring, &still), cursor, dst, false).unwrap_or(Err(Error::Empty))
}

/// Where others are quicker again and again, a long copy would never be committed: less at a time.
#[cold]
fn brief<L: Lines>(
    from: Option<Cursor>,
    here: (&impl Fn() -> L, &impl Fn() -> bool),
    cursor: &AtomicU64,
    dst: &mut impl Sink,
    peek: bool,
) -> Result<(usize, Cursor), Error> {
    let mut dst = Brief { left: BRIEF, dst };
    tries(BRIEF_TRIES, from, here, cursor, &mut dst, peek).unwrap_or(Err(Error::Corrupt))
}

/// The first [`BRIEF`] bytes of another's room.
struct Brief<'a, S> {
    left: usize,
    dst: &'a mut S,
}

impl<S: Sink> Sink for Brief<'_, S> {
    fn left(&self) -> usize {
        self.left.min(self.dst.left())
    }
    fn fill(&mut self, n: usize, f: impl FnMut(*mut u8, usize)) {
        self.left -= n.min(self.left);
        self.dst.fill(n, f);
    }
    fn rewind(&mut self) {
        self.left = BRIEF;
        self.dst.rewind();
    }
}

/// Up to `most` tries; `None` when others moved the cursor under each.
#[inline(always)]
fn tries<L: Lines>(
    most: u32,
    from: Option<Cursor>,
    (ring, still): (&impl Fn() -> L, &impl Fn() -> bool),
    cursor: &AtomicU64,
    dst: &mut impl Sink,
    peek: bool,
) -> Option<Result<(usize, Cursor), Error>> {
    for _ in 0..most {
        // Acquire: what another receiver gave back is not read again as if it were new.
        let word = cursor.load(Ordering::Acquire);
        let start = Cursor::unpack(word);
        if start.frozen || from.is_some_and(|from| from != start) {
            return Some(Err(Error::Empty));
        }
        let got = copy_out(&ring(), start, dst);
        if !still() {
            dst.rewind();
            return Some(Err(Error::Empty));
        }
        // Nothing, something impossible, or a peek that no commit confirms: true only if no other
        // receiver took this token meanwhile, or the sender may have reused its lines under our eyes.
        let settled = matches!(got, Ok((_, end)) if end != start && !peek);
        if !settled {
            // Acquire fence: what was looked at was looked at before the cursor is, again.
            fence(Ordering::Acquire);
            if cursor.load(Ordering::Relaxed) != word {
                dst.rewind();
                continue;
            }
        }
        let (n, end) = match got {
            Ok(got) => got,
            Err(e) => return Some(Err(e)),
        };
        if end == start {
            return Some(Err(Error::Empty));
        }
        if peek {
            // No sender publishes tokens of no bytes, and no receiver stops behind a token's last one. Who takes something
            // is past them by that; who takes nothing would find them again each time, and know no end.
            return Some(if n == 0 { Err(Error::Corrupt) } else { Ok((n, end)) });
        }
        // Release: the copy is done before the sender may reuse the lines. SeqCst, because the caller
        // may go on to arm the wake word, and this is the fence between.
        if cursor.compare_exchange(word, end.pack(), Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            if n == 0 {
                continue; // only empty tokens so far
            }
            return Some(Ok((n, end)));
        }
        dst.rewind();
    }
    None
}

#[inline(always)]
fn copy_out<L: Lines + ?Sized>(
    ring: &L,
    start: Cursor,
    dst: &mut impl Sink,
) -> Result<(usize, Cursor), Error> {
    let mut at = start;
    let mut total = 0;
    let mut walked = 0;
    while dst.left() > 0 && walked < ring.count() {
        let token = match ring::look(ring, at.pos) {
            Ok(t) => t,
            Err(Error::Empty) => break,
            // What stands before the bad header is good: deliver it first.
            Err(_) if total > 0 => break,
            Err(e) => return Err(e),
        };
        let off = usize::from(at.off);
        if off > token.len || token.len > MAX_TOKEN || token.kind != Kind::Data {
            // What stands before it is good.
            return if total > 0 { Ok((total, at)) } else { Err(Error::Corrupt) };
        }
        let n = (token.len - off).min(dst.left());
        let mut from = HEADER + off;
        dst.fill(n, |p, k| {
            // SAFETY: `p` is writable for `k` bytes by Sink's contract; off + n <= len, which look()
            // checked against the ring.
            unsafe { ring.get(at.pos, from, p, k) };
            from += k;
        });
        total += n;
        if off + n < token.len {
            at.off = (off + n) as u16;
            break;
        }
        walked += token.lines();
        at = Cursor { pos: at.pos.add(token.lines()), ..Cursor::default() };
    }
    Ok((total, at))
}

/// Sender: takes back what no receiver has committed (E8). Receivers that are copying it now will fail to
/// commit, and find the ring empty. Returns where the rest begins.
pub fn freeze(cursor: &AtomicU64) -> Cursor {
    // One instruction, so that a peer that keeps moving the cursor cannot hold us here.
    let frozen = Cursor { frozen: true, ..Cursor::default() }.pack();
    Cursor::unpack(cursor.fetch_or(frozen, Ordering::SeqCst))
}

/// Sender: copies out what it took back, from `at` on, and moves `at`.
pub fn retrieve<L: Lines + ?Sized>(ring: &L, at: &mut Cursor, dst: &mut impl Sink) -> Result<usize, Error> {
    let (n, end) = copy_out(ring, Cursor { frozen: false, ..*at }, dst)?;
    *at = end;
    Ok(n)
}

/// Whether a token waits at the cursor: one load of the cursor, one of the token.
#[inline(always)]
pub fn waiting<L: Lines + ?Sized>(ring: &L, cursor: &AtomicU64) -> bool {
    let at = Cursor::unpack(cursor.load(Ordering::Relaxed));
    if at.frozen {
        return false;
    }
    // Anything but a clean "empty" is for the receive call to find out about.
    !matches!(ring::look(ring, at.pos), Err(Error::Empty))
}

/// Bytes waiting, by walking the tokens; at most `limit` tokens are looked at (FIONREAD, `dp ls`).
pub fn bytes_waiting<L: Lines + ?Sized>(ring: &L, cursor: &AtomicU64, limit: usize) -> usize {
    let start = Cursor::unpack(cursor.load(Ordering::Acquire));
    if start.frozen {
        return 0;
    }
    let (mut pos, mut off, mut sum) = (start.pos, usize::from(start.off), 0usize);
    for _ in 0..limit {
        let Ok(token) = ring::look(ring, pos) else { break };
        if token.kind == Kind::Data {
            sum += token.len.saturating_sub(off);
        }
        off = 0;
        pos = pos.add(token.lines());
        if pos.since(start.pos) >= ring.count() {
            break;
        }
    }
    sum
}

/// The first position after `from` with no token yet: where the sender's tail was when looked at.
/// An edge-triggered watcher compares it with what it last reported (W6).
pub fn frontier<L: Lines + ?Sized>(ring: &L, cursor: &AtomicU64, from: Pos) -> Pos {
    let at = Cursor::unpack(cursor.load(Ordering::Acquire)).pos;
    // Start at the later of the two; a `from` outside cursor..cursor+count is from another lap.
    let mut pos = if from.since(at) <= ring.count() { from } else { at };
    for _ in 0..ring.count() {
        match ring::look(ring, pos) {
            Ok(token) => pos = pos.add(token.lines()),
            Err(_) => break,
        }
    }
    pos
}
