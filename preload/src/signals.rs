//! Signals that come while a blocking call looks in user space.
//!
//! On TCP a handler without SA_RESTART ends a blocked receive with EINTR, whenever it runs, and any handler ends poll,
//! select and epoll_wait. A call that looks at its rings first would sleep through a signal that came during the look. So
//! handlers are called through one of ours, which notes the signal in memory of the thread's own; a call forgets these
//! notes at its entry, and looks at them before it sleeps. What is left is the moment between that and the kernel's own
//! call, some hundred nanoseconds: a signal that comes then is as one that came just before the call, which TCP sleeps
//! through as well.
//!
//! The program never sees our handler: where it asks for the former one, it is told its own. Handlers of faults, and those
//! that were set past libc, are left as they are, and are slept through. Nothing is kept but the program's handlers, so
//! forks need nothing, and after exec(3) there are none.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{sigaction, siginfo_t};

use dp_channel::handlers;

use crate::{cancel, state};

/// Signals have numbers below that.
const SIGNALS: usize = 65;
/// The program's handlers that are called by way of [`handler`], by signal; 0: there never was one.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

thread_local! {
    /// Signals whose handlers have run in this thread since [`begin`], a bit each.
    static RAN: AtomicU64 = const { AtomicU64::new(0) };
}

fn bit(signal: c_int) -> u64 {
    1u64.checked_shl((signal - 1) as u32).unwrap_or(0)
}

/// A call begins that a signal may end: what came before it counts for nothing.
#[inline]
pub fn begin() {
    RAN.with(|ran| ran.store(0, Ordering::Relaxed));
}

/// Whether a handler has run in this thread since [`begin`]. It ends a wait, which never restarts (signal(7)).
#[inline]
pub fn came() -> bool {
    RAN.with(|ran| ran.load(Ordering::Relaxed)) != 0
}

/// Whether one has that ends calls which others restart. Asked for now: siginterrupt(3) may have changed its mind.
pub fn interrupted() -> bool {
    let mut ran = RAN.with(|ran| ran.load(Ordering::Relaxed));
    while ran != 0 {
        let signal = ran.trailing_zeros() as c_int + 1;
        ran &= ran - 1;
        if asked(signal).is_some_and(|action| action.sa_flags & libc::SA_RESTART == 0) {
            return true;
        }
    }
    false
}

/// Whether the handler that has ended a sleep in the kernel ends a call that others restart. Where none was counted, it is one of a
/// fault's, somebody has set it past libc, or it is libc's own, which restarts calls.
#[cold]
pub fn ended_a_call() -> bool {
    if came() {
        return interrupted();
    }
    (1..SIGNALS as c_int).filter_map(asked).any(|action| {
        !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
            && action.sa_sigaction != ours()
            && action.sa_flags & libc::SA_RESTART == 0
    })
}

/// What the kernel does with a signal.
fn asked(signal: c_int) -> Option<sigaction> {
    // SAFETY: plain data, and a question.
    unsafe {
        let mut action: sigaction = core::mem::zeroed();
        (crate::real::sigaction()(signal, core::ptr::null(), &mut action) == 0).then_some(action)
    }
}

/// Stands for the program's handler in the kernel.
unsafe extern "C-unwind" fn handler(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // It may leave by longjmp, and calls that it makes itself forget what came before them.
    let ran = RAN.with(|ran| ran.load(Ordering::Relaxed)) | bit(signal);
    RAN.with(|of_thread| of_thread.store(ran, Ordering::Relaxed));
    let Some(at) = HANDLERS.get(signal as usize).map(|at| at.load(Ordering::Acquire)).filter(|&at| at != 0)
    else {
        return;
    };
    let before = handlers::begins(bit(signal));
    // SAFETY: the program set it for that signal. One that takes the number alone does not mind the rest, as when the
    // kernel calls it.
    cancel::as_the_program_has_it(|| unsafe {
        let of_program: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
            core::mem::transmute(at);
        of_program(signal, info, context);
    });
    handlers::ends(before);
    RAN.with(|of_thread| of_thread.fetch_or(ran, Ordering::Relaxed));
}

fn ours() -> usize {
    handler as *const () as usize
}

/// sigset(3) is to block the signal.
const SIG_HOLD: usize = 2;

/// Whether this is a handler that is called by way of ours.
fn is_counted(signal: c_int, handler: usize) -> bool {
    let fault = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS
    );
    let handled = !matches!(handler, libc::SIG_DFL | libc::SIG_IGN | libc::SIG_ERR | SIG_HOLD);
    handled
        && !fault
        && handler != ours()
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
    let real = |action, old| unsafe { crate::real::sigaction()(signal, action, old) };
    let Some(at) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        return real(action, old);
    };
    let before = at.load(Ordering::Acquire);
    // SAFETY: the program's, or null.
    let mut changed = unsafe { action.as_ref() }.copied();
    let wraps = changed.filter(|action| is_counted(signal, action.sa_sigaction));
    if let (Some(action), Some(changed)) = (wraps, &mut changed) {
        // Known before the kernel calls us. Until then the former one's place is taken by the new one.
        at.store(action.sa_sigaction, Ordering::Release);
        handlers::are_called_by(ours());
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

/// The other calls that set handlers, and return the former one.
macro_rules! set_handlers {
    ($($name:ident => $hook:ident;)*) => {
        $(
            #[doc = concat!(stringify!($hook), "(3).")]
            ///
            /// # Safety
            ///
            /// As for the call it replaces.
            pub unsafe fn $name(signal: c_int, handler: usize) -> usize {
                // SAFETY: the program's arguments, or our handler.
                set_by(signal, handler, |handler| unsafe { crate::real::$hook()(signal, handler) })
            }
        )*
    };
}

fn set_by(signal: c_int, handler: usize, real: impl Fn(usize) -> usize) -> usize {
    let Some(at) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else {
        return real(handler);
    };
    let before = at.load(Ordering::Acquire);
    let former = if is_counted(signal, handler) {
        at.store(handler, Ordering::Release);
        handlers::are_called_by(ours());
        let former = real(ours());
        if former == libc::SIG_ERR {
            at.store(before, Ordering::Release);
        }
        former
    } else {
        real(handler)
    };
    if former == ours() {
        before
    } else {
        former
    }
}

set_handlers! {
    signal => signal;
    bsd_signal => bsd_signal;
    ssignal => ssignal;
    sysv_signal => sysv_signal;
    sysv_signal_too => __sysv_signal;
    sigset => sigset;
}
