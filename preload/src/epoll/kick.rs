//! The descriptor that wakes threads in epoll sets.

use core::sync::atomic::{AtomicU64, Ordering};

use dp_edge::sys::raw;

use crate::own::Named;
use crate::state;

/// It is always readable, and sets get it for a moment to wake who sleeps in them. In the upper half: the process that made it. Its
/// children have some of its sets, where it may be already, and go only when its own threads are awake.
static KICK: AtomicU64 = AtomicU64::new(0);

/// Both in one word: of two threads of a child that want it first, neither may take the parent's for the child's.
pub(super) fn kicker() -> Option<i32> {
    // Another thread may be faster, and its descriptor then serves all.
    for _ in 0..3 {
        let now = KICK.load(Ordering::Acquire);
        let (of, kick) = ((now >> 32) as u32, Named::from_word(now as u32));
        if let Some(fd) = kick.fd().filter(|_| of == state::owner()) {
            return Some(fd);
        }
        let fd = raw::eventfd().ok()?;
        raw::signal_event(fd);
        let made = Named::keep(fd)?;
        let new = u64::from(state::owner()) << 32 | u64::from(made.word());
        match KICK.compare_exchange(now, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                kick.close();
                return made.fd();
            }
            Err(_) => made.close(),
        }
    }
    None
}
