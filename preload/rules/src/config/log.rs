//! Where the shim writes down what it does: the variable `DP_LOG`.
//!
//! ```text
//!   DP_LOG=stderr          the program's standard error, as long as it is what it was at the start
//!   DP_LOG=/var/log/dp     the end of a file, which is made if need be
//!   DP_LOG=journal         systemd-journald, with fields
//!   DP_LOG=journal:debug   the same, and more of it: warning, info (the default) or debug
//! ```

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::{fmt, io};

use dp_edge::sys::{line, process, raw};

#[cfg(test)]
mod tests;

/// The variable's name.
pub const NAME: &str = "DP_LOG";
/// Where systemd-journald takes entries with fields.
pub const JOURNAL: &[u8] = b"/run/systemd/journal/socket";

/// Where lines go, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Where to.
    pub place: Place,
    /// The least important that are written.
    pub level: Level,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Descriptor 2.
    Stderr,
    /// systemd-journald.
    Journal,
    /// The end of a file, by its absolute path.
    File(CString),
}

/// How important a line is, as syslog(3) counts: less is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something is not as somebody wanted it.
    Warning = 4,
    /// What became of processes and connections.
    Info = 6,
    /// Each step on the way.
    Debug = 7,
}

impl Level {
    /// All of them, the fewest lines first.
    pub const ALL: [Level; 3] = [Level::Warning, Level::Info, Level::Debug];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl Log {
    /// Whether this process can write there. A file is made where there is none, as the shim makes it.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_place(&self) -> Result<(), Unwritable> {
        let opened = match &self.place {
            Place::Stderr => return Ok(()),
            Place::Journal => line::datagrams_to(JOURNAL),
            Place::File(path) => line::open(path),
        };
        opened.map(raw::close).map_err(|errno| self.unwritable(errno))
    }

    /// That this process cannot write there, as this error says.
    pub fn unwritable(&self, errno: i32) -> Unwritable {
        let way_out = match self.place {
            Place::Journal => "no systemd-journald is here; name a file",
            _ => "name a file that the program may write to",
        };
        Unwritable { place: self.place.clone(), why: io::Error::from_raw_os_error(errno), way_out }
    }
}

/// A place that cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("{NAME}: {place}: {why}; {way_out}, or unset {NAME}")]
pub struct Unwritable {
    place: Place,
    why: io::Error,
    way_out: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Stderr => f.write_str("standard error"),
            Place::Journal => f.write_str("the journal"),
            Place::File(path) => write!(f, "{}", path.to_string_lossy().escape_debug()),
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.place, self.level.word())
    }
}

/// Why a value says nothing of where to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None of the words, and no absolute path.
    NoPlace,
    /// Behind a colon stands no level.
    NoLevel,
}

/// A value of `DP_LOG` that says nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The value.
    pub value: OsString,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.to_string_lossy();
        write!(f, "{NAME}={}: ", value.escape_debug())?;
        match self.fault {
            Fault::NoPlace => {
                f.write_str("no place to write to; stderr, journal or the absolute path of a file")?
            }
            Fault::NoLevel => {
                f.write_str("what stands behind the colon is no level; warning, info or debug")?
            }
        }
        write!(f, " can stand there, as in stderr:debug: correct it, or unset {NAME}")
    }
}

impl std::error::Error for Wrong {}

/// What a value says; `None` of an empty one, which counts as unset.
///
/// # Errors
/// It is none of what the module's head lists.
pub fn parse(value: &OsStr) -> Result<Option<Log>, Fault> {
    let value = value.as_bytes().trim_ascii();
    if value.is_empty() {
        return Ok(None);
    }
    // The last colon: a path with one in it has a level behind it.
    let (place, level) = match value.iter().rposition(|&byte| byte == b':') {
        Some(at) => (&value[..at], level(&value[at + 1..])),
        None => (value, Some(Level::Info)),
    };
    let place = match place {
        b"stderr" => Place::Stderr,
        b"journal" => Place::Journal,
        [b'/', ..] if !place.ends_with(b"/") => Place::File(CString::new(place).map_err(|_| Fault::NoPlace)?),
        _ => return Err(Fault::NoPlace),
    };
    Ok(Some(Log { place, level: level.ok_or(Fault::NoLevel)? }))
}

fn level(word: &[u8]) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.word().as_bytes() == word)
}

/// What the variable says, without a word about what is wrong with it; `None` where it is not set, says nothing, or is not to
/// be believed.
pub fn told() -> Option<Log> {
    if process::is_privileged() {
        return None;
    }
    parse(&std::env::var_os(NAME)?).ok()?
}

/// Says what is wrong with the variable.
///
/// # Errors
/// It is set and says nothing.
pub fn check() -> Result<Option<Log>, Wrong> {
    let Some(value) = std::env::var_os(NAME) else { return Ok(None) };
    parse(&value).map_err(|fault| Wrong { value, fault })
}
