//! The channels on which a poll says that it sleeps, and how it is woken there (W2).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Stage};
use libc::pollfd;

use super::{live, Event, Flight, IN};
use crate::channel::Channel;
use crate::rx::Settled;
use crate::{fdtable, link};

/// Descriptors of a list that are remembered one by one.
const FIRST: usize = 24;

/// A connection whose word says that this thread sleeps.
#[derive(Clone, Copy, Default)]
pub(super) struct Sleeper {
    /// Its entry in the table of descriptors; 0: none.
    pub(super) entry: u32,
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

/// On which channels of a list this thread said that it sleeps: just those hear that it is awake, whatever they are by then.
pub(super) struct Slept {
    /// The number of the event by which it sleeps; 0: by none.
    event: u32,
    /// The first ones.
    pub(super) first: [Sleeper; FIRST],
    /// Of what is beyond, what is live on either side of the sleep.
    seen: usize,
}

impl Slept {
    pub(super) fn awake(&self, family: Family, fds: &[pollfd]) {
        for c in self.first.iter().filter_map(|sleeper| sleeper.conn(family)) {
            self.awake_on(c);
        }
        for p in fds[..self.seen].iter().skip(self.first.len()) {
            if let Some(c) = live(family, p).filter(|_| p.events & IN != 0) {
                self.awake_on(&c);
            }
        }
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
/// counted in `flight` are none, whatever they are for the moment.
pub(super) fn arm(
    family: Family,
    fds: &[pollfd],
    flight: Option<&Flight>,
    event: Option<&Event>,
) -> (Slept, bool) {
    let mut news = false;
    let event_number = event.and_then(Event::name).map_or(0, |(number, _)| number);
    let mut slept = Slept { event: event_number, first: [Sleeper::default(); FIRST], seen: 0 };
    for p in fds {
        let entry = fdtable::settled(p.fd);
        let counted = flight.is_some_and(|flight| flight.has(entry));
        if let Some(c) = live(family, p).filter(|_| p.events & IN != 0 && !counted) {
            c.follow_if_left();
            // Stale bells out, so that the kernel's readiness means something.
            news |= c.settle_unasked() == Settled::News && !c.is_below_mark();
            let sleeper = Sleeper::of(entry, &c);
            c.fall_asleep(event);
            if let Some(first) = slept.first.get_mut(slept.seen) {
                *first = sleeper;
            }
        }
        slept.seen += 1;
        if news {
            break;
        }
    }
    (slept, news)
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

    /// W2. Whoever looks for something afterwards sees it, or is woken.
    fn fall_asleep(&self, event: Option<&Event>) {
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
        // the word cold then, and nobody would cool it any more. Where it has made it hot since, the group is that set's.
        if !self.may_have_event() {
            rx.word.make_cold_beside();
        }
    }
}
