//! A walk over a program's scatter list: what a send takes from, what a receive fills.

use dpfd::edge::stream::{Sink, Source};
use libc::iovec;

/// Pieces of memory in a row. The program vouches for them, as for any call.
#[derive(Clone, Copy)]
pub struct Walk {
    at: *mut u8,
    here: usize,
    rest: *const iovec,
    pieces: usize,
    left: usize,
    start: (*mut u8, usize, *const iovec, usize, usize),
}

impl Walk {
    /// One buffer.
    #[inline(always)]
    pub fn one(buf: *mut u8, len: usize) -> Walk {
        Walk {
            at: buf,
            here: len,
            rest: core::ptr::null(),
            pieces: 0,
            left: len,
            start: (buf, len, core::ptr::null(), 0, len),
        }
    }

    /// A scatter list. `None` when its sum overflows or it is too long (EINVAL).
    ///
    /// # Safety
    ///
    /// `iov` is readable for `n` entries.
    pub unsafe fn list(iov: *const iovec, n: usize) -> Option<Walk> {
        if n > 1024 {
            return None;
        }
        let mut sum = 0usize;
        for i in 0..n {
            // SAFETY: below n.
            sum = sum.checked_add(unsafe { (*iov.add(i)).iov_len })?;
        }
        if sum > isize::MAX as usize {
            return None;
        }
        let nothing = core::ptr::null_mut();
        Some(Walk { at: nothing, here: 0, rest: iov, pieces: n, left: sum, start: (nothing, 0, iov, n, sum) })
    }

    /// Bytes left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.left
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

    /// Whether the first piece lies where no program has memory. The kernel would say EFAULT; we would crash.
    /// Other bad addresses do crash the program: dp-preload(7) says so.
    #[inline(always)]
    pub fn is_bad(&self) -> bool {
        self.here > 0 && (self.at as usize) < 4096
    }

    /// Steps over `n` bytes.
    pub fn skip(&mut self, n: usize) {
        self.step(n, |_, _| {});
    }

    /// Writes what is left as a scatter list of at most `out.len()` pieces and `limit` bytes.
    pub fn fill_list<'a>(&self, out: &'a mut [iovec], limit: usize) -> &'a mut [iovec] {
        let mut copy = *self;
        let mut n = 0;
        copy.step_pieces(limit.min(self.left), out, &mut n);
        &mut out[..n]
    }

    fn step_pieces(&mut self, limit: usize, out: &mut [iovec], n: &mut usize) {
        let mut left = limit;
        while left > 0 && *n < out.len() {
            if self.here == 0 {
                if self.pieces == 0 {
                    return;
                }
                // SAFETY: as in step().
                let v = unsafe { *self.rest };
                // SAFETY: as in step().
                self.rest = unsafe { self.rest.add(1) };
                self.pieces -= 1;
                (self.at, self.here) = (v.iov_base.cast(), v.iov_len);
                continue;
            }
            let k = left.min(self.here);
            out[*n] = iovec { iov_base: self.at.cast(), iov_len: k };
            *n += 1;
            left -= k;
            self.here = 0;
        }
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
