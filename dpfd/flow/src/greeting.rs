//! Who speaks with whom: how a flow begins, and begins anew when one side was restarted.
//!
//! Each side has a *name*, a number that it never used before. A pair of names is one incarnation of the flow, and all its
//! frames carry a tag that is made of both, so none of another incarnation is taken for one of this. HELLOs say names:
//! the sender's, and the receiver's as far as it is known.
//!
//! ```text
//!     something to send, or                      a HELLO that calls me by my name:
//!     a frame of another incarnation             the peer's name is known
//!   +---------+                    +---------+                         +-----------+
//!   | resting |------------------->| opening |------------------------>|   open    |
//!   +---------+                    +---------+                         +-----------+
//!        ^                           time-out: HELLO {mine, nobody}     time-out: HELLO {mine, theirs}
//!        |                           other HELLO: {mine, theirs}             |
//!        |                                                                   | any frame with our tag:
//!        | restart(): silence, nonsense; I get a new name                    v the peer is open, too
//!        +------------------------------------------------------------ +-----------+
//!                                                                      | confirmed |
//!   in open and confirmed:                                             +-----------+
//!     a HELLO of whom I do not know: HELLO {candidate, theirs}; and the flow goes on
//!     a HELLO that calls me by the candidate's name, or a frame with its tag: that is who is there now. Open with it
//! ```
//!
//! The *candidate* is a new name of mine, which only whoever is there now can know. So a HELLO that was long on its way
//! changes nothing: the answer to it is not understood by those who are there, or they see in it that their own
//! incarnation is the current one, and leave it at that. A name may be told to several before one of them is the peer, but a
//! pair of names is never used again, so with a tag beside it a part's number never means two things.

use dp_abi::frame2::tag;

use crate::frame::Hello;
use crate::Refused;

/// The first time until a HELLO is repeated, nanoseconds. It doubles.
const PATIENCE: u64 = 20_000_000;
/// The longest.
const PATIENCE_MAX: u64 = 1_000_000_000;
/// So many answers in a row to HELLOs that would end an incarnation: two that were restarted at once and had answered each
/// other's former selves need two each. Strangers get no more of them than that.
const OFFERS: u8 = 4;
/// And then none for this time, nanoseconds. It doubles until an incarnation is confirmed.
const OFFERS_GAP: u64 = 1_000_000;

/// A HELLO that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Reply {
    pub mine: u32,
    /// 0: not known.
    pub yours: u32,
    pub ask: bool,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Greeting {
    mine: u32,
    theirs: Option<u32>,
    confirmed: bool,
    /// A name of mine for a peer that may have been restarted, and its HELLO.
    candidate: Option<(u32, Hello)>,
    /// The name that was made last.
    name: u32,
    reply: Option<Reply>,
    /// When to send a HELLO by itself; nothing: not wanted.
    at: Option<u64>,
    patience: u64,
    /// How often the candidate's name may still be told, from when on as often again, and how long not after that.
    offers: u8,
    offers_from: u64,
    offers_gap: u64,
}

impl Greeting {
    pub fn new(incarnation: u32) -> Greeting {
        let mut greeting = Greeting {
            mine: 0,
            theirs: None,
            confirmed: false,
            candidate: None,
            name: incarnation,
            reply: None,
            at: None,
            patience: PATIENCE,
            offers: OFFERS,
            offers_from: 0,
            offers_gap: OFFERS_GAP,
        };
        greeting.mine = greeting.new_name();
        greeting
    }

    /// Whether the peer is known to speak with this incarnation.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The tag of frames to the peer; 0: it is not known.
    pub fn outgoing(&self) -> u32 {
        self.theirs.map_or(0, |theirs| tag(self.mine, theirs))
    }

    /// The tag of frames from the peer; 0: it is not known.
    pub fn incoming(&self) -> u32 {
        self.theirs.map_or(0, |theirs| tag(theirs, self.mine))
    }

    /// A peer is wanted: there is something to say to it.
    pub fn want(&mut self, now: u64) {
        if self.theirs.is_none() && self.at.is_none() {
            self.at = Some(now);
        }
    }

