//! Which calls are inside a connection, so that a descriptor can be closed under them as in the kernel: a call goes on
//! with the open file that it began with, and that file lives until the call returns.
//!
//! A call that may sleep, or makes more than one system call, notes in a place of its thread's which entry of the
//! descriptor table it works with ([`Inside::enter`]). Whoever closes a descriptor looks through these places. If there
//! is a call in it, the open file is kept under another number, and the call, which asks for the number at every turn
//! ([`Inside::fd`]), goes on with that one. The last call that leaves closes it, and does what the last close does.
//!
//! The two sides are ordered by one fence each: a call notes the entry and then looks whether the entry still stands; a
//! close clears the entry and then looks for notes. A call that is over may be left by longjmp, or with its thread. So a
//! note counts only while its thread lives and is not further up its stack than the call was.
//!
//! What does not come here, because it neither sleeps nor calls the kernel, checks the entry again where it commits
//! (`rx::quick`), or under the lock that [`crate::life`] takes before the entry is free (`tx::quick`). It is noted, too, but
//! by a plain store, for those who unmap rings alone ([`brief`]).

pub mod brief;
pub mod held;

use core::cell::Cell;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::OnceLock;

use dp_channel::family::{Conn, Family};
use dp_channel::limbo::Note;
use dp_edge::sys::raw;

use crate::{fdtable, own, state};

/// Threads that can be inside a connection at once. Further ones are not waited for.
const PLACES: usize = 1024;
/// Open files kept at once for calls inside. Further ones are closed under them.
const KEPT: usize = 256;
/// Stacks are not longer than that, so something further away is on another one.
const STACK: u64 = 64 << 20;

/// Where a thread notes the entry that it works with.
#[repr(align(64))]
struct Place {
    /// Whose it is; 0: nobody's.
    tid: AtomicU32,
    /// The entry of the descriptor table; 0: the thread is inside none.
    word: AtomicU32,
    fd: AtomicI32,
    /// Something in the hook's frame: whoever runs below it is inside the call.
    frame: AtomicU64,
    /// The same of a call that neither sleeps nor calls the kernel.
    brief: Note,
}

/// An open file whose number the program has closed while calls were inside.
struct Kept {
    /// The entry that stood for it; 0: none.
    word: AtomicU32,
    /// Its number now; -1: it was closed where we did not see it.
    fd: AtomicI32,
    /// 1: the program has no other number for it.
    end: AtomicU32,
}

static CALLS: [Place; PLACES] = [const {
    Place {
        tid: AtomicU32::new(0),
        word: AtomicU32::new(0),
        fd: AtomicI32::new(0),
        frame: AtomicU64::new(0),
        brief: Note::new(),
    }
}; PLACES];
/// Places in use lie below this.
static HIGH: AtomicU32 = AtomicU32::new(0);
/// Where the last look for the place of a thread that ended stopped.
static ROUND: AtomicU32 = AtomicU32::new(0);
static FILES: [Kept; KEPT] =
    [const { Kept { word: AtomicU32::new(0), fd: AtomicI32::new(0), end: AtomicU32::new(0) } }; KEPT];
/// How many of them there are.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Guards them; taken with signals blocked.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Threads between clearing an entry and keeping its file.
static CLOSING: AtomicU32 = AtomicU32::new(0);
/// What does the last close of a connection, given its open file. It stands on all that is here, so it says who it is when the
/// library is loaded.
pub static ENDS: OnceLock<fn(i32, u32)> = OnceLock::new();
/// `__libc_single_threaded` of glibc, if it has that.
static SINGLE: AtomicPtr<AtomicU8> = AtomicPtr::new(core::ptr::null_mut());

thread_local! {
    /// This thread's place, plus one, and the thread number that it was claimed with.
    static MINE: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    /// The number that this thread is about to close.
    static CLOSES: Cell<i32> = const { Cell::new(-1) };
}

/// Finds what tells whether the process has one thread.
pub fn prepare() {
    // SAFETY: a C string.
    let p = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE.store(p.cast(), Ordering::Relaxed);
}

/// With one thread there is nobody to close what it is in, but its own signal handlers: the kernel, too, lets an
/// interrupted call begin anew with the number.
pub fn alone() -> bool {
    let p = SINGLE.load(Ordering::Relaxed);
    // SAFETY: a variable of libc's, which stays.
    !p.is_null() && unsafe { &*p }.load(Ordering::Relaxed) != 0
}

/// A call is inside a connection, until it leaves.
///
/// This has no destructor, on purpose: a thread that is ended by a signal handler, or cancelled, at any instruction is
/// unwound, which ends the process where a frame has something to drop.
#[derive(Clone, Copy)]
#[must_use]
pub struct Inside {
    place: Option<&'static Place>,
    fd: i32,
    word: u32,
}

