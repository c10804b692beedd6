//! Edges whose senders are gone: read to their ends, and given back.

use std::sync::atomic::Ordering;

use super::endpoint::{Rx, UserEndpoint};
use super::shared::Command;

impl UserEndpoint {
    /// Lets go of the edges of senders that are gone. The service says that one is behind all else it had to say of it, so
    /// a longer edge of one that is marked is among what is adopted here, and not later.
    #[cold]
    pub(super) fn drop_ended(&self, rx: &mut Rx) {
        rx.tokens.mark_ended();
        if self.news.load(Ordering::Acquire) {
            self.adopt(rx);
        }
        rx.tokens.drop_ended();
    }

    /// Edges ended: their shares go back, and the service offers them to senders without an edge.
    #[cold]
    pub(super) fn give_back(&self, rx: &mut Rx) {
        let returned = core::mem::take(&mut rx.tokens.returned);
        if let Some(budget) = &mut self.arrivals().budget {
            budget.give(returned);
        }
        self.process.command(Command::Pool(self.entry.serial));
    }

    /// The service, when a sender has ended: what is over goes back, and what it published last is told. False if the
    /// receiver is in a call just now, so that this has to be done later.
    pub fn sender_ended(&self) -> bool {
        let Some(mut rx) = self.try_rx() else { return false };
        self.wake_dozer(&mut rx);
        self.drop_ended(&mut rx);
        if !rx.tokens.returned.is_nothing() {
            self.give_back(&mut rx);
        }
        // A sender that is killed before it rings leaves a message that nobody was told of.
        if self.something(&rx) {
            self.ring_self();
        }
        true
    }
}
