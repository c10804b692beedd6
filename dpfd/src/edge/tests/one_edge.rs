//! An edge of messages, whose receiver is one thread at a time.

use dp_edge::ring::{self, Cursor, Kind, Lines, Tail};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::lines::{at_line, Heap};
use dp_edge::Error;
use loom::thread;

use crate::edge::message;

pub struct Edge {
    ring: Heap,
    cursor: AtomicU64,
}

pub fn edge() -> Edge {
    Edge { ring: Heap::new(4), cursor: AtomicU64::new(0) }
}

impl Edge {
    /// With `fence` false the token is published by a plain release.
    pub fn publish(&self, tail: &mut Tail, i: u64, fence: bool) {
        if fence {
            while message::send_bytes(&self.ring, tail, &self.cursor, &i.to_le_bytes()).is_err() {
                thread::yield_now();
            }
        } else {
            ring::invalidate_next(&self.ring, tail.pos, 1);
            let stamp = tail.pos.raw() | 0x8000_0000;
            self.ring.header(tail.pos).store(stamp << 32 | 8, Ordering::Release);
            tail.pos = tail.pos.add(1);
        }
    }

    fn look(&self) -> Option<Cursor> {
        let at = Cursor::unpack(self.cursor.load(Ordering::Relaxed)).pos;
        match ring::look(&self.ring, at) {
            Ok(token) => {
                assert_eq!((token.kind, token.len), (Kind::Data, 8));
                Some(at_line(at.add(token.lines())))
            }
            Err(e) => {
                assert_eq!(e, Error::Empty);
                None
            }
        }
    }

    /// A receive that does not sleep.
    pub fn take(&self) -> bool {
        let end = self.look();
        if let Some(end) = end {
            self.cursor.store(end.pack(), Ordering::Release);
        }
        end.is_some()
    }

    pub fn waiting(&self) -> bool {
        self.look().is_some()
    }
}
