//! The sender's window: which parts are on their way, which arrived, and which are to be sent again.
//!
//! ```text
//!            first                            next            limit
//!   -----------|--------------------------------|---------------|--------
//!    taken     | flying, arrived, lost in any   | room that the | not yet
//!              | order; a part may be sent again| peer has      |
//!              |<------------------ at most W ----------------->|
//! ```
//!
//! A part is lost when [`REORDERED`] transmissions that were made after its own have arrived (RFC 9002 counts the same
//! way), so the loss of a copy is noticed like that of an original; or when nothing at all arrived until the time-out, and
//! then all that fly are given up: the sender goes back, but passes over what is known to have arrived. Of what was given up
//! nobody knows that it is lost: where one of these is acknowledged that was not sent again, answers were only late, and the
//! others fly again (RFC 4015).

use crate::frame::TOTAL;
use crate::number::{ahead, place};

/// Transmissions by which an answer may overtake another at first. Doubled whenever it was wrong.
const REORDERED: u32 = 3;
/// Parts that arrive without one that was wrongly taken for lost, after which half of what was added counts as over: a flow that
/// went by several ways at once, for a while, notices losses as soon as others again.
const STEADY: u32 = 1 << 14;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum State {
    Flying,
    Arrived,
    Lost,
}

/// What part has a number, and what became of it.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Sent {
    pub message: u64,
    /// Bytes of the message before it.
    pub begin: u32,
    pub bytes: u16,
    pub last: bool,
    state: State,
    /// Sent more than once.
    again: bool,
    /// Lost, or sent again, for nothing was heard until the time-out.
    given_up: bool,
    /// Its latest transmission: when, and the how manieth of all.
    at: u64,
    order: u32,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Window<const W: usize> {
    first: u32,
    next: u32,
    /// The first number that the peer has no room for.
    limit: u32,
    flying: u32,
    lost: u32,
    /// The order of the next transmission, and one behind the latest that arrived.
    order: u32,
    latest: u32,
    reordered: u32,
    /// Parts that arrived since that was last changed.
    steady: u32,
    /// What was sent before this time says nothing of how long an answer takes now.
    timed_from: u64,
    sent: [Sent; W],
}

/// What an acknowledgement told that was not known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct News {
    /// Parts that arrived.
    pub parts: u32,
    /// Messages of which all was taken.
    pub messages: u64,
    /// How long the latest part that was sent once took, nanoseconds.
    pub took: Option<u64>,
    /// Bytes of the longest part that arrived, with the message's length where that stands before it.
    pub longest: u16,
    /// Whether the peer took anything, or has more room.
    pub moved: bool,
    /// What was given up had arrived: answers were late.
    pub late: bool,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged<'a> {
    pub number: u32,
    pub room: u16,
    pub arrived: u16,
    /// `arrived`, from its seventeenth bit on.
    pub more: &'a [u8],
}

impl Acknowledged<'_> {
    fn bits(&self) -> impl Iterator<Item = u32> + '_ {
        let head = (0..16).filter(|i| self.arrived >> i & 1 != 0);
        let more = self.more.iter().zip((16..).step_by(8));
        let more =
            more.flat_map(|(byte, at)| (0..8).filter(move |i| byte >> i & 1 != 0).map(move |i| at + i));
        head.chain(more).map(|i| self.number.wrapping_add(i))
    }
}

impl<const W: usize> Window<W> {
    pub fn new(first: u32) -> Window<W> {
        let none = Sent {
            message: 0,
            begin: 0,
            bytes: 0,
            last: false,
            state: State::Arrived,
            again: false,
            given_up: false,
            at: 0,
            order: 0,
        };
        Window {
            first,
            next: first,
            limit: first,
            flying: 0,
            lost: 0,
            order: 0,
            latest: 0,
            reordered: REORDERED.min(W as u32 / 2),
            steady: 0,
            timed_from: 0,
            sent: [none; W],
        }
    }

    /// All numbers begin anew. What was on its way is forgotten. Transmissions are counted on: a reaction to a loss that was among
    /// them is over for those that follow.
    pub fn restart(&mut self, first: u32, room: u16) {
        *self = Window { order: self.order, latest: self.order, ..Window::new(first) };
        self.limit = first.wrapping_add(room.into());
    }

    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether anything was sent that was not taken.
    pub fn is_waiting(&self) -> bool {
        self.first != self.next
    }

    /// Parts on their way.
    pub fn flying(&self) -> u32 {
        self.flying
    }

    /// Parts to be sent again.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Parts that may still get a number.
    pub fn room(&self) -> u32 {
        let here = W as u32 - self.next.wrapping_sub(self.first);
        here.min(ahead(self.limit, self.next).unwrap_or(0))
    }

    /// Bytes of the longest part that did not arrive, as far as is known.
    pub fn longest(&self) -> u16 {
        let waiting = self.numbers().map(|n| &self.sent[place::<W>(n)]).filter(|s| s.state != State::Arrived);
        waiting.map(|sent| sent.bytes).max().unwrap_or(0)
    }

    /// The order of the next transmission.
    pub fn order(&self) -> u32 {
        self.order
    }

    /// A new part gets its number. To be called where there is room.
    pub fn push(&mut self, now: u64, message: u64, begin: u32, bytes: u16, last: bool) -> u32 {
        debug_assert!(self.room() > 0);
        let number = self.next;
        let order = self.order;
        let (state, again, given_up) = (State::Flying, false, false);
        self.sent[place::<W>(number)] =
            Sent { message, begin, bytes, last, state, again, given_up, at: now, order };
        self.next = number.wrapping_add(1);
        self.order = order.wrapping_add(1);
        self.flying += 1;
        number
    }

