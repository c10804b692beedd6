//! A line of the log: as people read it, or as an entry of systemd-journald with a field for each thing in it.
//!
//! ```text
//!   2026-11-26T05:44:14.123456Z dp-preload[4711] redis-server: leave fd=7 own=127.0.0.1:6379 other=127.0.0.1:40312 reason=no-offer
//! ```

use core::fmt::Write;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};

use dp_channel::tcp::Addr;
use dp_edge::sys::raw;
use dp_rules::config::log::Level;

use crate::state;

#[cfg(test)]
mod tests;

/// Bytes of a line, its end included. What is longer is cut: the caller's stack may be a small one.
const ROOM: usize = 512;
/// The longest name of a program in a line.
const NAME: usize = 64;
/// What stands at the end of a line that was cut.
const CUT: &[u8] = b"...\n";

/// What happened.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// One word for it.
    pub word: &'static str,
    /// Of a connection: the descriptor, this end, the other one.
    pub connection: Option<(i32, Addr, Addr)>,
    /// Of a channel: the version of layouts that both ends speak; else 0.
    pub layout: u32,
    /// The word of its reason.
    pub reason: Option<&'static str>,
    /// More, in pieces.
    pub text: &'a [&'a str],
}

impl Event<'_> {
    /// Nothing.
    pub const NONE: Event<'static> = Event { word: "", connection: None, layout: 0, reason: None, text: &[] };
}

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Line,
    /// For the journal: a field a line.
    Fields,
}

/// A line in the making. It always ends with a newline, and control characters of whoever's words do not get into it.
pub struct Writer {
    form: Form,
    len: usize,
    cut: bool,
    bytes: [u8; ROOM],
}

impl Writer {
    /// An empty one.
    pub fn new(form: Form) -> Writer {
        Writer { form, len: 0, cut: false, bytes: [0; ROOM] }
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Bytes of one line: what would end it, or move a terminal, is a question mark.
    fn push(&mut self, text: &[u8]) {
        for &byte in text {
            // The end must fit, too.
            if self.len + CUT.len() >= ROOM {
                self.cut = true;
                return;
            }
            self.bytes[self.len] = if byte.is_ascii_control() { b'?' } else { byte };
            self.len += 1;
        }
    }

    fn end_line(&mut self) {
        let end: &[u8] = if self.cut { CUT } else { b"\n" };
        if let Some(room) = self.bytes.get_mut(self.len..self.len + end.len()) {
            room.copy_from_slice(end);
            self.len += end.len();
        }
    }
}

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Writes the line.
pub fn write(to: &mut Writer, level: Level, event: &Event, missed: u32) {
    match to.form {
        Form::Line => {
            write_time(to, state::since_1970());
            let _ = write!(to, " dp-preload[{}] ", raw::getpid());
            to.push(name());
            to.push(b": ");
        }
        Form::Fields => {
            let _ = write!(to, "PRIORITY={}", level as u32);
            to.end_line();
            write_fields(to, event);
            to.push(b"MESSAGE=");
        }
    }
    write_said(to, event);
    if missed > 0 {
        let _ = write!(to, " missed={missed}");
    }
    to.end_line();
}

fn name() -> &'static [u8] {
    let name = state::program();
    &name[..name.len().min(NAME)]
}

/// The event in words.
fn write_said(to: &mut Writer, event: &Event) {
    to.push(event.word.as_bytes());
    if let Some((fd, own, other)) = event.connection {
        let _ = write!(to, " fd={fd} own=");
        write_address(to, own);
        to.push(b" other=");
        write_address(to, other);
    }
    if event.layout != 0 {
        let _ = write!(to, " layout={}", event.layout);
    }
    if let Some(reason) = event.reason {
        to.push(b" reason=");
        to.push(reason.as_bytes());
    }
    for (i, piece) in event.text.iter().enumerate() {
        if i == 0 {
            to.push(b": ");
        }
        to.push(piece.as_bytes());
    }
}

/// What journalctl(1) can select by. Who sends it, journald asks the kernel.
fn write_fields(to: &mut Writer, event: &Event) {
    let field = |to: &mut Writer, name: &str, value: &[u8]| {
        to.push(name.as_bytes());
        to.push(value);
        to.end_line();
    };
    field(to, "SYSLOG_IDENTIFIER=", b"dp-preload");
    field(to, "DP_PROGRAM=", name());
    field(to, "DP_EVENT=", event.word.as_bytes());
    if let Some(reason) = event.reason {
        field(to, "DP_REASON=", reason.as_bytes());
    }
    if let Some((fd, own, other)) = event.connection {
        let _ = write!(to, "DP_FD={fd}");
        to.end_line();
        for (name, address) in [("DP_OWN=", own), ("DP_OTHER=", other)] {
            to.push(name.as_bytes());
            write_address(to, address);
            to.end_line();
        }
    }
}

fn write_address(to: &mut Writer, a: Addr) {
    let _ = match a.ip() {
        IpAddr::V4(ip) => write!(to, "{}", SocketAddrV4::new(ip, a.port)),
        IpAddr::V6(ip) => write!(to, "{}", SocketAddrV6::new(ip, a.port, 0, a.scope)),
    };
}

/// A time as RFC 3339 has it, in UTC. libc's own function for it takes a lock.
fn write_time(to: &mut Writer, (seconds, nanoseconds): (u64, u32)) {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micro = nanoseconds / 1000;
    let _ = write!(to, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z");
}

/// Year, month and day of a day since 1970. Counted from March on, so that the leap day is a year's last: eras of 400 years
/// have all the same number of days, and the months from March on have 153 days in five.
fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    // From 0000-03-01 on.
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}
