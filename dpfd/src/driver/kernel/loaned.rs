//! The messages of a mapped pool that the program has: taken in order, released in any, and the room of those that
//! were released goes back to the kernel in order.

use crate::addr::Addr;
use crate::edge::beside::Beside;
use crate::error::{Error, Result};
use crate::pool::loaned::{Kept, Queue};
use crate::sys::device;
use crate::sys::loaned::Got;
use crate::sys::mapped::{Mapping, Ring, Token};

/// The edge of all messages: there is one ring.
const RING: u32 = 0;

/// The pool, seen by its receiver.
#[derive(Debug)]
pub struct Pool {
    ring: Ring,
    /// What it was asked to be, bytes.
    pub size: usize,
    /// The next token.
    next: u64,
    loaned: Queue<u64>,
    /// Where those of them end that are out of line: the kernel lets go of their memory as soon as it knows.
    out_of_line: Vec<u64>,
    /// Messages taken, and their bytes.
    pub taken: (u64, u64),
    /// Times something impossible was found.
    pub corrupt: u64,
}

impl Pool {
    /// `next`: the position of the first token that nobody has taken.
    pub fn new(ring: Ring, size: usize, next: u64) -> Pool {
        Pool {
            ring,
            size,
            next,
            loaned: Queue::default(),
            out_of_line: Vec::new(),
            taken: (0, 0),
            corrupt: 0,
        }
    }

    /// Whether something is there.
    #[inline(always)]
    pub fn waiting(&self) -> bool {
        self.ring.is_there(self.next)
    }

    /// Messages loaned.
    pub fn loaned(&self) -> usize {
        self.loaned.open()
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
                    (core::ptr::null(), len, immediate, Some(self.map(fd, offset, len)?))
                }
                Token::Void => {
                    self.step_over(fd, end);
                    continue;
                }
                Token::Nonsense => return Err(self.nonsense()),
            };
            let number = self.loaned.push(RING, end);
            let at = match out_of_line {
                None => at,
                Some(memory) => self.keep(memory, end),
            };
            if let Some(immediate) = immediate {
                self.loaned.note(Beside::of(Some(immediate)));
            }
            self.taken = (self.taken.0 + 1, self.taken.1 + len as u64);
            self.next = end;
            self.ring.set_taken(end);
            let got = Got::new(number, at, len, Addr { nid, dpid });
            return Ok(Some(if immediate.is_some() { got.with_immediate() } else { got }));
        }
        Err(self.nonsense())
    }

    #[cold]
    fn map(&mut self, fd: i32, offset: u64, len: usize) -> Result<Mapping> {
        Mapping::out_of_line(fd, offset, len).map_err(|e| match e.raw_os_error() {
            // The kernel knows no such message: its token was read where there is none.
            None | Some(libc::EINVAL) => self.nonsense(),
            Some(libc::EBADF | libc::ENODEV | libc::ENXIO) => Error::NotAnEndpoint(fd),
            Some(errno) => Error::System { call: "mmap", errno },
        })
    }

    /// The memory of the message just loaned, until it is released, whoever looks at it by then.
    #[cold]
    fn keep(&mut self, memory: Mapping, end: u64) -> *const u8 {
        self.out_of_line.push(end);
        self.loaned.keep(Kept::Mapped(memory))
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
        if !self.loaned.extend(end) {
            self.give_back(fd, end);
        }
    }

    /// Message `number`, just taken, is not the program's, but is being copied until it is released.
    pub fn copy(&mut self, number: u64) {
        self.loaned.copy(number);
    }

    /// What came beside message `number`, which is loaned.
    pub fn immediate(&self, number: u64) -> Option<u64> {
        self.loaned.immediate(number)
    }

    /// Releases one message.
    #[inline(always)]
    pub fn release(&mut self, fd: i32, number: u64) {
        match self.loaned.pop_oldest(number) {
            Some(loan) => self.give_back(fd, loan.end),
            None => self.release_any(fd, number),
        }
    }

    #[inline(never)]
    fn release_any(&mut self, fd: i32, number: u64) {
        if self.loaned.mark(number).is_some() {
            self.advance(fd);
        }
    }

    /// Releases the `n` oldest that are loaned; false, and none is, if there are not so many.
    pub fn release_oldest(&mut self, fd: i32, n: usize) -> bool {
        if n > self.loaned.open() {
            return false;
        }
        let (mut left, mut number) = (n, self.loaned.first());
        while let Some(loan) = self.loaned.get(number).filter(|_| left > 0) {
            if loan.is_open() {
                left -= 1;
                self.loaned.mark(number);
            }
            number += 1;
        }
        self.advance(fd);
        true
    }

    /// Gives back what is released before everything that is not.
    fn advance(&mut self, fd: i32) {
        let (given, _) = self.loaned.give_back(RING, self.loaned.first());
        self.loaned.forget_done();
        if let Some((end, _)) = given {
            self.give_back(fd, end);
        }
    }

    #[inline(always)]
    fn give_back(&mut self, fd: i32, end: u64) {
        let out_of_line = !self.out_of_line.is_empty() && self.ends_out_of_line(end);
        if self.ring.set_released(end) || out_of_line {
            // Senders wait, or memory of its own is to go at once. If the descriptor is closed by now, nobody does.
            let _ = device::look_again(fd);
        }
    }

    /// Whether something out of line goes back with what ends there.
    #[cold]
    fn ends_out_of_line(&mut self, end: u64) -> bool {
        let before = self.out_of_line.len();
        self.out_of_line.retain(|of| *of > end);
        self.out_of_line.len() < before
    }
}
