//! Memory for parts that came before their turn: less where there is little left, and more for flows that are used.

use super::{Traffic, ACTIVE};
use crate::local::Message;
use crate::WINDOW;

impl<M: Message> Traffic<M> {
    /// Bytes that it is to have for parts, if that is more than it has: others that begin and do nothing leave them to it.
    pub fn wants_memory(&self) -> Option<usize> {
        let most = WINDOW * usize::from(self.part_most);
        (self.active >= ACTIVE && self.memory < most).then_some(most)
    }

    /// Has so many bytes for parts, out of what is left for them, if it can now.
    pub fn grow(&mut self, now: u64, memory: usize, left: &mut usize) {
        if self.flow.grow(now, vec![0; memory]).is_ok() {
            *left += self.charged;
            self.memory = memory;
            self.charge(left);
        }
    }

    /// Takes the memory of its parts from what is left for them, as far as that goes.
    pub fn charge(&mut self, left: &mut usize) {
        self.charged = self.memory.min(*left);
        *left -= self.charged;
    }

    /// Bytes that it took, and that are left when it is forgotten.
    pub fn charged(&self) -> usize {
        self.charged
    }
}
