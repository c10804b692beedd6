//! Messages of one endpoint there to one here, until they are whole.
//!
//! A message of one part goes from its frame into its receiver's pool. Of a longer one each part is kept, and acknowledged;
//! the last part is taken when the message has gone into the pool, and so tells the sender that it has. If this process ends
//! before, the sender sends the whole message again.
//!
//! What lies here is bounded for each other node, and whoever does not read must not use that up: half of it is only for messages
//! whose receivers have room for them, so that they leave it. Where it is used up all the same, one on which nothing
//! happens for long is given up ([`Traffic::give_up_stalled`](crate::traffic::Traffic::give_up_stalled)): its sender has it still.

use dp_flow::{Part, Place};

/// Bytes that another node makes this process keep.
#[derive(Debug)]
pub struct Budget {
    left: usize,
    /// Who has some of it.
    holders: usize,
    /// It was used up when somebody needed some.
    wanted: bool,
}

impl Budget {
    /// So many.
    pub fn new(bytes: usize) -> Budget {
        Budget { left: bytes, holders: 0, wanted: false }
    }

    /// What is left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether it was used up when somebody needed some, since this was asked last.
    pub fn was_wanted(&mut self) -> bool {
        core::mem::take(&mut self.wanted)
    }

    /// Takes so many, if there are, of `most` in all. The first one always gets what it wants, or a long message could never come;
    /// but of the last half only one gets anything whose receiver has room.
    fn reserve(&mut self, bytes: usize, most: usize, has_room: impl FnOnce() -> bool) -> bool {
        if bytes.saturating_add(most / 2) > self.left && !has_room() {
            return false;
        }
        if bytes > self.left && self.holders > 0 {
            self.wanted = true;
            return false;
        }
        self.left = self.left.saturating_sub(bytes);
        self.holders += 1;
        true
    }

    fn give_back(&mut self, bytes: usize, most: usize) {
        self.left = (self.left + bytes).min(most);
        self.holders = self.holders.saturating_sub(1);
    }
}

/// A message that is not whole yet.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    /// What it has of the budget; nothing: no message has begun.
    reserved: Option<usize>,
    /// The tag of the incarnation in which it began.
    tag: u32,
}

/// Where a message goes.
pub trait Receiver {
    /// Whether it is there.
    fn is_there(&mut self) -> bool;
    /// Whether one that is there has room now for a message of so many bytes.
    fn has_room(&mut self, bytes: usize) -> bool;
    /// Takes a message, and true says so; then this is the place of its flow.
    fn take(&mut self, message: &[u8], immediate: Option<u64>, place: Place) -> bool;
}

impl Incoming {
    /// Takes a part, and true says so; `most` is the whole budget.
    pub fn put(&mut self, part: Part<'_>, budget: &mut Budget, most: usize, to: &mut impl Receiver) -> bool {
        let whole = part.is_last();
        if part.begin == 0 {
            // What was there of another message is void: its sender begins anew.
            self.clear(budget, most);
            if whole {
                return to.take(part.bytes, part.immediate, part.place);
            }
            // A receiver that is not there must not use up what others could have.
            let total = part.total as usize;
            if !to.is_there() || !budget.reserve(total, most, || to.has_room(total)) {
                return false;
            }
            (self.reserved, self.tag) = (Some(total), part.place.tag);
            if self.bytes.try_reserve_exact(total).is_err() {
                self.clear(budget, most);
                return false;
            }
        }
        debug_assert_eq!(self.bytes.len(), part.begin as usize, "the flow gives parts in order");
        self.bytes.extend_from_slice(part.bytes);
        if !whole {
            return true;
        }
        let taken = to.take(&self.bytes, part.immediate, part.place);
        if taken {
            self.clear(budget, most);
        } else {
            // It is offered again.
            self.bytes.truncate(self.bytes.len() - part.bytes.len());
        }
        taken
    }

    /// Whether there is something of a message.
    pub fn holds(&self) -> bool {
        self.reserved.is_some()
    }

    /// Forgets it unless it is of the incarnation with that tag: the rest of it does not come.
    pub fn clear_former(&mut self, tag: u32, budget: &mut Budget, most: usize) {
        if self.tag != tag {
            self.clear(budget, most);
        }
    }

    /// Forgets what there is of a message.
    pub fn clear(&mut self, budget: &mut Budget, most: usize) {
        if let Some(bytes) = self.reserved.take() {
            budget.give_back(bytes, most);
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