    /// This incarnation is over, and no peer is known.
    pub fn restart(&mut self) {
        self.mine = self.new_name();
        (self.theirs, self.candidate, self.reply) = (None, None, None);
        (self.confirmed, self.at, self.patience) = (false, None, PATIENCE);
    }

    /// A HELLO came. True: its sender is the peer from now on.
    pub fn hello(&mut self, now: u64, hello: &Hello) -> bool {
        let Some(theirs) = self.theirs else {
            if hello.yours == self.mine {
                self.adopt(now, self.mine, hello);
                return true;
            }
            self.reply = Some(Reply { mine: self.mine, yours: hello.mine, ask: true });
            return false;
        };
        if hello.current == tag(theirs, self.mine) {
            self.confirm();
            self.answer(theirs, hello.ask);
            return false;
        }
        // It has not heard of this incarnation yet; or it had not when it sent this. Whatever it calls this end: by that name of
        // its own it speaks with this one only.
        if hello.mine == theirs {
            self.answer(theirs, hello.ask);
            return false;
        }
        let candidate = match self.candidate {
            // Whoever knows this name is there now.
            Some((mine, _)) if mine == hello.yours => {
                self.adopt(now, mine, hello);
                return true;
            }
            Some((mine, _)) => mine,
            None => self.new_name(),
        };
        self.candidate = Some((candidate, *hello));
        if self.offers_from <= now {
            self.offers_from = now.saturating_add(self.offers_gap);
            self.offers_gap = (2 * self.offers_gap).min(PATIENCE_MAX);
            self.offers = OFFERS;
        }
        if self.offers > 0 {
            self.offers -= 1;
            self.reply = Some(Reply { mine: candidate, yours: hello.mine, ask: true });
        }
        false
    }

    /// A frame with this tag came that is no HELLO. If its sender is the peer only from now on: with which HELLO it had
    /// said so.
    pub fn frame(&mut self, now: u64, found: u32) -> Result<Option<Hello>, Refused> {
        let Some(theirs) = self.theirs else {
            // Somebody takes this end for another incarnation, and is told.
            self.want(now);
            return Err(Refused::Early);
        };
        if found == tag(theirs, self.mine) {
            self.confirm();
            return Ok(None);
        }
        match self.candidate {
            Some((mine, hello)) if found == tag(hello.mine, mine) => {
                self.adopt(now, mine, &hello);
                self.confirm();
                self.reply = None;
                Ok(Some(hello))
            }
            _ => Err(Refused::Incarnation),
        }
    }

    /// The HELLO that is due, by itself or as an answer.
    pub fn take(&mut self, now: u64) -> Option<Reply> {
        if self.reply.is_none() && self.at.is_some_and(|at| at <= now) {
            self.at = Some(now.saturating_add(self.patience));
            self.patience = (2 * self.patience).min(PATIENCE_MAX);
            return Some(Reply { mine: self.mine, yours: self.theirs.unwrap_or(0), ask: true });
        }
        self.reply.take()
    }

    /// When a HELLO is due by itself.
    pub fn due(&self) -> Option<u64> {
        self.at
    }

    fn adopt(&mut self, now: u64, mine: u32, hello: &Hello) {
        (self.mine, self.theirs, self.candidate) = (mine, Some(hello.mine), None);
        self.confirmed = false;
        self.patience = PATIENCE;
        self.at = Some(now.saturating_add(PATIENCE));
        if hello.current == tag(hello.mine, mine) {
            self.confirm();
        }
        self.answer(hello.mine, true);
    }

    fn confirm(&mut self) {
        self.confirmed = true;
        self.at = None;
        self.offers_gap = OFFERS_GAP;
    }

    fn answer(&mut self, theirs: u32, wanted: bool) {
        if wanted {
            self.reply = Some(Reply { mine: self.mine, yours: theirs, ask: !self.confirmed });
        }
    }

    /// A full cycle through all numbers (Knuth's condition), so none comes again; from a random place none of an earlier
    /// process does either, but by chance.
    fn new_name(&mut self) -> u32 {
        loop {
            self.name = self.name.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if self.name != 0 {
                return self.name;
            }
        }
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests;
