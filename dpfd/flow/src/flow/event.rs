//! What a flow tells whoever sends by it.

use core::fmt;

/// What happened to what was sent, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Event {
    /// Messages before this number, and behind those that an earlier event named, are with the receiver.
    Delivered {
        /// The first that is not.
        before: u64,
    },
    /// The incarnation is over.
    Down(Down),
    /// Messages that were accepted and not acknowledged when the incarnation ended. They may have come or not; the flow
    /// has forgotten them.
    Lost {
        /// The first of them.
        from: u64,
        /// The first behind them.
        before: u64,
    },
    /// The other end is known: messages flow.
    Up,
}

/// Why an incarnation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Down {
    /// Nothing was heard of the peer. The flow tries to reach it when there is something to send.
    Silent,
    /// The peer was restarted, and is there.
    Restarted,
    /// The peer sent parts that are no message.
    Broken,
    /// This end began anew, since the way became too short for parts that were on theirs
    /// ([`Flow::set_part_max`](crate::Flow::set_part_max)) or it was asked to ([`Flow::renew`](crate::Flow::renew)); the peer is
    /// there.
    Shortened,
}

/// Why a message was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum NotSent {
    /// `W` messages wait already. There is room after the next [`Event::Delivered`] or [`Event::Lost`].
    Full,
    /// It is longer than [`MESSAGE_MAX`](dp_abi::MESSAGE_MAX).
    TooLong,
    /// An [`Event::Lost`] has not been polled: whoever sends has to know of it before it goes on.
    Lost,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotSent::Full => "as many messages wait as can",
            NotSent::TooLong => "longer than a message may be",
            NotSent::Lost => "earlier messages were lost, which was not looked at",
        })
    }
}

impl core::error::Error for NotSent {}

/// How a flow is, for whoever shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct State {
    /// The other end is known.
    pub open: bool,
    /// Smoothed time until an answer, nanoseconds; 0: not known.
    pub round_trip: u64,
    /// The time-out, nanoseconds.
    pub timeout: u64,
    /// Parts on their way.
    pub flying: u32,
    /// Parts that wait to be sent again.
    pub lost: u32,
    /// Parts that may be on their way: the congestion window.
    pub window: u32,
    /// Parts that the peer has room for beyond those.
    pub room: u32,
    /// The user whom the other end claims to be.
    pub peer_user: u32,
    /// Of the incarnation whose parts this end takes, as [`Place::tag`](crate::Place::tag) has it; 0: there is none.
    pub tag: u32,
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Events {
    /// Messages before this one were told to be delivered or lost.
    told: u64,
    down: Option<Down>,
    pub lost: Option<(u64, u64)>,
    pub up: bool,
}

impl Events {
    /// An incarnation has ended, and with it so many messages are lost.
    pub fn ended(&mut self, why: Down, (from, before): (u64, u64)) {
        self.down = Some(why);
        self.up = false;
        if from < before {
            self.lost = Some((from, before));
        }
    }

    /// The oldest that was not told, where messages before `done` are delivered or lost.
    pub fn poll(&mut self, done: u64) -> Option<Event> {
        // What was lost begins where what was delivered ends.
        let before = self.lost.map_or(done, |(from, _)| from);
        if self.told < before {
            self.told = before;
            return Some(Event::Delivered { before });
        }
        if let Some(down) = self.down.take() {
            return Some(Event::Down(down));
        }
        if let Some((from, before)) = self.lost.take() {
            self.told = before;
            return Some(Event::Lost { from, before });
        }
        core::mem::take(&mut self.up).then_some(Event::Up)
    }
}
