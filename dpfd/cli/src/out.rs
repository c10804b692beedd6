//! Standard output, written so that what a command does goes on: a reader that leaves early is no failure, and a disk that is full is
//! told at the end. `println!` would panic at either.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// What was said of standard output so far, and whether it could be.
#[derive(Default)]
pub struct Out {
    failed: Option<io::Error>,
}

impl Out {
    /// Writes a line.
    pub fn say(&mut self, line: impl Display) {
        self.put(format_args!("{line}\n"));
    }

    /// Writes text. Behind a failure nothing is written any more.
    pub fn put(&mut self, text: impl Display) {
        if self.failed.is_none() {
            let text = text.to_string();
            let mut out = io::stdout().lock();
            self.failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
        }
    }

    /// Whether nobody reads any more.
    pub fn is_unread(&self) -> bool {
        self.failed.as_ref().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    }

    /// Whether all was written that somebody reads.
    ///
    /// # Errors
    ///
    /// Why it was not, in words.
    pub fn end(self) -> Result<(), String> {
        match self.failed {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
            _ => Ok(()),
        }
    }
}

/// Writes text, alone.
///
/// # Errors
///
/// When it could not be written; in words. That nobody reads it is none.
pub fn put(text: impl Display) -> Result<(), String> {
    let mut out = Out::default();
    out.put(text);
    out.end()
}
