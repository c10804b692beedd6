//! Signals that end a verb which has something to say, or to put away, before it ends.
#![expect(unsafe_code, reason = "handlers, and a timer of the C library")]

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use dpfd::driver::user::process::Process;
use nix::sys::signal::{raise, sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};

static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// A thread that is to hear of ticks as well; 0: none.
static ALSO: AtomicU64 = AtomicU64::new(0);

extern "C" fn note(signal: libc::c_int) {
    if signal != libc::SIGALRM {
        CAUGHT.store(signal, Ordering::Relaxed);
        return;
    }
    let also = ALSO.load(Ordering::SeqCst);
    // SAFETY: async-signal-safe, both; the thread is not joined as long as it is named here ([`Also`]) by the thread that
    // joins it, which is the one that is interrupted, or runs itself.
    unsafe {
        if also != 0 && libc::pthread_self() != also {
            libc::pthread_kill(also, signal);
        }
    }
}

/// Calls of this thread are interrupted by ticks as well, until this is dropped: signals come to the main thread only. For
/// one thread at a time, which the main thread joins.
pub struct Also(());

impl Also {
    pub fn this_thread() -> Also {
        // SAFETY: no preconditions.
        ALSO.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
        Also(())
    }
}

impl Drop for Also {
    fn drop(&mut self) {
        ALSO.store(0, Ordering::SeqCst);
    }
}

/// Calls that wait return, interrupted, when a signal comes that would end the program.
pub fn watch() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // A signal that was ignored at the start, as by nohup(1), stays ignored.
        if matches!(set(signal, SigHandler::Handler(note)), Some(SigHandler::SigIgn)) {
            set(signal, SigHandler::SigIgn);
        }
    }
}

/// Calls that wait return, interrupted, this often.
pub fn tick(every: Duration) {
    set(Signal::SIGALRM, SigHandler::Handler(note));
    let interval = libc::timeval { tv_sec: every.as_secs() as _, tv_usec: every.subsec_micros() as _ };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: reads the struct it is given.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, core::ptr::null_mut()) };
}

/// SIGTSTP or SIGCONT, the last that came; 0: none did.
static STOPS: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_stop(signal: libc::c_int) {
    STOPS.store(signal, Ordering::Relaxed);
}

/// A stop by the terminal, and the end of any stop, are told by [`stops`], since the terminal is to be given back and taken.
pub fn watch_stops() {
    for signal in [Signal::SIGTSTP, Signal::SIGCONT] {
        set(signal, SigHandler::Handler(note_stop));
    }
}

/// What came of these since it was last asked.
pub fn stops() -> Option<Signal> {
    Signal::try_from(STOPS.swap(0, Ordering::Relaxed)).ok()
}

/// Stops as the terminal's key would have stopped it; returns when it goes on.
pub fn stop() {
    set(Signal::SIGTSTP, SigHandler::SigDfl);
    let _ = raise(Signal::SIGTSTP);
    set(Signal::SIGTSTP, SigHandler::Handler(note_stop));
    STOPS.store(0, Ordering::Relaxed);
}

/// The signal that came, if one did.
pub fn caught() -> Option<Signal> {
    Signal::try_from(CAUGHT.load(Ordering::Relaxed)).ok()
}

/// Ends as the signal would have ended the program, so that a shell sees it.
pub fn die(signal: Signal) -> ! {
    put_away();
    set(signal, SigHandler::SigDfl);
    let _ = raise(signal);
    std::process::exit(128 + signal as i32)
}

/// What exit(3) would do, without its wait for what is under way: this process's names are not left behind.
pub fn put_away() {
    if let Some(process) = Process::started() {
        for endpoint in process.endpoints() {
            endpoint.retire();
        }
        process.shared.registry.leave(&process.shared.member);
    }
}

fn set(signal: Signal, handler: SigHandler) -> Option<SigHandler> {
    // Without SA_RESTART: what waits is to return.
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler stores one word.
    unsafe { sigaction(signal, &action) }.ok().map(|old| old.handler())
}
