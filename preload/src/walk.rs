//! A walk over a program's scatter list: what a send takes from, what a receive fills.

use dp_channel::stream::{Sink, Source};
use libc::iovec;

/// Whether no program has memory there: the first page, or the kernel's half. The kernel would say EFAULT; we
/// would crash. One comparison; other bad addresses do crash the program, as dp-preload(7) says.
#[inline(always)]
pub fn nowhere<T>(p: *const T) -> bool {
    p.addr() < 4096 || is_kernels(p)
}

/// Whether it is in the kernel's half.
#[inline(always)]
fn is_kernels<T>(p: *const T) -> bool {
    // Elsewhere the top bit may belong to a tag.
    cfg!(target_arch = "x86_64") && (p.addr() as isize) < 0
}

/// The most bytes that one call moves, as in the kernel (read(2), send(2)): what is asked for beyond them is not.
pub const MOST: usize = 0x7fff_f000;
/// The most pieces of a scatter list.
const PIECES: usize = 1024;

/// Whether no call takes `n` for a length, as read(2) and write(2) say of it: often it is a -1 that a call before returned.
#[inline(always)]
pub fn is_no_length(n: usize) -> bool {
    (n as isize) < 0
}

/// Pieces of memory in a row. The program vouches for them, as for any call.
#[derive(Clone, Copy)]
pub struct Walk {
    at: *mut u8,
    here: usize,
    rest: *const iovec,
    pieces: usize,
    left: usize,
    start: (*mut u8, usize, *const iovec, usize, usize),
    bad: bool,
    refused: bool,
    cut: bool,
}

impl Walk {
    /// One buffer, up to [`MOST`] bytes of it.
    #[inline(always)]
    pub fn one(buf: *mut u8, len: usize) -> Walk {
        let len = len.min(MOST);
        Walk {
            at: buf,
            here: len,
            rest: core::ptr::null(),
            pieces: 0,
            left: len,
            start: (buf, len, core::ptr::null(), 0, len),
            bad: len > 0 && nowhere(buf),
            refused: len > 0 && is_kernels(buf),
            cut: false,
        }
    }

    /// A scatter list, up to [`MOST`] bytes of it. EMSGSIZE: it has too many pieces, which only calls with a message call so; EINVAL: a
    /// piece has [no length](is_no_length).
    ///
    /// # Safety
    ///
    /// `iov` is readable for `n` entries, or lies [`nowhere`].
    pub unsafe fn list(iov: *const iovec, n: usize) -> Result<Walk, i32> {
        if n > PIECES {
            return Err(libc::EMSGSIZE);
        }
        let nothing = core::ptr::null_mut();
        if n > 0 && nowhere(iov) {
            return Ok(Walk { bad: true, refused: true, ..Walk::one(nothing, 0) });
        }
        let (mut sum, mut bad, mut refused, mut cut) = (0usize, false, false, false);
        for i in 0..n {
            // SAFETY: below n.
            let piece = unsafe { &*iov.add(i) };
            if is_no_length(piece.iov_len) {
                return Err(libc::EINVAL);
            }
            bad |= piece.iov_len > 0 && nowhere(piece.iov_base);
            refused |= piece.iov_len > 0 && is_kernels(piece.iov_base);
            cut |= sum + piece.iov_len > MOST;
            sum = (sum + piece.iov_len).min(MOST);
        }
        let start = (nothing, 0, iov, n, sum);
        Ok(Walk { at: nothing, here: 0, rest: iov, pieces: n, left: sum, start, bad, refused, cut })
    }

    /// Bytes left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Pieces left, at most.
    pub fn pieces(&self) -> usize {
        self.pieces + usize::from(self.here > 0)
    }

    /// What is left as the program's own list has it: where that begins, its pieces and its bytes. `None`: a part of a piece is
    /// left before them, or not all of them is to be moved.
    pub fn whole_pieces(&self) -> Option<(*const iovec, usize, usize)> {
        (self.here == 0 && !self.cut).then_some((self.rest, self.pieces, self.left))
    }

    #[inline(always)]
    fn step(&mut self, mut n: usize, mut f: impl FnMut(*mut u8, usize)) {
        while n > 0 {
            if self.here == 0 {
                if self.pieces == 0 {
                    return;
                }
                // SAFETY: `pieces` entries are left at `rest`.
                let v = unsafe { *self.rest };
                // SAFETY: at most one past the end.
                self.rest = unsafe { self.rest.add(1) };
                self.pieces -= 1;
                (self.at, self.here) = (v.iov_base.cast(), v.iov_len);
                continue;
            }
            let k = n.min(self.here);
            f(self.at, k);
            // SAFETY: k <= here, inside the piece.
            self.at = unsafe { self.at.add(k) };
            self.here -= k;
            self.left -= k;
            n -= k;
        }
    }

    /// From here on, [`Sink::rewind`] comes back to this place.
    #[inline(always)]
    pub fn mark(&mut self) {
        self.start = (self.at, self.here, self.rest, self.pieces, self.left);
    }

    /// Whether a piece, or the list itself, lies [`nowhere`].
    #[inline(always)]
    pub fn is_bad(&self) -> bool {
        self.bad
    }

    /// Whether the kernel refuses it before it looks at the connection: the list, or a piece, is beyond what a program can have. One in
    /// the first page is like any other to it, until it has bytes to move.
    #[inline(always)]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Steps over `n` bytes.
    pub fn skip(&mut self, n: usize) {
        self.step(n, |_, _| {});
    }

    /// Writes what is left as a scatter list of at most `out.len()` pieces and `limit` bytes.
    pub fn fill_list<'a>(&self, out: &'a mut [iovec], limit: usize) -> &'a mut [iovec] {
        let mut n = 0;
        let mut copy = *self;
        copy.step(limit.min(self.left), |p, k| {
            if let Some(piece) = out.get_mut(n) {
                *piece = iovec { iov_base: p.cast(), iov_len: k };
                n += 1;
            }
        });
        &mut out[..n]
    }
}

impl Source for Walk {
    #[inline(always)]
    fn left(&self) -> usize {
        self.left
    }
    #[inline(always)]
    fn take(&mut self, n: usize, mut f: impl FnMut(*const u8, usize)) {
        self.step(n, |p, k| f(p.cast_const(), k));
    }
}

impl Sink for Walk {
    #[inline(always)]
    fn left(&self) -> usize {
        self.left
    }
    #[inline(always)]
    fn fill(&mut self, n: usize, f: impl FnMut(*mut u8, usize)) {
        self.step(n, f);
    }
    fn rewind(&mut self) {
        (self.at, self.here, self.rest, self.pieces, self.left) = self.start;
    }
}

/// A sink that throws away (MSG_TRUNC on TCP).
pub struct Discard {
    room: usize,
    left: usize,
}

impl Discard {
    /// Room for `n` bytes.
    pub fn new(n: usize) -> Discard {
        Discard { room: n, left: n }
    }
}

impl Sink for Discard {
    fn left(&self) -> usize {
        self.left
    }
    fn fill(&mut self, n: usize, mut f: impl FnMut(*mut u8, usize)) {
        let mut scratch = [0u8; 512];
        let mut n = n.min(self.left);
        self.left -= n;
        while n > 0 {
            let k = n.min(scratch.len());
            f(scratch.as_mut_ptr(), k);
            n -= k;
        }
    }
    fn rewind(&mut self) {
        self.left = self.room;
    }
}

#[cfg(test)]
mod tests;
