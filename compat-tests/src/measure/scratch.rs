//! What is used up by a measurement: a folder, a port, a moment; and the signal that ends it early.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::mkdtemp;

use super::Error;

/// The paths of AF_UNIX sockets end at 107 bytes; this much of it is left to the names in the folder.
const LONGEST: usize = 80;

/// A new folder that only this user enters, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, below `TMPDIR` if that is short enough for sockets, else below /tmp.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Scratch, Error> {
        let below = Some(env::temp_dir()).filter(|dir| dir.as_os_str().len() < LONGEST);
        let template = below.unwrap_or_else(|| PathBuf::from("/tmp")).join("dp-measure-XXXXXX");
        let made = mkdtemp(&template).map_err(Error::system(format!("mkdtemp {}", template.display())))?;
        Ok(Scratch(made))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing of value is in it; at worst it waits for the cleaning of /tmp.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port on 127.0.0.1 that nobody uses at this moment, below those that the kernel gives to connecting sockets: one of
/// these may be a client's by the time that the server binds it.
///
/// # Errors
/// None is left.
pub fn free_port() -> Result<u16, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 15_000;
    const COUNT: u32 = 15_000;
    let mut tried = 0;
    loop {
        // Processes start at different places, so that two of them rarely try the same port.
        let step = std::process::id().wrapping_mul(101).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST + step % COUNT) as u16;
        tried += 1;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(e) if tried == COUNT => return Err(Error::system("a free port on 127.0.0.1")(e)),
            Err(_) => {}
        }
    }
}

/// Whether somebody listens on this port of 127.0.0.1, without connecting to it: a connection from here would
/// appear in the counters of the server.
pub fn listens(port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    in_table(&table, port)
}

/// Whether somebody listens on this port of any address, without connecting to it.
pub fn listens_anywhere(port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = fs::read_to_string(table).unwrap_or_default();
        table.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().is_some_and(|address| address.ends_with(&local)) && fields.nth(1) == Some("0A")
        })
    })
}

fn in_table(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let local = format!("{:08X}:{port:04X}", u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets()));
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        fields.len() == 4 && fields[1] == local && fields[3] == LISTEN
    })
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From here on Ctrl-C, SIGTERM and SIGHUP end what is going on with [`Error::Interrupted`]; a second one kills.
///
/// # Errors
/// The system refuses a handler.
pub fn catch_interrupts() -> Result<(), Error> {
    let action = SigAction::new(SigHandler::Handler(note_interrupt), SaFlags::SA_RESETHAND, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler stores one atomic, which is allowed at any moment, and this program has no other
        // handler that would be replaced.
        unsafe { sigaction(signal, &action) }.map_err(Error::system(format!("sigaction {signal}")))?;
    }
    Ok(())
}

/// Fails if one of the caught signals has come.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn not_interrupted() -> Result<(), Error> {
    match INTERRUPTED.load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// Sleeps, at most until a signal.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn pause(time: Duration) -> Result<(), Error> {
    const SLICE: Duration = Duration::from_millis(100);
    let end = Instant::now() + time;
    loop {
        not_interrupted()?;
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            rest => sleep(rest.min(SLICE)),
        }
    }
}

/// Asks again and again until there is an answer; None when the time is over.
///
/// # Errors
/// [`Error::Interrupted`], and those of the question.
pub fn await_answer<T>(
    limit: Duration,
    mut question: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let end = Instant::now() + limit;
    loop {
        let over = Instant::now() > end;
        match question()? {
            Some(answer) => return Ok(Some(answer)),
            None if over => return Ok(None),
            // Rarely enough that the asking itself does not disturb what is measured.
            None => pause(Duration::from_millis(10))?,
        }
    }
}

#[cfg(test)]
mod tests;