impl Inside {
    /// Notes that a call is inside what `fd` stands for; `frame` is a variable of the hook. `None`: it is no connection.
    #[inline]
    pub fn enter<T>(fd: i32, frame: &T) -> Option<Inside> {
        let frame = frame as *const T as u64;
        loop {
            let word = fdtable::settled(fd);
            fdtable::conn_of(word)?;
            if alone() {
                return Some(Inside { place: None, fd, word });
            }
            let place = place(frame);
            if let Some(place) = place {
                place.fd.store(fd, Ordering::Relaxed);
                place.frame.store(frame, Ordering::Relaxed);
                // The fence between the note and the look; whoever closes has the other one.
                place.word.swap(word, Ordering::SeqCst);
            }
            let inside = Inside { place, fd, word };
            if fdtable::word_now(fd) == word {
                return Some(inside);
            }
            inside.leave();
        }
    }

    /// Whether it is the connection of that entry.
    #[inline]
    pub fn is(&self, entry: u32) -> bool {
        self.word == entry
    }

    /// Whether the program has one thread only, so that nobody changes the number meanwhile.
    pub fn is_sole(&self) -> bool {
        self.place.is_none()
    }

    /// Whether the number `fd` still stands for the connection, after a fence: for a call that goes by it, and was counted
    /// before, or is noted here. Whoever changes the program's number waits for those ([`crate::life`]); nobody changes ours.
    pub fn stands(&self, fd: i32) -> bool {
        fd != self.fd || fdtable::word_now(fd) == self.word
    }

    /// The connection.
    #[inline]
    pub fn conn(&self) -> u32 {
        fdtable::conn_of(self.word).unwrap_or(0)
    }

    /// The descriptor that stands for the connection now: the program's, or ours. Asked for again after every sleep and
    /// before every turn. -1: it could not be kept.
    #[inline]
    pub fn fd(&self) -> i32 {
        if fdtable::word(self.fd) == self.word {
            self.fd
        } else {
            self.moved()
        }
    }

    /// The call is over.
    #[inline]
    pub fn leave(self) {
        let Some(place) = self.place else { return };
        place.word.store(0, Ordering::Release);
        if !mine(place) {
            // A handler's, inside another call of its thread.
            place.tid.store(0, Ordering::Release);
        }
        if COUNT.load(Ordering::Relaxed) != 0 {
            sweep();
        }
    }

    #[cold]
    fn moved(&self) -> i32 {
        // The thread that closes it is about to keep it.
        for turn in 0..100_000 {
            let busy = CLOSING.load(Ordering::SeqCst) != 0;
            let of = |k: &&Kept| k.word.load(Ordering::Acquire) == self.word;
            if let Some(k) = FILES.iter().find(of) {
                return k.fd.load(Ordering::Relaxed);
            }
            match turn {
                _ if !busy => break,
                0..100 => core::hint::spin_loop(),
                _ => raw::yield_now(),
            }
        }
        -1
    }
}

fn mine(place: &Place) -> bool {
    let n = MINE.get().0 as usize;
    n != 0 && core::ptr::eq(place, &CALLS[n - 1])
}

/// Whether `here` is in a handler that has interrupted the call whose frame is `outer`.
fn below(outer: u64, here: u64) -> bool {
    here < outer || raw::on_signal_stack_above(outer)
}

#[inline]
fn place(frame: u64) -> Option<&'static Place> {
    let tid = state::me() as u32;
    if let Some(place) = (MINE.get().0 as usize).checked_sub(1).map(|n| &CALLS[n]) {
        if place.tid.load(Ordering::Relaxed) == tid {
            let outside = place.word.load(Ordering::Relaxed) == 0;
            return if outside || !below(place.frame.load(Ordering::Relaxed), frame) {
                Some(place)
            } else {
                claim(tid).map(|n| &CALLS[n])
            };
        }
    }
    let n = claim(tid)?;
    MINE.set((n as u32 + 1, tid));
    Some(&CALLS[n])
}

/// How many places of others are looked at before one more is taken.
const FEW: usize = 8;