    /// The first part that is to be sent again.
    pub fn first_lost(&self) -> Option<(u32, Sent)> {
        if self.lost == 0 {
            return None;
        }
        self.numbers().map(|n| (n, self.sent[place::<W>(n)])).find(|(_, sent)| sent.state == State::Lost)
    }

    /// It is sent again.
    pub fn repeat(&mut self, now: u64, number: u32) {
        let order = self.order;
        let sent = &mut self.sent[place::<W>(number)];
        (sent.state, sent.again, sent.at, sent.order) = (State::Flying, true, now, order);
        self.order = order.wrapping_add(1);
        self.lost -= 1;
        self.flying += 1;
    }

    /// Takes an acknowledgement. [`None`]: it speaks of what was never sent, and nothing of it was believed. One that was
    /// overtaken by a later one tells nothing.
    pub fn acknowledge(
        &mut self,
        now: u64,
        said: Acknowledged<'_>,
        plausible: impl Fn(u64) -> bool,
    ) -> Option<News> {
        let sent = self.next.wrapping_sub(self.first);
        let mut news = News::default();
        let Some(taken) = ahead(said.number, self.first) else {
            return Some(news);
        };
        if taken > sent || said.bits().any(|n| n.wrapping_sub(self.first) >= sent) {
            return None;
        }
        let mut newest = None;
        for number in self.numbers().take(taken as usize) {
            self.arrive(number, now, &plausible, &mut newest, &mut news);
            news.messages += u64::from(self.sent[place::<W>(number)].last);
        }
        self.first = said.number;
        for number in said.bits() {
            self.arrive(number, now, &plausible, &mut newest, &mut news);
        }
        let limit = said.number.wrapping_add(said.room.into());
        news.moved = taken > 0 || ahead(limit, self.limit).is_some_and(|more| more > 0);
        if news.moved && ahead(limit, self.limit).is_some() {
            self.limit = limit;
        }
        news.took = newest.map(|(_, took)| took);
        Some(news)
    }

    /// A part is there. `newest` is the latest transmission that says how long it took.
    fn arrive(
        &mut self,
        number: u32,
        now: u64,
        plausible: &impl Fn(u64) -> bool,
        newest: &mut Option<(u32, u64)>,
        news: &mut News,
    ) {
        let sent = &mut self.sent[place::<W>(number)];
        match sent.state {
            State::Arrived => return,
            State::Flying => self.flying -= 1,
            State::Lost => self.lost -= 1,
        }
        let was_lost = sent.state == State::Lost;
        sent.state = State::Arrived;
        news.parts += 1;
        self.steady += 1;
        if self.steady == STEADY {
            (self.reordered, self.steady) = ((self.reordered / 2).max(REORDERED.min(W as u32 / 2)), 0);
        }
        let head = if sent.begin == 0 && !sent.last { TOTAL } else { 0 };
        news.longest = news.longest.max(sent.bytes.saturating_add(head));
        let took = now.saturating_sub(sent.at);
        let is_earlier = sent.again && (was_lost || !plausible(took));
        if sent.given_up && (was_lost || is_earlier) {
            // By the time-out, which says nothing of how far answers overtake one another.
            news.late = true;
        } else if was_lost || is_earlier {
            (self.reordered, self.steady) = ((2 * self.reordered).min(W as u32 / 2), 0);
        }
        if is_earlier {
            // An earlier copy came after all. Nobody knows when this one was sent.
            return;
        }
        if ahead(sent.order, self.latest).is_some() {
            self.latest = sent.order.wrapping_add(1);
        }
        if !sent.again
            && sent.at >= self.timed_from
            && newest.is_none_or(|(order, _)| ahead(sent.order, order).is_some())
        {
            *newest = Some((sent.order, took));
        }
    }

    /// Which parts are lost by now: how many, and the latest order among them.
    pub fn find_lost(&mut self) -> Option<(u32, u32)> {
        let mut found: Option<(u32, u32)> = None;
        if self.flying == 0 || ahead(self.latest, self.order.wrapping_sub(self.flying)).is_none() {
            return None;
        }
        // Of three on their way, no three can overtake the first (RFC 5827).
        let patience = self.reordered.min(self.next.wrapping_sub(self.first) - 1).max(1);
        for number in self.numbers() {
            let sent = &mut self.sent[place::<W>(number)];
            // `latest` is one behind the order that arrived.
            let overtaken = ahead(self.latest, sent.order).is_some_and(|by| by > patience);
            if sent.state == State::Flying && overtaken {
                (sent.state, sent.given_up) = (State::Lost, false);
                self.flying -= 1;
                self.lost += 1;
                let order = sent.order;
                found = Some(found.map_or((1, order), |(n, latest)| {
                    (n + 1, if ahead(order, latest).is_some() { order } else { latest })
                }));
            }
        }
        found
    }

    /// What is on its way goes by another one than what is sent from now on.
    pub fn time_from(&mut self, now: u64) {
        self.timed_from = now;
    }

    /// Goes back: all that fly are given up.
    pub fn give_up(&mut self) {
        for number in self.numbers() {
            let sent = &mut self.sent[place::<W>(number)];
            if sent.state == State::Flying {
                (sent.state, sent.given_up) = (State::Lost, true);
            }
        }
        self.lost += self.flying;
        self.flying = 0;
    }

    /// Answers were only late: what was given up and not sent again flies as before.
    pub fn take_back(&mut self) {
        for number in self.numbers() {
            let sent = &mut self.sent[place::<W>(number)];
            if sent.state == State::Lost && sent.given_up {
                (sent.state, sent.given_up) = (State::Flying, false);
                self.lost -= 1;
                self.flying += 1;
            }
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u32> + use<W> {
        let first = self.first;
        (0..self.next.wrapping_sub(first)).map(move |i| first.wrapping_add(i))
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests;
