//! The channels on which a poll says that it sleeps, and how it is woken there (W2).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Stage};
use libc::pollfd;

use super::{live, Event, Flight, IN};
use crate::channel::Channel;
use crate::rx::Settled;
use crate::{epoll, fdtable, kept, link};

/// Channels that are remembered without memory that has to be had first.
const FEW: usize = 24;
/// Room for what becomes a channel in a long list after it was counted.
const SPARE: usize = 8;

/// A connection whose word says that this thread sleeps.
#[derive(Clone, Copy, Default)]
pub(super) struct Sleeper {
    /// Its entry in the table of descriptors.
    entry: u32,
    /// The use of its slot, and where that is: in the same entry of the family, a relative may have another connection since.
    generation: u32,
    slot: u64,
}

impl Sleeper {
    fn of(entry: u32, c: &Conn) -> Sleeper {
        let (generation, slot) = (c.generation.load(Ordering::Relaxed), c.offer.load(Ordering::Acquire));
        Sleeper { entry, generation, slot }
    }

    fn conn(&self, family: Family) -> Option<&'static Conn> {
        let c = family.conn(fdtable::conn_of(self.entry)?);
        let now = Sleeper::of(self.entry, c);
        let is_same = (now.generation, now.slot) == (self.generation, self.slot);
        (is_same && matches!(c.stage(), Stage::Accepted | Stage::Live)).then_some(c)
    }
}

/// Calls `f` with room for those of a list, as far as there is memory.
pub(super) fn with_room<R>(fds: &mut [pollfd], f: impl FnOnce(&mut [pollfd], &mut [Sleeper]) -> R) -> R {
    let n = match fds.len() {
        all @ ..=FEW => all,
        all => all.min(fds.iter().filter(|p| fdtable::conn(p.fd).is_some()).count() + SPARE),
    };
    kept::list(n, &mut [Sleeper::default(); FEW], Sleeper::default(), |room| f(fds, room))
}

/// On which channels of a list this thread said that it sleeps: just those hear that it is awake, whatever they are by then.
pub(super) struct Slept<'a> {
    /// The number of the event by which it sleeps; 0: by none.
    event: u32,
    sleepers: &'a [Sleeper],
}

impl Slept<'_> {
    pub(super) fn awake(&self, family: Family) {
        for c in self.sleepers.iter().filter_map(|sleeper| sleeper.conn(family)) {
            self.awake_on(c);
        }
    }

    /// On how many.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.sleepers.len()
    }

    fn awake_on(&self, c: &Conn) {
        let rx = c.receiving();
        match self.event {
            0 => rx.word.awake(),
            number => rx.word.awake_by_event(&rx.rx.event, number),
        }
    }
}

/// Falls asleep on one channel after the other, as far as there is nothing new: on which, and whether there is. Those that are
/// counted in `flight` are none, whatever they are for the moment. Of channels beyond the room nobody could say later on which this
/// thread slept, so their senders ring for good.
pub(super) fn arm<'a>(
    family: Family,
    fds: &[pollfd],
    flight: Option<&Flight>,
    event: Option<&Event>,
    room: &'a mut [Sleeper],
) -> (Slept<'a>, bool) {
    let (mut news, mut n) = (false, 0);
    let event_number = event.and_then(Event::name).map_or(0, |(number, _)| number);
    for (at, p) in fds.iter().enumerate() {
        let entry = fdtable::settled(p.fd);
        let counted = flight.is_some_and(|flight| flight.has(at, entry));
        if let Some(c) = live(family, p).filter(|_| p.events & IN != 0 && !counted) {
            c.follow_if_left();
            // Stale bells out, so that the kernel's readiness means something.
            news |= c.settle_unasked() == Settled::News && !c.is_below_mark();
            match room.get_mut(n) {
                Some(sleeper) => {
                    let of_this = Sleeper::of(entry, &c);
                    *sleeper = of_this;
                    n += 1;
                    c.fall_asleep(event, || of_this.conn(family).is_some());
                }
                None => {
                    epoll::uncounted(family.entry_of(&c));
                    c.receiving().word.arm();
                }
            }
        }
        if news {
            break;
        }
    }
    (Slept { event: event_number, sleepers: &room[..n] }, news)
}

impl Channel {
    /// Whether a sleeper on the connection may be woken by an event: its sender can be told of it, and nobody relies on the
    /// kernel's readiness instead. A set that gets it before this end has noticed that it is live relies on bells.
    pub(super) fn may_have_event(&self) -> bool {
        self.stage() == Stage::Live
            && self.link.load(Ordering::Relaxed) != 0
            && self.watched.load(Ordering::SeqCst) == 0
            && self.armed_by.load(Ordering::SeqCst) == 0
    }

    /// W2. Whoever looks for something afterwards sees it, or is woken. `goes_on`: whether it still is the connection that it was.
    pub(super) fn fall_asleep(&self, event: Option<&Event>, goes_on: impl Fn() -> bool) {
        let rx = self.receiving();
        let named = event.filter(|_| self.may_have_event()).and_then(|event| Some((event, event.name()?)));
        let Some((event, (number, fd))) = named else {
            rx.word.sleep();
            return;
        };
        link::tell(self, number, fd, || event.far());
        // What comes while nobody sleeps needs no bell: the next wait looks first, as after a look that paid.
        rx.word.make_hot();
        rx.word.sleep_by_event(&rx.rx.event, number);
        // A set, or a relative, that has just begun to rely on the kernel counted itself first: one of us sees the other. It found
        // the word cold then, and nobody would cool it any more. Where it has made it hot since, the group is that set's. And a poll is
        // in no call on the connection, so that may have been closed, and its slot be another's, as in `spin::heat`.
        if !self.may_have_event() || !goes_on() {
            rx.word.make_cold_beside();
        }
    }
}
