//! What a poll's decisions reach: the kernel, and the channels (`dp_channel::poll::World`).

use core::sync::atomic::{fence, Ordering};

use dp_channel::family::{Conn, Family, Stage};
use dp_channel::poll::{self, Lookup, World, IN};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_edge::sys::raw;
use libc::pollfd;

use super::event::{self, Event};
use super::slept::Slept;
use super::{knows_the_rest, Flight};
use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::lost::{self, never_comes, FIRST_NET, LAST_NET};
use crate::rx::Settled;
use crate::tx::owed;
use crate::{epoll, signals, spin};

/// The channel behind a number, or what is about to be one.
pub(super) fn live(family: Family, fd: i32) -> Option<Channel> {
    let c = Channel::new(family, fd, fdtable::conn(fd)?);
    matches!(c.stage(), Stage::Accepted | Stage::Live).then_some(c)
}

impl poll::Channel for Channel {
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.stage() == Stage::Live
            && !self.has(Conn::SHUT_WR | Conn::SHUT_RD)
            && !self.receiving().tx.is_ending()
            && !poll::Channel::has_error(self)
    }

    #[inline(always)]
    fn has_data(&self) -> bool {
        let rx = self.receiving();
        in_ring(self.rx_epoch.load(Ordering::Relaxed))
            && stream::waiting(&rx.ring(), &rx.rx.cursor)
            && !self.is_below_mark()
    }

    #[inline(always)]
    fn sends_by_ring(&self) -> bool {
        in_ring(self.sending().tx.epoch())
    }

    fn is_readable(&self) -> bool {
        self.has_news(&self.receiving()) && !self.is_below_mark()
    }

    fn has_counted(&self) -> bool {
        Channel::has_counted(self)
    }

    fn has_shut_down(&self) -> bool {
        self.has(Conn::SHUT_WR)
    }

    fn hears_of_death(&self) -> bool {
        Channel::hears_of_death(self)
    }

    #[inline(always)]
    fn has_error(&self) -> bool {
        self.error.load(Ordering::Relaxed) != 0
    }

    fn is_hot(&self) -> bool {
        self.receiving().word.is_hot()
    }

    fn settle(&self, arm: bool) -> bool {
        Channel::settle(self, arm) != Settled::Quiet
    }

    fn settle_to_sleep(&self) -> bool {
        self.follow_if_left();
        self.settle_unasked() == Settled::News && !self.is_below_mark()
    }

    fn is_announced(&self) -> bool {
        raw::is_readable(self.fd)
    }
}

/// What stands in a list, by a family.
#[derive(Clone, Copy)]
pub(super) struct Known(pub(super) Family);

impl Lookup for Known {
    type Channel = Channel;

    #[inline(always)]
    fn channel(&self, fd: i32) -> Option<Channel> {
        live(self.0, fd)
    }

    fn is_idle_set(&self, fd: i32) -> bool {
        matches!(fdtable::get(fd), Entry::Epoll(i) if !epoll::is_ready(epoll::name(i)))
    }

    fn knows_the_rest(&self, fds: &[pollfd]) -> bool {
        knows_the_rest(fds)
    }
}

/// See the module. This has no destructor, as [`crate::inside::Inside`] has none.
pub(super) struct Ground<'a, K> {
    known: Known,
    flight: Option<&'a Flight>,
    kernel: &'a K,
    /// By which event it sleeps, if by one.
    event: Option<&'static Event>,
    pub(super) slept: Slept,
}

impl<'a, K: Fn(&mut [pollfd], i64) -> Result<i32, i32>> Ground<'a, K> {
    /// Of one call, whose `kernel` is libc's ppoll.
    pub(super) fn new(family: Family, flight: Option<&'a Flight>, kernel: &'a K) -> Self {
        Ground { known: Known(family), flight, kernel, event: None, slept: Slept::nowhere() }
    }

    /// The call is over.
    pub(super) fn end(self) {
        self.slept.end();
    }

    /// A sleep of some seconds by an event brought nothing, and is not over to senders. Where a channel holds something all the same,
    /// and neither the event nor a bell comes for it, a wake-up was lost; the next look finds what it was for.
    #[cold]
    fn count_if_untold(&self, fds: &[pollfd], event: &Event) {
        let holds = |p: &pollfd| {
            let c = self.channel(p.fd).filter(|_| p.events & IN != 0);
            c.is_some_and(|c| poll::Channel::is_readable(&c)) && !raw::is_readable(p.fd)
        };
        if never_comes(|| !event.is_told() && fds.iter().any(holds)) {
            lost::count();
        }
    }