/// A place that is nobody's, or that of a thread that ended.
#[cold]
fn claim(tid: u32) -> Option<usize> {
    let take = |n: usize, of: u32| {
        CALLS[n].tid.compare_exchange(of, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let high = HIGH.load(Ordering::Relaxed) as usize;
    let ended = |n: &usize| {
        let of = CALLS[*n].tid.load(Ordering::Relaxed);
        of != 0 && of != tid && raw::probe_thread(raw::getpid(), of) == Err(libc::ESRCH) && take(*n, of) && {
            CALLS[*n].word.store(0, Ordering::Release);
            CALLS[*n].brief.take_back(0);
            true
        }
    };
    let start = ROUND.fetch_add(FEW as u32, Ordering::Relaxed) as usize;
    let round = |n: usize| (start + n) % high.max(1);
    (0..high)
        .find(|&n| take(n, 0))
        .or_else(|| (0..FEW.min(high)).map(round).find(ended))
        .or_else(|| (high..PLACES).find(|&n| take(n, 0)))
        .or_else(|| (0..high).find(ended))
        .inspect(|&n| {
            HIGH.fetch_max(n as u32 + 1, Ordering::SeqCst);
        })
}

fn places() -> &'static [Place] {
    &CALLS[..(HIGH.load(Ordering::SeqCst) as usize).min(PLACES)]
}

/// Two hooks that one function calls have their frames within so many bytes. What a signal puts on the stack is longer.
const HOOK: u64 = 512;

/// Whether the call that noted something in `place` goes on. Doubt counts as yes. `here` is in the frame of whoever asks, or
/// not far below.
fn goes_on(place: &Place, here: u64) -> bool {
    is_below(place, place.frame.load(Ordering::Relaxed), here)
}

/// The same for any `frame` that the thread of the place has noted.
fn is_below(place: &Place, frame: u64, here: u64) -> bool {
    let tid = place.tid.load(Ordering::Relaxed);
    if tid == state::me() as u32 {
        return below(frame, here + HOOK);
    }
    if !state::thread_lives(tid) {
        return false;
    }
    match raw::thread_stack(tid) {
        // A thread that sleeps further up its stack has left the call by longjmp.
        Some(sp) => sp <= frame || sp - frame > STACK,
        None => !raw::thread_is_ending(tid),
    }
}

/// Whether a call of another thread has noted `word`, by number `fd`.
pub fn is_used(fd: i32, word: u32) -> bool {
    let me = state::me() as u32;
    noted(word).any(|p| p.fd.load(Ordering::Relaxed) == fd && p.tid.load(Ordering::Relaxed) != me)
}

fn noted(word: u32) -> impl Iterator<Item = &'static Place> {
    places().iter().filter(move |p| p.word.load(Ordering::SeqCst) == word)
}

/// Somebody closes a descriptor; until that has come to [`Closing::keep`], calls inside wait for the file to be kept.
#[must_use]
pub struct Closing {
    here: u64,
}

impl Closing {
    /// Before the entry is cleared; `frame` is a variable of the hook, or of whatever that has called.
    pub fn begin<T>(frame: &T) -> Closing {
        CLOSING.fetch_add(1, Ordering::SeqCst);
        Closing { here: frame as *const T as u64 }
    }

    /// The entry was none of a connection.
    pub fn over(self) {
        CLOSING.fetch_sub(1, Ordering::SeqCst);
    }

    /// After the entry `word` of `fd` was cleared, before the kernel closes `fd`, or -1 if it has: where there are calls
    /// inside that need it, the open file stays, and they do what is to be done at its end. False: nobody is inside.
    /// `last`: the program has no other number for it.
    pub fn keep(self, fd: i32, word: u32, last: bool) -> bool {
        let kept = keep(fd, word, last, self.here);
        self.over();
        kept
    }
}

fn keep(fd: i32, word: u32, last: bool, from: u64) -> bool {
    if noted(word).next().is_none() && COUNT.load(Ordering::SeqCst) == 0 {
        return false;
    }
    exclusively(|| {
        let here = |p: &&Place| last || p.fd.load(Ordering::Relaxed) == fd;
        let busy = noted(word).filter(here).any(|p| goes_on(p, from));
        let known = FILES.iter().find(|k| k.word.load(Ordering::Relaxed) == word);
        match (busy, known) {
            (true, Some(k)) => {
                k.end.fetch_or(last.into(), Ordering::Relaxed);
                true
            }
            (true, None) => add(fd, word, last),
            // Its calls have just left, and it is ours to end.
            (false, Some(k)) if last => {
                close_kept(take(k).0);
                false
            }
            (false, _) => false,
        }
    })
}

/// The program has no number any more for what the entry `word` stood for. Whether its open file is kept: then it ends with the calls
/// inside.
pub fn ends_with_calls(word: u32) -> bool {
    exclusively(|| {
        let known = FILES.iter().find(|k| k.word.load(Ordering::Relaxed) == word);
        known.inspect(|k| k.end.store(1, Ordering::Relaxed)).is_some()
    })
}

