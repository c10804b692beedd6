//! A receive that found nothing, in a process with a gateway inside ([`super::inside`]): it takes what routes have, and sleeps on
//! them beside its descriptor.

use std::sync::atomic::Ordering;

use super::endpoint::{Rx, UserEndpoint};
use super::inside::Inside;
use super::turn::{InVain, Turn, Waited};
use crate::driver::Sleep;
use crate::edge::wake::Event;
use crate::error::{Error, Result};
use dp_edge::sys::raw;

/// While it steps in vain, whoever is ready to run goes first each so many steps.
const YIELDS: u32 = 4;

impl UserEndpoint {
    /// The gateway inside this process, if there is one; not for its own proxies, which it steps itself.
    #[inline]
    pub(super) fn inside(&self) -> Option<&dyn Inside> {
        self.process.inside.get().filter(|_| self.nid == 0).map(|inside| &**inside)
    }

    /// Nothing was there: steps the gateway, looking for a while where that pays, or goes to sleep as far as it does not sleep.
    /// The receiving side is held meanwhile, which no step needs.
    pub(super) fn turn_inside(
        &self,
        rx: &mut Rx,
        fd: i32,
        in_vain: InVain,
        waited: &mut Waited,
        inside: &dyn Inside,
    ) -> Result<Turn> {
        let Some(inbox) = self.inbox.get() else { return Err(Error::Closed) };
        // What comes is brought by steps: the edges alone are not worth a look.
        rx.in_vain = true;
        let longest = if self.process.many_cpus { self.max_spin.load(Ordering::Relaxed) } else { 0 };
        let budget = if longest == 0 { 0 } else { rx.spin.budget(longest) };
        let (was_silent, sleeps) = (rx.wake.is_silent(), in_vain == InVain::Sleep);
        let waits = was_silent || sleeps && (waited.asked || !raw::is_nonblocking(fd));
        waited.asked |= waits && !was_silent;
        waited.spun = false;
        let by_routes = core::mem::take(&mut rx.sleeps.by_routes);
        if !waits || budget > 0 || by_routes {
            // It looks for itself: nobody rings for what its own steps bring.
            rx.wake.go(Event::Look, inbox.arm());
            if waits && budget > 0 {
                let leads = inside.begin_wait(false);
                let mut spin = rx.spin;
                let mut steps = 0u32;
                waited.spun = spin.spin(budget, longest, || {
                    let came = inside.step() || self.something(rx);
                    steps = steps.wrapping_add(1);
                    if !came && steps % YIELDS == 0 {
                        // The other node may be a program that waits for this processor (W19).
                        std::thread::yield_now();
                    }
                    came && self.something(rx)
                });
                rx.spin = spin;
                inside.end_wait(leads);
            } else {
                inside.step();
            }
            if self.something(rx) {
                return Ok(Turn::Again);
            }
        }
        rx.wake.go(Event::Cool, inbox.arm());
        if let Some(turn) = self.end_of_turn(rx, fd, sleeps, waits, was_silent)? {
            return Ok(turn);
        }
        // Its inbox is armed, so what other threads bring from now on rings; what routes have by now wakes it at once.
        let Sleep::Socket(since) = self.listen(rx) else { return Ok(Turn::Again) };
        // Woken for nothing of its own: others are at it, and one of them is to be woken the next time.
        let leads = inside.begin_wait(by_routes);
        let (routes, time) = if leads { (inside.descriptor(), inside.until_due()) } else { (-1, None) };
        Ok(Turn::Sleep(Sleep::Routes { since, routes, time }))
    }
}
