//! A wire between two ends: what becomes of frames on their way.

use std::collections::VecDeque;

use crate::input::Input;

/// Frames that are remembered, to come again.
const REMEMBERED: usize = 32;

/// Something that arrives.
#[derive(Debug)]
pub struct Arriving {
    /// At which end.
    pub to: usize,
    /// The frame.
    pub frame: Vec<u8>,
    /// Nobody sent it like that.
    pub forged: bool,
}

/// Frames on their way.
#[derive(Debug, Default)]
pub struct Wire {
    flying: VecDeque<(usize, Vec<u8>)>,
    former: VecDeque<(usize, Vec<u8>)>,
}

impl Wire {
    /// A frame was sent to that end.
    pub fn put(&mut self, to: usize, frame: &[u8]) {
        if self.former.len() == REMEMBERED {
            self.former.pop_front();
        }
        self.former.push_back((to, frame.to_vec()));
        self.flying.push_back((to, frame.to_vec()));
    }

    /// Whether none is on its way.
    pub fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// The next one, as it was sent.
    pub fn take_next(&mut self) -> Option<Arriving> {
        let (to, frame) = self.flying.pop_front()?;
        Some(Arriving { to, frame, forged: false })
    }

    /// What arrives next, as the input says.
    pub fn arrive(&mut self, input: &mut Input<'_>) -> Option<Arriving> {
        let how = input.byte();
        match how % 11 {
            // It is lost.
            1 => {
                self.take_next();
                return None;
            }
            // It comes once more later.
            2 => {
                let again = self.flying.front()?.clone();
                self.flying.push_back(again);
            }
            // The last one overtakes all others.
            3 => {
                let last = self.flying.pop_back()?;
                self.flying.push_front(last);
            }
            // One of before comes again.
            4 => {
                let at = usize::from(input.byte()) % self.former.len().max(1);
                let (to, frame) = self.former.get(at)?.clone();
                return Some(Arriving { to, frame, forged: false });
            }
            _ => {}
        }
        let mut next = self.take_next()?;
        match how % 11 {
            // Some of its bytes are others.
            5 | 6 => {
                for _ in 0..1 + how % 3 {
                    let at = usize::from(input.half()) % next.frame.len().max(1);
                    if let Some(byte) = next.frame.get_mut(at) {
                        *byte ^= input.byte();
                    }
                }
                next.forged = true;
            }
            // A field of its head is another one.
            7 => {
                let (at, value) = (2 * usize::from(input.byte() % 32), input.word().to_be_bytes());
                let long = input.byte() % 2 == 0;
                let (at, value) = if long { (at & !3, &value[..]) } else { (at, &value[2..]) };
                if let Some(field) = next.frame.get_mut(at..at + value.len()) {
                    field.copy_from_slice(value);
                }
                next.forged = true;
            }
            // It has an end of its own.
            8 => {
                next.frame.truncate(usize::from(input.half()));
                next.frame.extend_from_slice(input.bytes());
                next.forged = true;
            }
            // It comes back to who sent it.
            9 => {
                next.to = 1 - next.to;
                next.forged = true;
            }
            _ => {}
        }
        Some(next)
    }
}
