//! What the shim writes down where `DP_LOG` asks for it: steps of connections, and what became of the process.
//!
//! A line is made in a buffer on the stack and goes out by one system call that neither waits nor raises a signal
//! ([`line`]): no allocation, no lock, no stdio, so a signal handler may come here as well. What cannot be written at
//! once is missed, and the next line tells how many were. Nothing here is on the way of bytes.
//!
//! The descriptor of a file or of the journal is opened when the library is loaded, before the program changes its root or
//! its user, and is one of ours. That of standard error is the program's: many close it and open something else by its number.
//! Keeping a copy would hold up whoever waits for the end of that pipe, so each line goes by a copy of its own, or to a
//! terminal that is opened once more ([`copies`]), and only if it still is what it was at the start.

mod copies;
mod text;

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use dp_channel::family::SHIM;
use dp_edge::sys::line::{self, Kind, Quiet};
use dp_edge::sys::{files, raw};
use dp_rules::config::log::{Level, Log, Place, JOURNAL};

use crate::channel::Channel;
use crate::{errno, fdtable, own};
pub use text::Event;
use text::{Form, Writer};

/// The least important that is written, as [`Level`] counts; 0: nothing is.
static LEVEL: AtomicU32 = AtomicU32::new(0);
/// The descriptor; that of standard error is copied for each line.
static FD: AtomicI32 = AtomicI32::new(-1);
/// What it stood for at the start: file and device. Another one is not written to.
static FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// The same as `st_mode`.
static MODE: AtomicU32 = AtomicU32::new(0);
/// Whether lines are entries of the journal.
static FIELDS: AtomicU32 = AtomicU32::new(0);
/// Lines that could not be written since the last that could.
static MISSED: AtomicU32 = AtomicU32::new(0);

/// Whether anything so important is written down.
#[inline]
pub fn wants(level: Level) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level as u32
}

/// When the library is loaded: opens what `log` names. What cannot be opened is not written to, and nothing is said of it:
/// the program's standard error is not ours, unless it is what was asked for.
pub fn begin(log: &Log) {
    let fd = match &log.place {
        Place::Stderr => Some(libc::STDERR_FILENO),
        Place::Journal => line::datagrams_to(JOURNAL).ok().and_then(own::high),
        Place::File(path) => line::open(path).ok().and_then(own::high),
    };
    let Some((fd, meta)) = fd.and_then(|fd| Some((fd, files::meta_of(fd).ok()?))) else { return };
    FD.store(fd, Ordering::Relaxed);
    FILE[0].store(meta.file.0, Ordering::Relaxed);
    FILE[1].store(meta.file.1, Ordering::Relaxed);
    MODE.store(meta.mode, Ordering::Relaxed);
    FIELDS.store((log.place == Place::Journal).into(), Ordering::Relaxed);
    LEVEL.store(log.level as u32, Ordering::Release);
}

/// Once there is a table of descriptors: ours is nobody else's.
pub fn keep() {
    let fd = FD.load(Ordering::Relaxed);
    if fd > libc::STDERR_FILENO {
        fdtable::mark_internal(fd);
    }
}

/// In a forked child.
pub fn inherited() {
    if FD.load(Ordering::Relaxed) == libc::STDERR_FILENO {
        copies::inherited(is_same);
    }
}

/// Nothing is written from here on.
#[cold]
pub fn end() {
    LEVEL.store(0, Ordering::SeqCst);
    let fd = FD.swap(-1, Ordering::SeqCst);
    if fd > libc::STDERR_FILENO && is_same(fd) {
        fdtable::clear(fd);
        raw::close(fd);
    }
}

/// The shim is in this process and takes part; `rules`: where those come from that it goes by.
pub fn started(rules: &str) {
    put(Level::Info, &Event { word: "start", text: &["version ", SHIM, ", rules: ", rules], ..Event::NONE });
}

/// The shim leaves this process alone.
#[cold]
pub fn left_alone(why: &str) {
    put(Level::Info, &Event { word: "alone", text: &[why], ..Event::NONE });
}

/// Something is not as somebody wanted it.
#[cold]
pub fn warning(text: &str) {
    put(Level::Warning, &Event { word: "warning", text: &[text], ..Event::NONE });
}

/// Something happened to the process.
#[cold]
pub fn told(word: &'static str, text: &str) {
    put(Level::Info, &Event { word, text: &[text], ..Event::NONE });
}

/// A connection takes a step.
#[inline]
pub fn step(level: Level, word: &'static str, c: &Channel, reason: Option<&'static str>) {
    if wants(level) {
        step_now(level, word, c, reason);
    }
}

/// A connection became a channel.
#[inline]
pub fn live(c: &Channel) {
    if wants(Level::Info) {
        live_now(c);
    }
}

#[cold]
#[inline(never)]
fn live_now(c: &Channel) {
    let connection = Some((c.fd, c.local(), c.peer()));
    put(Level::Info, &Event { word: "live", connection, layout: c.spoken(), ..Event::NONE });
}

#[cold]
#[inline(never)]
fn step_now(level: Level, word: &'static str, c: &Channel, reason: Option<&'static str>) {
    put(level, &Event { word, connection: Some((c.fd, c.local(), c.peer())), reason, ..Event::NONE });
}

#[cold]
#[inline(never)]
fn put(level: Level, event: &Event) {
    if !wants(level) {
        return;
    }
    // The program may be about to look at its own.
    let errno = errno::errno();
    let missed = MISSED.swap(0, Ordering::Relaxed);
    let form = if FIELDS.load(Ordering::Relaxed) == 0 { Form::Line } else { Form::Fields };
    let mut writer = Writer::new(form);
    text::write(&mut writer, level, event, missed);
    if !deliver(writer.bytes()) {
        MISSED.fetch_add(missed.saturating_add(1), Ordering::Relaxed);
    }
    errno::fail(errno);
}

fn deliver(bytes: &[u8]) -> bool {
    let (fd, kind) = (FD.load(Ordering::Relaxed), Kind::of(MODE.load(Ordering::Relaxed)));
    if fd != libc::STDERR_FILENO {
        return is_same(fd) && line::write(fd, kind, bytes).is_ok();
    }
    let quiet = Quiet::begin();
    copies::with(fd, kind, |copy| is_same(copy) && quiet.write(copy, kind, bytes).is_ok())
}

/// Whether `fd` stands for what it stood for at the start.
fn is_same(fd: i32) -> bool {
    let file = (FILE[0].load(Ordering::Relaxed), FILE[1].load(Ordering::Relaxed));
    files::meta_of(fd).is_ok_and(|meta| meta.file == file)
}
