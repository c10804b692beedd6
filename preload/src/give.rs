//! A descriptor is given to somebody who does not see channels: the connection leaves for TCP, and where the sender does not
//! take back what is unread, a relay reads it for the stranger.

use dp_channel::family::Reason;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::leave::{leave, leave_and_read, Left};
use crate::{ends, relay, state};

/// How often, and how long at a time, whoever gives a descriptor away waits for a sender to take the rest back, ns.
const LOOKS: u32 = 50;
const LOOK: u32 = 100_000;

/// Somebody who does not see channels gets the connection behind `fd`: the descriptor to give, which is the end
/// of a relay where the sender cannot put on TCP what is unread, or does not. If there can be no relay either, the connection
/// is reset: the stranger must not take a part for the whole.
pub fn give(fd: i32, why: Reason) -> i32 {
    let Some(i) = fdtable::conn(fd) else { return fd };
    if let Some(end) = ends::of(i) {
        return end;
    }
    let left = leave_and_read(fd, why);
    let Some(c) = state::family().map(|family| Channel::new(family, fd, i)) else { return fd };
    let clean = match left {
        // What has the number by now is none of ours to judge.
        Left::Nothing | Left::Another => true,
        Left::Rest => briefly(|| c.is_taken_back() && c.is_clean_for_good()),
        Left::Inside | Left::Stranded => false,
    };
    if clean {
        return fd;
    }
    // A relay would wait for the lock of a call that may never go on.
    let end = if left == Left::Inside { None } else { relay::start(&c, i) };
    end.unwrap_or_else(|| {
        c.reset_by(why);
        fd
    })
}

/// There are no channels in this process from now on: somebody in it does not see them. Its connections leave for good.
pub fn give_up_all(why: Reason) {
    state::end_channels(why);
    fdtable::each(|fd, e| {
        if matches!(e, Entry::Conn(_)) {
            for_good(fd, why);
        }
    });
}

/// The same for the number `fd` itself.
pub fn give_number(fd: i32, why: Reason) {
    let end = give(fd, why);
    if end != fd {
        relay::put_at(end, fd);
    }
}

impl Channel {
    /// Whether the sender puts on TCP, within a moment, what was left. One that waits for this connection does it at once; one
    /// that does something else may not for long.
    fn is_taken_back(&self) -> bool {
        for _ in 0..LOOKS {
            raw::nap(LOOK);
            let inward = self.receiving();
            let look = || (self.has_unread(&inward), self.has_bells_left(&inward));
            match self.as_receiver(look) {
                Some((false, false)) => return true,
                // It has looked, and leaves it to us.
                Some((true, _)) if !inward.tx.can_take_back() => return false,
                _ => {}
            }
        }
        false
    }

    /// Nobody here reads the ring any more. A sender that had not heard of that yet may have put something there, or left
    /// something: false then.
    fn is_clean_for_good(&self) -> bool {
        let inward = self.receiving();
        inward.word.stops_reading();
        let clean = || !self.has_unread(&inward) && !self.has_bells_left(&inward);
        self.as_receiver(clean) == Some(true)
    }
}

/// From now on the process sees the connection behind `fd` as a stranger does. What its sender has not taken back yet
/// comes by TCP when that does; a relay would take it, and the end, from relatives that have the connection, too. What no
/// sender will take back, only a relay has.
pub fn for_good(fd: i32, why: Reason) {
    let Some(c) = Channel::of(fd) else { return };
    let shared = !c.is_ours_alone();
    if !shared || !is_taken_back(&c, fd, why) {
        give_number(fd, why);
    }
}

/// Somebody who does not see channels has the connection behind `fd` from now on, and others who do go on with it, too: the descriptor to
/// give. What is unread is for whoever comes first, so there is a relay, which would take it from the others, only where
/// the stranger would miss a part in the middle of the stream, or its own bytes pass others.
pub fn share_whole(fd: i32, why: Reason) -> i32 {
    let Some(i) = fdtable::conn(fd) else { return fd };
    if let Some(end) = ends::of(i) {
        return end;
    }
    let left = leave(fd, why);
    let Some(c) = state::family().map(|family| Channel::new(family, fd, i)) else { return fd };
    match left {
        Left::Stranded => relay::start(&c, i).unwrap_or(fd),
        Left::Rest => {
            briefly(|| c.is_taken_back());
            fd
        }
        Left::Nothing | Left::Inside | Left::Another => fd,
    }
}

/// Leaves. Whether there was a rest that its sender could take back: it had a moment for that.
fn is_taken_back(c: &Channel, fd: i32, why: Reason) -> bool {
    let rest = leave(fd, why) == Left::Rest;
    if rest {
        briefly(|| c.is_taken_back());
    }
    rest
}
