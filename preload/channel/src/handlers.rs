//! Whether a call that finds a lock its own thread's is in a signal handler that has interrupted the owner, or behind one that has left
//! it by longjmp(3).
//!
//! In a handler what the lock guards must stay, for the owner goes on; a lock that was left is nobody's. Where on the stack the
//! owner is tells the two apart where somebody comes from further up: a handler lies below what it interrupted. From further down
//! may come a handler, what is called next behind a longjmp, or the owner itself, once more. So the owner notes how many handlers of
//! its thread have begun and not come back: one more is running, or was left. While it runs, its own signal is blocked
//! (sigaction(2)), and siglongjmp(3) gives the mask back. Doubt counts as a handler that runs.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

use dp_edge::sys::raw;

/// What is known of the handlers of a thread: those that run by way of ours, and those that were left.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// Their signals, a bit each.
    signals: u64,
    /// How many, modulo 2^16.
    count: u16,
}

thread_local! {
    static OPEN: Cell<Handlers> = const { Cell::new(Handlers { signals: 0, count: 0 }) };
}

/// The function that the kernel calls in place of the program's handlers.
static OURS: AtomicUsize = AtomicUsize::new(0);

/// Handlers are called by way of the function at `handler` from now on, which says so by [`begins`] and [`ends`].
pub fn are_called_by(handler: usize) {
    OURS.store(handler, Ordering::Relaxed);
}

/// The handler of the signal with this bit begins in this thread. What [`ends`] is to be given.
#[inline]
pub fn begins(bit: u64) -> Handlers {
    let before = OPEN.get();
    OPEN.set(Handlers { signals: before.signals | bit, count: before.count.wrapping_add(1) });
    before
}

/// It has come back, and those inside of it were left if they have not.
#[inline]
pub fn ends(before: Handlers) {
    OPEN.set(before);
}

/// Bits of an address; none of a program's is longer.
const ADDRESS: u32 = 48;

/// What an owner notes of itself: `here` is on its stack.
#[inline(always)]
pub fn mark(here: *const u8) -> u64 {
    here.addr() as u64 & ((1 << ADDRESS) - 1) | u64::from(OPEN.get().count) << ADDRESS
}

/// Whether `here` is inside of what the owner does that noted `mark`, and of which this thread is the owner.
#[cold]
pub fn is_inside(mark: u64, here: *const u8) -> bool {
    let outer = mark & ((1 << ADDRESS) - 1);
    // Stacks grow downwards.
    if here.addr() as u64 >= outer && !raw::on_signal_stack_above(outer) {
        return false;
    }
    let began_since = u64::from(OPEN.get().count) != mark >> ADDRESS;
    !began_since || one_runs()
}

/// Whether one of the handlers that have not come back runs, as far as can be told.
fn one_runs() -> bool {
    let (ours, blocked, open) = (OURS.load(Ordering::Relaxed), raw::blocked_signals(), OPEN.get().signals);
    (1..=64usize).any(|signal| {
        let bit = 1 << (signal - 1);
        if (blocked | open) & bit == 0 {
            return false;
        }
        let Some((handler, flags)) = raw::signal_action(signal) else { return false };
        let may_run = blocked & bit != 0 || flags & libc::SA_NODEFER as usize != 0;
        // Of one that has begun it says nothing what its signal does by now: SA_RESETHAND has changed that, or the handler itself. Of
        // one that the kernel calls itself, which is that of a fault or was set past libc, nobody tells.
        let is_foreign = !matches!(handler, libc::SIG_DFL | libc::SIG_IGN) && handler != ours;
        may_run && (open & bit != 0 || is_foreign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deeper_call_is_inside_unless_a_handler_was_left() {
        const SIGNAL: usize = libc::SIGURG as usize;
        const BIT: u64 = 1 << (SIGNAL - 1);
        let room = [0u8; 3000];
        let [deeper, here, further] = [0, 1000, 2000].map(|at| &raw const room[at]);
        let (former, mask) = (raw::signal_action(SIGNAL).unwrap().0, raw::blocked_signals());
        // It is never called: the signal is blocked, or nobody sends it.
        raw::set_signal_action(SIGNAL, 0x1000);
        are_called_by(0x1000);
        let owner = mark(here);
        assert!(is_inside(owner, deeper) && !is_inside(owner, further), "once more, or left");
        let before = begins(BIT);
        raw::set_blocked_signals(mask | BIT);
        assert!(is_inside(owner, deeper), "it runs");
        raw::set_signal_action(SIGNAL, libc::SIG_DFL);
        assert!(is_inside(owner, deeper), "it runs, and its signal's next one ends the process");
        raw::set_signal_action(SIGNAL, 0x1000);
        raw::set_blocked_signals(mask);
        assert!(!is_inside(owner, deeper), "it was left");
        assert!(is_inside(mark(here), deeper), "behind that");
        raw::set_blocked_signals(mask | BIT);
        are_called_by(0);
        assert!(is_inside(owner, deeper), "another one may run, which was set past us");
        raw::set_blocked_signals(mask);
        ends(before);
        assert!(is_inside(owner, deeper), "it has come back");
        raw::set_signal_action(SIGNAL, former);
    }
}
