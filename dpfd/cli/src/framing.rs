//! How messages lie in a stream of bytes: the standard input of `dp send`, the standard output of `dp recv`.

use std::io::{self, Read, Write};
use std::ops::Range;

pub use dpfd::driver::user::endpoint::MAX_MESSAGE;

/// Most bytes of a message where nothing in the input says where it ends.
pub const CHUNK: usize = 64 * 1024;
/// Bytes of the length before a message, most significant first.
const PREFIX: usize = 4;

/// Where a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// In: one read. Out: nothing between messages.
    #[default]
    Chunks,
    /// At a newline, which is not part of it.
    Lines,
    /// The four bytes before it say how long it is.
    Prefixed,
}

impl Framing {
    /// What the options of a verb choose; at most one is given.
    pub fn chosen(lines: bool, length_prefixed: bool) -> Framing {
        match (lines, length_prefixed) {
            (true, _) => Framing::Lines,
            (_, true) => Framing::Prefixed,
            _ => Framing::Chunks,
        }
    }

    /// Writes one message.
    pub fn write(self, out: &mut impl Write, message: &[u8]) -> io::Result<()> {
        match self {
            Framing::Chunks => out.write_all(message),
            Framing::Lines => {
                out.write_all(message)?;
                out.write_all(b"\n")
            }
            Framing::Prefixed => {
                out.write_all(&(message.len() as u32).to_be_bytes())?;
                out.write_all(message)
            }
        }
    }
}

/// Why there is no further message.
#[derive(Debug, thiserror::Error)]
pub enum Bad {
    #[error("standard input: {0}")]
    Read(#[from] io::Error),
    #[error("standard input: a line of more than {MAX_MESSAGE} bytes, the longest message; send it without --lines")]
    Line,
    #[error("standard input: a message of {0} bytes is announced, the longest is {MAX_MESSAGE}; is each length 4 bytes, the most significant first?")]
    Long(u32),
    #[error("standard input: it ends inside a message, {there} bytes of {want} are there; that message was not sent")]
    Cut { there: usize, want: usize },
}

/// Cuts what it reads into messages.
pub struct Input<R> {
    from: R,
    framing: Framing,
    buf: Vec<u8>,
    /// What of the buffer was read and not handed out.
    unread: Range<usize>,
    /// Bytes of it that hold no newline.
    looked: usize,
}

impl<R: Read> Input<R> {
    pub fn new(from: R, framing: Framing) -> Input<R> {
        Input { from, framing, buf: vec![0; CHUNK], unread: 0..0, looked: 0 }
    }

    /// The next message; None at the end. After an interruption ([`io::ErrorKind::Interrupted`]) it can be asked
    /// again, and nothing is lost.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Bad> {
        let found = loop {
            if let Some(found) = self.cut()? {
                break found;
            }
            if self.fill()? == 0 {
                match self.rest()? {
                    Some(rest) => break rest,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(&self.buf[found]))
    }

    /// A whole message of what was read.
    fn cut(&mut self) -> Result<Option<Range<usize>>, Bad> {
        let Range { start, end } = self.unread;
        match self.framing {
            Framing::Chunks if start == end => Ok(None),
            Framing::Chunks => {
                self.unread.start = end;
                Ok(Some(start..end))
            }
            Framing::Lines => {
                let newline = self.buf[start + self.looked..end].iter().position(|b| *b == b'\n');
                let Some(at) = newline.map(|at| start + self.looked + at) else {
                    self.looked = end - start;
                    return if self.looked > MAX_MESSAGE { Err(Bad::Line) } else { Ok(None) };
                };
                if at - start > MAX_MESSAGE {
                    return Err(Bad::Line);
                }
                (self.unread.start, self.looked) = (at + 1, 0);
                Ok(Some(start..at))
            }
            Framing::Prefixed => {
                let Some(len) = self.announced()? else { return Ok(None) };
                let from = start + PREFIX;
                if end - from < len {
                    return Ok(None);
                }
                self.unread.start = from + len;
                Ok(Some(from..from + len))
            }
        }
    }

    /// Length of the message whose prefix was read.
    fn announced(&self) -> Result<Option<usize>, Bad> {
        let Some(prefix) = self.buf[self.unread.clone()].first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix);
        if len as usize > MAX_MESSAGE {
            return Err(Bad::Long(len));
        }
        Ok(Some(len as usize))
    }

    /// Reads once; how much, 0 at the end.
    fn fill(&mut self) -> Result<usize, Bad> {
        if self.unread.start > 0 {
            self.buf.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.unread.end == self.buf.len() {
            self.buf.resize(2 * self.buf.len(), 0);
        }
        let n = self.from.read(&mut self.buf[self.unread.end..])?;
        self.unread.end += n;
        Ok(n)
    }

    /// What stands at the end of the input: a line without a newline is a message, half of one is an error.
    fn rest(&mut self) -> Result<Option<Range<usize>>, Bad> {
        if self.unread.is_empty() {
            return Ok(None);
        }
        if self.framing == Framing::Prefixed {
            let want = self.announced()?.map_or(PREFIX, |len| PREFIX + len);
            return Err(Bad::Cut { there: self.unread.len(), want });
        }
        let rest = self.unread.clone();
        (self.unread.start, self.looked) = (rest.end, 0);
        Ok(Some(rest))
    }
}

#[cfg(test)]
mod tests;
