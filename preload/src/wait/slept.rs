//! The channels on which a poll says that it sleeps, and how it is woken there (W2).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Stage};

use super::event::Event;
use crate::channel::Channel;
use crate::{epoll, kept, link};

/// Channels that are remembered without memory that has to be had first.
const FEW: usize = 24;

/// A connection whose word says that this thread sleeps.
#[derive(Clone, Copy, Default)]
struct Sleeper {
    /// Its entry in the family.
    entry: u32,
    /// The use of its slot, and where that is: in the same entry a relative may have another connection since.
    generation: u32,
    slot: u64,
}

impl Sleeper {
    fn of(entry: u32, c: &Conn) -> Sleeper {
        let (generation, slot) = (c.generation.load(Ordering::Relaxed), c.offer.load(Ordering::Acquire));
        Sleeper { entry, generation, slot }
    }

    fn conn(&self, family: Family) -> Option<&'static Conn> {
        let c = family.conn(self.entry);
        let now = Sleeper::of(self.entry, c);
        let is_same = (now.generation, now.slot) == (self.generation, self.slot);
        (is_same && matches!(c.stage(), Stage::Accepted | Stage::Live)).then_some(c)
    }
}

/// On which channels of a list this thread said that it sleeps: just those hear that it is awake, whatever they are by then.
///
/// This has no destructor, as [`crate::inside::Inside`] has none.
#[must_use]
pub(super) struct Slept {
    /// The number of the event by which it sleeps; 0: by none.
    event: u32,
    first: [Sleeper; FEW],
    /// Room for those behind these, for as many as the list has; null: none was needed.
    more: *mut Sleeper,
    room: usize,
    n: usize,
}

impl Slept {
    pub(super) fn nowhere() -> Slept {
        let first = [Sleeper { entry: 0, generation: 0, slot: 0 }; FEW];
        Slept { event: 0, first, more: core::ptr::null_mut(), room: 0, n: 0 }
    }

    /// The thread is about to sleep on some of a list of `len`.
    pub(super) fn begin(&mut self, event: Option<&Event>, len: usize) {
        self.event = event.and_then(Event::name).map_or(0, |(number, _)| number);
        self.room = len.saturating_sub(FEW);
        self.n = 0;
    }

    /// W2 for one of them. Of what nobody could say later on which this thread slept, the sender rings for good.
    pub(super) fn falls_asleep(&mut self, c: &Channel, event: Option<&Event>) {
        let sleeper = Sleeper::of(c.family.entry_of(c), c);
        match self.place() {
            Some(place) => {
                *place = sleeper;
                self.n += 1;
                c.fall_asleep(event, || sleeper.conn(c.family).is_some());
            }
            None => {
                epoll::uncounted(sleeper.entry);
                c.receiving().word.arm();
            }
        }
    }

    /// Where the next one is noted. `None`: there is no memory.
    fn place(&mut self) -> Option<&mut Sleeper> {
        let Some(behind) = self.n.checked_sub(FEW) else { return self.first.get_mut(self.n) };
        if behind >= self.room {
            return None;
        }
        if self.more.is_null() {
            self.more = kept::take(self.bytes())?.cast();
        }
        // SAFETY: as many as the list has fit, at the start of a page, and any bytes are a value of them; ours alone.
        Some(unsafe { &mut *self.more.add(behind) })
    }

    fn bytes(&self) -> usize {
        self.room * size_of::<Sleeper>()
    }

    pub(super) fn awake(&mut self, family: Family) {
        let n = core::mem::take(&mut self.n);
        let first = self.first.iter().take(n);
        // SAFETY: so many were written, and are ours alone.
        let more = (0..n.saturating_sub(FEW)).map(|behind| unsafe { &*self.more.add(behind) });
        for c in first.chain(more).filter_map(|sleeper| sleeper.conn(family)) {
            self.awake_on(c);
        }
    }

    /// On how many.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.n
    }

    /// The call is over: the memory is the next one's.
    pub(super) fn end(self) {
        if !self.more.is_null() {
            kept::give_back(self.more.cast(), self.bytes());
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