    fn channels<'f>(&'f self, fds: &'f [pollfd]) -> impl Iterator<Item = Channel> + 'f {
        fds.iter().filter_map(|p| self.channel(p.fd))
    }
}

impl<K> Lookup for Ground<'_, K> {
    type Channel = Channel;

    fn channel(&self, fd: i32) -> Option<Channel> {
        self.known.channel(fd)
    }

    fn is_idle_set(&self, fd: i32) -> bool {
        self.known.is_idle_set(fd)
    }

    fn knows_the_rest(&self, fds: &[pollfd]) -> bool {
        self.known.knows_the_rest(fds)
    }
}

impl<K: Fn(&mut [pollfd], i64) -> Result<i32, i32>> World for Ground<'_, K> {
    fn briefly<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        briefly(|| f(self))
    }

    fn kernel(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32> {
        (self.kernel)(fds, timeout)
    }

    fn now(&self) -> u64 {
        crate::state::now()
    }

    fn is_signalled(&self) -> bool {
        signals::came()
    }

    /// The first channel's own record says what pays.
    fn budget(&mut self, fds: &[pollfd]) -> u32 {
        let pays = |p: &pollfd| {
            let c = self.channel(p.fd).filter(|_| p.events & IN != 0);
            c.is_some_and(|c| c.stage() == Stage::Live && spin::can_pay(&c, &c.receiving()))
        };
        match briefly(|| fds.iter().take(64).any(pays)) {
            true => self.channels(fds).next().map_or(0, |c| spin::budget(&c)),
            false => 0,
        }
    }

    fn look(&mut self, fds: &[pollfd], budget: u32) -> bool {
        let Some(first) = self.channels(fds).next() else { return false };
        spin::looking(|| {
            self.channels(fds).for_each(|c| spin::heat(&c));
            let any = || self.channels(fds).any(|c| c.hint(&c.receiving()));
            spin::and_learn(&first, budget, || any() || signals::came())
        })
    }

    fn goes_to_sleep(&mut self, fds: &[pollfd]) {
        let by_event = |p: &pollfd| {
            let c = self.channel(p.fd).filter(|_| p.events & IN != 0);
            c.is_some_and(|c| c.may_have_event())
        };
        let may = fds.len() <= event::FEW && fds.iter().any(by_event);
        self.event = if may { event::take() } else { None };
        self.slept.begin(self.event, fds.len());
    }

    fn is_held(&self, at: usize, fd: i32) -> bool {
        self.flight.is_some_and(|flight| flight.has(at, fdtable::settled(fd)))
    }

    fn falls_asleep(&mut self, c: &Channel) {
        self.slept.falls_asleep(c, self.event);
    }

    fn sleep(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32> {
        match self.event {
            Some(event) => {
                // Whoever began to owe something before the event was taken has woken nobody by it.
                fence(Ordering::SeqCst);
                let timeout = owed::limits(timeout);
                event.poll(fds, |fds| (self.kernel)(fds, timeout))
            }
            None => (self.kernel)(fds, timeout),
        }
    }

    fn wakes(&mut self, fds: &[pollfd], in_vain: bool) {
        let event = self.event.take();
        if let Some(event) = event.filter(|_| in_vain) {
            self.count_if_untold(fds, event);
        }
        briefly(|| self.slept.awake(self.known.0));
        if let Some(event) = event {
            event.give_back();
        }
    }

    fn may_sleep(&mut self, time: i64) -> i64 {
        owed::look_after();
        owed::limits(time)
    }

    fn nets(&self) -> [i64; 2] {
        [FIRST_NET, LAST_NET]
    }

    #[cold]
    fn never_comes(&mut self, unheard: impl Fn(&Self) -> bool) -> bool {
        never_comes(|| unheard(self))
    }

    #[cold]
    fn lost_one(&mut self) {
        lost::count();
    }

    fn woke_in_vain(&mut self, fds: &[pollfd], times: u32) {
        spin::rest_in_vain(times);
        if times >= spin::IN_VAIN {
            self.channels(fds).for_each(|c| c.woke_in_vain(times));
        }
    }
}
