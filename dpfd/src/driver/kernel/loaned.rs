//! The messages of a mapped pool that the program has: taken in order, released in any, and the room of those that
//! were released goes back to the kernel in order.

use std::collections::VecDeque;

use crate::addr::Addr;
use crate::error::{Error, Result};
use crate::sys::device;
use crate::sys::loaned::Got;
use crate::sys::mapped::{Mapping, Ring, Token};

/// The pool, seen by its receiver.
#[derive(Debug)]
pub struct Pool {
    ring: Ring,
    /// What it was asked to be, bytes.
    pub size: usize,
    /// The next token.
    next: u64,
    loaned: VecDeque<Loan>,
    /// The number of the first of them.
    first: u64,
    /// How many of them the program has: all but those that are released, and wait for one in front of them, and those that
    /// are being copied.
    open: usize,
    /// Messages taken, and their bytes.
    pub taken: (u64, u64),
    /// Times something impossible was found.
    pub corrupt: u64,
}

#[derive(Debug)]
struct Loan {
    /// The position behind it.
    end: u64,
    /// It is out of line: mapped until it is released, whoever looks at it by then.
    out_of_line: Option<Box<Mapping>>,
    /// What came beside it, if it is told that something did.
    immediate: u64,
    /// The library copies it, and releases it then: to the program it is not loaned.
    copied: bool,
    done: bool,
}

impl Pool {
    /// `next`: the position of the first token that nobody has taken.
    pub fn new(ring: Ring, size: usize, next: u64) -> Pool {
        Pool { ring, size, next, loaned: VecDeque::new(), first: 0, open: 0, taken: (0, 0), corrupt: 0 }
    }

    /// Whether something is there.
    #[inline(always)]
    pub fn waiting(&self) -> bool {
        self.ring.is_there(self.next)
    }

    /// Messages loaned.
    pub fn loaned(&self) -> usize {
        self.open
    }

    /// Where the ring begins.
    pub fn address(&self) -> *const u8 {
        self.ring.memory().address(0)
    }

    /// Whether the endpoint is closed.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// The next message, loaned from now on.
    ///
    /// # Errors
    ///
    /// ENOMEM, where a message out of line cannot be mapped: it stays the next. [`Error::Meddled`].
    #[inline(always)]
    pub fn take(&mut self, fd: i32) -> Result<Option<Got>> {
        // Each turn but the last steps over what was given up; there are no more than the ring has room for.
        for _ in 0..=self.ring.most_tokens() {
            let (token, (nid, dpid), end) = self.ring.look(self.next);
            // What was left is nobody's; the number may be another file's by now.
            if token != Token::Empty && self.ring.is_closed() {
                return Err(Error::NotAnEndpoint(fd));
            }
            let (at, len, immediate, out_of_line) = match token {
                Token::Empty => return Ok(None),
                Token::Message(at, len, immediate) => (self.ring.memory().address(at), len, immediate, None),
                Token::OutOfLine(offset, len, immediate) => {
                    let mapped = self.map(fd, offset, len)?;
                    (mapped.address(0), len, immediate, Some(mapped))
                }
                Token::Void => {
                    self.step_over(fd, end);
                    continue;
                }
                Token::Nonsense => return Err(self.nonsense()),
            };
            let number = self.first + self.loaned.len() as u64;
            let noted = immediate.unwrap_or(0);
            self.loaned.push_back(Loan { end, out_of_line, immediate: noted, copied: false, done: false });
            self.open += 1;
            self.taken = (self.taken.0 + 1, self.taken.1 + len as u64);
            self.next = end;
            self.ring.set_taken(end);
            let got = Got::new(number, at, len, Addr { nid, dpid });
            return Ok(Some(if immediate.is_some() { got.with_immediate() } else { got }));
        }
        Err(self.nonsense())
    }

    #[cold]
    fn map(&mut self, fd: i32, offset: u64, len: usize) -> Result<Box<Mapping>> {
        Mapping::out_of_line(fd, offset, len).map(Box::new).map_err(|e| match e.raw_os_error() {
            // The kernel knows no such message: its token was read where there is none.
            None | Some(libc::EINVAL) => self.nonsense(),
            Some(libc::EBADF | libc::ENODEV | libc::ENXIO) => Error::NotAnEndpoint(fd),
            Some(errno) => Error::System { call: "mmap", errno },
        })
    }

    #[cold]
    fn nonsense(&mut self) -> Error {
        self.corrupt += 1;
        Error::Meddled
    }

    /// A sender gave up here. The place goes back with the message before it.
    #[cold]
    fn step_over(&mut self, fd: i32, end: u64) {
        self.next = end;
        self.ring.set_taken(end);
        match self.loaned.back_mut() {
            Some(last) => last.end = end,
            None => self.give_back(fd, end, false),
        }
    }

    /// Message `number`, just taken, is not the program's, but is being copied until it is released.
    pub fn copy(&mut self, number: u64) {
        if let Some(loaned) = self.loaned.get_mut(number.wrapping_sub(self.first) as usize) {
            loaned.copied = true;
            self.open -= 1;
        }
    }

    /// What came beside message `number`, which has something beside it and is loaned.
    pub fn immediate(&self, number: u64) -> Option<u64> {
        self.loaned.get(number.wrapping_sub(self.first) as usize).map(|loaned| loaned.immediate)
    }

    /// Releases one message.
    #[inline(always)]
    pub fn release(&mut self, fd: i32, number: u64) {
        let at = number.wrapping_sub(self.first) as usize;
        let Some(loaned) = self.loaned.get_mut(at).filter(|loaned| !loaned.done) else { return };
        loaned.done = true;
        self.open -= usize::from(!loaned.copied);
        if at == 0 {
            self.advance(fd);
        }
    }

    /// Releases the `n` oldest that are loaned; false, and none is, if there are not so many.
    pub fn release_oldest(&mut self, fd: i32, n: usize) -> bool {
        if n > self.open {
            return false;
        }
        self.loaned
            .iter_mut()
            .filter(|loaned| !loaned.done && !loaned.copied)
            .take(n)
            .for_each(|loaned| loaned.done = true);
        self.open -= n;
        self.advance(fd);
        true
    }

    /// Gives back what is released before everything that is not.
    #[inline(always)]
    fn advance(&mut self, fd: i32) {
        let (mut end, mut out_of_line) = (None, false);
        while let Some(loaned) = self.loaned.front().filter(|loaned| loaned.done) {
            (end, out_of_line) = (Some(loaned.end), out_of_line | loaned.out_of_line.is_some());
            self.loaned.pop_front();
            self.first += 1;
        }
        if let Some(end) = end {
            self.give_back(fd, end, out_of_line);
        }
    }

    #[inline(always)]
    fn give_back(&self, fd: i32, end: u64, out_of_line: bool) {
        if self.ring.set_released(end) || out_of_line {
            // Senders wait, or memory of its own is to go at once. If the descriptor is closed by now, nobody does.
            let _ = device::look_again(fd);
        }
    }
}
