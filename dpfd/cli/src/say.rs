//! Standard output and standard error can be closed, or full, at any moment. No verb ends in a panic for that, and none stops
//! half-way: `dp enable a b 2>&1 | grep -q written` reads no further than the first line.

use std::fmt::Display;
use std::io::{self, Write};

/// As those of the standard library, but they do not panic where nobody reads.
macro_rules! eprintln {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
macro_rules! eprint {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($what)*);
    }};
}

/// Writes what a verb found.
///
/// # Errors
///
/// In words. None where nobody reads any more: he has seen enough.
pub fn text(text: &str) -> Result<(), String> {
    bytes(text.as_bytes())
}

/// The same of what is no text.
///
/// # Errors
///
/// As of [`text`].
pub fn bytes(bytes: &[u8]) -> Result<(), String> {
    part(bytes).map(drop)
}

/// Writes a part of what goes on. False: nobody reads any more, so it need not go on.
///
/// # Errors
///
/// In words.
pub fn part(bytes: &[u8]) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    told(out.write_all(bytes).and_then(|()| out.flush()))
}

fn told(written: io::Result<()>) -> Result<bool, String> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}")),
    }
}

/// Lines that tell what is being done, each at its time. What cannot be written is remembered, and the work goes on.
#[derive(Default)]
pub struct Lines {
    failed: Option<io::Error>,
}

impl Lines {
    /// Writes a line, unless one before it could not be.
    pub fn say(&mut self, line: impl Display) {
        if self.failed.is_none() {
            let mut out = io::stdout().lock();
            self.failed = writeln!(out, "{line}").and_then(|()| out.flush()).err();
        }
    }

    /// Whether all could be written, as of [`text`].
    ///
    /// # Errors
    ///
    /// In words.
    pub fn end(self) -> Result<(), String> {
        told(self.failed.map_or(Ok(()), Err)).map(drop)
    }
}