/// Whether `fd`, which stood for `c` when it was read, stands for it no more: nobody is to make a call on it for the sake of `c`.
/// It is another connection's, or was closed, or is just being closed, and may be any file's by now. Whoever closes it knows better
/// ([`closes`]); where there is one thread, a handler may have, inside a call that goes by the number as the kernel's own would; and
/// without a number, or a table, nobody is asked.
pub fn is_another(fd: i32, family: Family, c: &Conn) -> bool {
    match fdtable::conn_inside(fd) {
        Some(i) => !core::ptr::eq(family.conn(i), c),
        None => fdtable::covers(fd) && !alone() && CLOSES.get() != fd,
    }
}

/// Does `f`, in which this thread closes the number `fd`, whose entry says that it is changed, or is cleared: it is still the
/// connection's for this thread, until `f` is over. One may be inside another.
pub fn closes<R>(fd: i32, f: impl FnOnce() -> R) -> R {
    let outer = CLOSES.replace(fd);
    let result = f();
    CLOSES.set(outer);
    result
}

/// Keeps the open file behind `fd`. False: there is no room for it.
fn add(fd: i32, word: u32, last: bool) -> bool {
    let Some(k) = FILES.iter().find(|k| k.word.load(Ordering::Relaxed) == 0) else { return false };
    let copy = if fd < 0 { Some(-1) } else { own::copy(fd) };
    let Some(copy) = copy else { return false };
    if copy >= 0 {
        fdtable::mark_kept(copy, word);
    }
    k.fd.store(copy, Ordering::Relaxed);
    k.end.store(last.into(), Ordering::Relaxed);
    k.word.store(word, Ordering::SeqCst);
    COUNT.fetch_add(1, Ordering::SeqCst);
    true
}

/// The file is the caller's from here on: its number, and whether that is the end.
fn take(k: &Kept) -> (i32, bool) {
    let found = (k.fd.load(Ordering::Relaxed), k.end.load(Ordering::Relaxed) != 0);
    k.word.store(0, Ordering::Release);
    COUNT.fetch_sub(1, Ordering::SeqCst);
    found
}

fn close_kept(fd: i32) {
    if fd >= 0 {
        own::close(fd);
    }
}

/// The program puts something else at number `fd`, which is ours: a file that is kept there for calls inside is kept at another.
#[cold]
pub fn moves_from(fd: i32) {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    exclusively(|| {
        let is = |k: &&Kept| k.word.load(Ordering::Relaxed) != 0 && k.fd.load(Ordering::Relaxed) == fd;
        let Some(k) = FILES.iter().find(is) else { return };
        let copy = own::copy(fd);
        if let Some(copy) = copy {
            fdtable::mark_kept(copy, k.word.load(Ordering::Relaxed));
        }
        k.fd.store(copy.unwrap_or(-1), Ordering::Release);
    });
}

/// Ends what was kept, and has nobody inside any more.
#[cold]
pub fn sweep() {
    let here = 0u8;
    let here = &raw const here as u64;
    while COUNT.load(Ordering::SeqCst) != 0 {
        let found = exclusively(|| {
            let left = |k: &&Kept| {
                let word = k.word.load(Ordering::Relaxed);
                word != 0 && !noted(word).any(|p| goes_on(p, here))
            };
            let k = FILES.iter().find(left)?;
            let word = k.word.load(Ordering::Relaxed);
            Some((word, take(k)))
        });
        let Some((word, (fd, end))) = found else { return };
        if let Some(i) = fdtable::conn_of(word).filter(|_| end) {
            if let Some(end) = ENDS.get() {
                end(fd, i);
            }
        }
        close_kept(fd);
    }
}

/// In a forked child: only the thread that forked is here. Connections that nobody here ever will have, it is to `forget`.
pub fn inherited(forget: impl Fn(u32)) {
    fdtable::inherited();
    [&LOCK, &CLOSING].into_iter().for_each(state::clear);
    if HIGH.load(Ordering::Relaxed) == 0 {
        return;
    }
    brief::inherited();
    held::inherited();
    for place in places() {
        place.word.store(0, Ordering::Relaxed);
        place.tid.store(0, Ordering::Relaxed);
    }
    HIGH.store(0, Ordering::Relaxed);
    for k in FILES.iter().filter(|k| k.word.load(Ordering::Relaxed) != 0) {
        let word = k.word.load(Ordering::Relaxed);
        let (fd, end) = take(k);
        if let Some(i) = fdtable::conn_of(word).filter(|_| end) {
            forget(i);
        }
        close_kept(fd);
    }
}

/// Does `f` with the files to itself. Signals wait: a handler may close descriptors.
fn exclusively<R>(f: impl FnOnce() -> R) -> R {
    let blocked = raw::block_signals();
    while LOCK.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        raw::yield_now();
    }
    let result = f();
    LOCK.store(0, Ordering::Release);
    raw::set_blocked_signals(blocked);
    result
}
