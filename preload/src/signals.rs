//! Signals that come while a blocking receive looks in user space.
//!
//! On TCP a handler without SA_RESTART ends a blocked receive with EINTR, whenever it runs. A receive that looks at its
//! ring first would sleep through a signal that came during the look. So handlers of that kind are called through one of
//! ours, which counts, in memory of the thread's own; a receive compares the count at its entry with that before it
//! sleeps. What is left is the moment between that and the kernel's own call, some hundred nanoseconds: a signal that
//! comes then is as one that came just before the call, which TCP sleeps through as well.
//!
//! The program never sees our handler: where it asks for the former one, it is told its own. Handlers that restart calls,
//! those of faults, and those that were set past libc's sigaction(3) are left as they are, and are slept through as before.
//! Nothing is kept but the program's handlers, so forks need nothing, and after exec(3) there are none.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::{sigaction, siginfo_t};

use crate::state;

/// Signals have numbers below that.
const SIGNALS: usize = 65;
/// The program's handlers that are called by way of [`handler`], by signal; 0: there never was one.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

thread_local! {
    /// Handlers that have run in this thread, and the signal of the last one.
    static RAN: Cell<(u32, c_int)> = const { Cell::new((0, 0)) };
}

/// How many handlers have run in this thread.
#[inline]
pub fn count() -> u32 {
    RAN.get().0
}

/// Whether one has run since `before`, and ends calls now: siginterrupt(3) may have changed its mind.
pub fn interrupted(before: u32) -> bool {
    let (now, signal) = RAN.get();
    now != before && {
        // SAFETY: plain data, and a question.
        unsafe {
            let mut action: sigaction = core::mem::zeroed();
            crate::hooks::sigaction::real()(signal, core::ptr::null(), &mut action) == 0
                && action.sa_flags & libc::SA_RESTART == 0
        }
    }
}

/// Stands for the program's handler in the kernel.
unsafe extern "C-unwind" fn handler(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    RAN.set((RAN.get().0.wrapping_add(1), signal));
    let Some(at) = HANDLERS.get(signal as usize).map(|at| at.load(Ordering::Acquire)).filter(|&at| at != 0)
    else {
        return;
    };
    // SAFETY: the program set it for that signal. One that takes the number alone does not mind the rest, as when the
    // kernel calls it.
    unsafe {
        let of_program: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
            core::mem::transmute(at);
        of_program(signal, info, context);
    }
}

fn ours() -> usize {
    handler as *const () as usize
}

/// What the program calls its handler, of what the kernel calls it.
fn of_program(signal: c_int, known: usize) -> usize {
    match HANDLERS.get(signal as usize) {
        Some(at) if known == ours() => at.load(Ordering::Acquire),
        _ => known,
    }
}

/// Whether calls are to end when this action's handler has run.
fn ends_calls(signal: c_int, action: &sigaction) -> bool {
    let fault = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS
    );
    let handled = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN | libc::SIG_ERR);
    handled
        && !fault
        && action.sa_flags & libc::SA_RESTART == 0
        && state::ON.load(Ordering::Relaxed)
        && !state::is_borrowed_memory()
}

/// sigaction(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn set(signal: c_int, action: *const sigaction, old: *mut sigaction) -> c_int {
    // SAFETY: the program's arguments, or a copy of them.
    let real = |action, old| unsafe { crate::hooks::sigaction::real()(signal, action, old) };
    let Some(at) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        return real(action, old);
    };
    let before = at.load(Ordering::Acquire);
    // SAFETY: the program's, or null.
    let mut changed = unsafe { action.as_ref() }.copied();
    let wraps = changed.filter(|action| action.sa_sigaction != ours() && ends_calls(signal, action));
    if let (Some(action), Some(changed)) = (wraps, &mut changed) {
        // Known before the kernel calls us. Until then the former one's place is taken by the new one.
        at.store(action.sa_sigaction, Ordering::Release);
        changed.sa_sigaction = ours();
    }
    let given = changed.as_ref().map_or(core::ptr::null(), |action| &raw const *action);
    let rc = real(given, old);
    if rc != 0 && wraps.is_some() {
        at.store(before, Ordering::Release);
    }
    // SAFETY: the kernel has filled in what the program gave.
    if let Some(old) = unsafe { old.as_mut() }.filter(|old| rc == 0 && old.sa_sigaction == ours()) {
        old.sa_sigaction = before;
    }
    rc
}

/// The other calls that set handlers: what they set restarts calls, or is left as it is, and the former handler that they
/// return is the program's.
macro_rules! tells_the_programs_own {
    ($($name:ident => $hook:ident;)*) => {
        $(
            #[doc = concat!(stringify!($hook), "(3).")]
            ///
            /// # Safety
            ///
            /// As for the call it replaces.
            pub unsafe fn $name(signal: c_int, handler: usize) -> usize {
                // SAFETY: the program's arguments.
                of_program(signal, unsafe { crate::hooks::$hook::real()(signal, handler) })
            }
        )*
    };
}

tells_the_programs_own! {
    signal => signal;
    bsd_signal => bsd_signal;
    ssignal => ssignal;
    sysv_signal => sysv_signal;
    sysv_signal_too => __sysv_signal;
    sigset => sigset;
}
