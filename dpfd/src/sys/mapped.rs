//! The pool of an endpoint of the kernel driver, as the program sees it: the ring, which the kernel alone writes, and
//! the control page, which whoever has the descriptor can write.
//!
//! So what the ring says is the kernel's word. Only where it is read is not: another holder of the descriptor could
//! have told the kernel that messages were released that are not, and the kernel have put others over them. Hence a
//! length is checked against the mapping before it is used. Nothing is ever read from the control page but "room is
//! wanted" and "the endpoint is closed", and a lie there costs a system call.

use std::io;
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering::*};

use dp_abi as abi;

const PAGE: usize = 4096;
const IMMEDIATE: usize = abi::IMMEDIATE as usize;

/// Memory of the kernel's, mapped as long as the value lives.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: what is read there is read by copies and atomics, whoever does it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: i32, at: u64, len: usize, protection: i32) -> io::Result<Mapping> {
        let at = libc::off64_t::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping, where the kernel chooses.
        let base = unsafe { libc::mmap64(core::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, at) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: base.cast(), len })
    }

    /// A message out of line.
    ///
    /// # Errors
    ///
    /// Those of mmap(2): ENOMEM; EINVAL: there is none at this offset.
    pub fn out_of_line(fd: i32, at: u64, len: usize) -> io::Result<Mapping> {
        if len > abi::MESSAGE_MAX as usize {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Mapping::new(fd, at, len.max(1), libc::PROT_READ)
    }

    /// The byte at `offset`. Whoever looks there keeps the mapping.
    pub fn address(&self, offset: usize) -> *const u8 {
        self.base.wrapping_add(offset.min(self.len))
    }

    /// A control word, or one of a token.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.len);
        // SAFETY: inside of the mapping and aligned; all sides use atomic accesses.
        unsafe { &*self.base.add(offset).cast() }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.len);
        // SAFETY: as above.
        unsafe { &*self.base.add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours; references into it borrow self.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// What is at a position of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Nothing yet.
    Empty,
    /// A message: its place in the ring's mapping, its length, and what came beside it.
    Message(usize, usize, Option<u64>),
    /// A message out of line: the offset at which the descriptor maps it, and the same.
    OutOfLine(u64, usize, Option<u64>),
    /// Nothing to be read.
    Void,
    /// What the kernel never writes there.
    Nonsense,
}

/// Ring and control page of an endpoint that reads in place.
#[derive(Debug)]
pub struct Ring {
    ring: Mapping,
    control: Mapping,
    mask: u64,
}

impl Ring {
    /// Maps both; `bytes`: of the ring, a power of two.
    ///
    /// # Errors
    ///
    /// Those of mmap(2): ENOMEM.
    pub fn map(fd: i32, bytes: u64) -> io::Result<Ring> {
        let len = usize::try_from(bytes).ok().filter(|n| n.is_power_of_two() && *n >= PAGE);
        let len = len.and_then(|n| n.checked_mul(2)).ok_or(io::ErrorKind::InvalidData)?;
        let ring = Mapping::new(fd, abi::MAP_RING, len, libc::PROT_READ)?;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let control = Mapping::new(fd, abi::MAP_CONTROL, PAGE, both)?;
        Ok(Ring { ring, control, mask: bytes - 1 })
    }

    /// The ring's memory.
    pub fn memory(&self) -> &Mapping {
        &self.ring
    }

    /// As many tokens as there can be.
    pub fn most_tokens(&self) -> u64 {
        self.mask / abi::TOKEN_ALIGN + 1
    }

    /// The token at a position, who sent it, and the position of the next.
    #[inline(always)]
    pub fn look(&self, position: u64) -> (Token, (u16, u16), u64) {
        let at = (position & self.mask & !(abi::TOKEN_ALIGN - 1)) as usize;
        // Acquire: pairs with the kernel's release when it publishes, so the message is there.
        let (state, len) = abi::token_parts(self.ring.word(at).load(Acquire));
        if state == abi::TOKEN_EMPTY {
            return (Token::Empty, (0, 0), position);
        }
        let header = abi::TOKEN_HEADER as usize;
        let whole = header + len as usize;
        let token = match state {
            abi::TOKEN_MESSAGE if at + whole <= self.ring.len => {
                Token::Message(at + header, len as usize, None)
            }
            abi::TOKEN_IMMEDIATE if len as usize >= IMMEDIATE && at + whole <= self.ring.len => {
                Token::Message(
                    at + header + IMMEDIATE,
                    len as usize - IMMEDIATE,
                    Some(self.ring.word(at + header).load(Relaxed)),
                )
            }
            abi::TOKEN_OUT_OF_LINE => {
                Token::OutOfLine(self.ring.word(at + header).load(Relaxed), len as usize, None)
            }
            abi::TOKEN_OUT_OF_LINE_IMMEDIATE => Token::OutOfLine(
                self.ring.word(at + header).load(Relaxed),
                len as usize,
                Some(self.ring.word(at + header + IMMEDIATE).load(Relaxed)),
            ),
            abi::TOKEN_VOID | abi::TOKEN_DONE if at + whole <= self.ring.len => Token::Void,
            _ => Token::Nonsense,
        };
        let sender = self.ring.word(at + 8).load(Relaxed).to_ne_bytes();
        let half =
            |at: usize| u32::from_ne_bytes([sender[at], sender[at + 1], sender[at + 2], sender[at + 3]]);
        (token, (half(0) as u16, half(4) as u16), position + abi::token_step(state, len.into()))
    }

    /// Whether something is at a position.
    #[inline(always)]
    pub fn is_there(&self, position: u64) -> bool {
        let at = (position & self.mask & !(abi::TOKEN_ALIGN - 1)) as usize;
        abi::token_parts(self.ring.word(at).load(Relaxed)).0 != abi::TOKEN_EMPTY
    }

    /// Tells the kernel which token comes next: poll(2) is about that one.
    #[inline(always)]
    pub fn set_taken(&self, position: u64) {
        self.control.word(core::mem::offset_of!(abi::Control, taken)).store(position, Release);
    }

    /// Tells the kernel up to where it may write. Whether somebody waits for that.
    #[inline(always)]
    pub fn set_released(&self, position: u64) -> bool {
        self.control.word(core::mem::offset_of!(abi::Control, released)).store(position, Release);
        // Pairs with the kernel's barrier between setting `wanted` and looking at `released`.
        fence(SeqCst);
        self.control.half(core::mem::offset_of!(abi::Control, wanted)).load(Relaxed) != 0
    }

    /// Whether the endpoint is closed, and this is what is left of it.
    pub fn is_closed(&self) -> bool {
        self.control.half(core::mem::offset_of!(abi::Control, closed)).load(Relaxed) != 0
    }
}
