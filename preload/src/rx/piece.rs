//! Where a receive goes on that has something already. What one receive brings is one piece of the stream, as it is on TCP,
//! whoever else receives: where another one has taken what comes next, this one is over. That one is short in its place where
//! nothing is left (W16).

use core::sync::atomic::Ordering;

use dp_channel::family::End;
use dp_edge::ring::Cursor;

use crate::channel::Channel;

/// The last piece of a receive: where it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    epoch: u64,
    /// The ring's cursor behind it.
    cursor: Cursor,
    /// Piece a piece that came by TCP: bytes that were taken there.
    kernel: Option<u64>,
}

/// From where on a receive may take tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// Wherever the cursor is.
    Anywhere,
    /// From there alone.
    Here(Cursor),
    /// Somebody else has taken what comes next.
    Nowhere,
}

impl Piece {
    /// A piece of the ring in epoch `r`, which moved the cursor there.
    pub fn in_ring(r: u64, cursor: Cursor) -> Piece {
        Piece { epoch: r, cursor, kernel: None }
    }

    /// A piece that came by TCP in epoch `r`, up to there. Under the lock: no token is taken meanwhile.
    pub fn on_tcp(rx: &End, r: u64, kernel: u64) -> Piece {
        Piece { epoch: r, cursor: cursor(rx), kernel: Some(kernel) }
    }

    /// In the ring, in epoch `r`. Where the sender is further, what lay between the two epochs is not known any more.
    pub fn goes_on_in_ring(&self, rx: &End, r: u64) -> From {
        let (p, q, _) = rx.tx.beginnings();
        match r.wrapping_sub(self.epoch) {
            0 => From::Here(self.cursor),
            1 if self.kernel != Some(p) => From::Nowhere,
            1 => From::Here(self.cursor),
            2 if p != q && !rx.tx.moved(r) => From::Nowhere,
            2 => From::Here(self.cursor),
            _ => From::Anywhere,
        }
    }

    /// On TCP, in epoch `r`. Under the lock.
    pub fn goes_on_on_tcp(&self, c: &Channel, rx: &End, r: u64) -> bool {
        let taken = c.rx_kernel.load(Ordering::Relaxed);
        let untouched = || {
            let at = cursor(rx);
            (at.pos, at.off) == (self.cursor.pos, self.cursor.off)
                && taken <= c.rx_data.load(Ordering::Relaxed)
        };
        match r.wrapping_sub(self.epoch) {
            0 => self.kernel == Some(taken),
            1 => untouched(),
            2 => untouched() && (rx.tx.moved(r) || self.kernel == Some(rx.tx.beginnings().0)),
            _ => true,
        }
    }
}

/// Whether the cursor is not there any more.
pub(super) fn is_beyond(rx: &End, from: Cursor) -> bool {
    let at = cursor(rx);
    (at.pos, at.off) != (from.pos, from.off)
}

fn cursor(rx: &End) -> Cursor {
    Cursor::unpack(rx.rx.cursor.load(Ordering::Acquire))
}
