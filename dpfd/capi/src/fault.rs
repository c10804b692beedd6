//! What a call failed with: an errno, and a sentence for `dp_errno_text`.
//!
//! The sentence is made when it is asked for: a loop over a non-blocking endpoint fails with EAGAIN all the time.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int};
use std::fmt;

use dpfd::Error;

/// Longest sentence, bytes; a longer one is cut.
const LONGEST: usize = 512;

/// Why a call failed.
#[derive(Debug)]
pub enum Fault {
    /// The library's own words.
    Dp(Error),
    /// EBADF: no open descriptor.
    NotOpen(c_int),
    /// ENOTSOCK: something else than an endpoint.
    NotAnEndpoint(c_int),
    /// EOPNOTSUPP: only the process that opened the endpoint can do this.
    OnlyOpener(c_int),
    /// EPIPE: the process that opened the endpoint is gone.
    OpenerGone(c_int),
    /// EOPNOTSUPP: an option that this driver does not have.
    NoOption(c_int),
    /// EFAULT: a null pointer.
    Null(&'static str),
    /// EINVAL: `size` of a dpstat_t that nobody ever compiled.
    StatSize(usize),
    /// EINVAL: the same of a dpmsg_t.
    MsgSize(usize),
    /// EINVAL: flags of a dpmsg_t that there are not.
    MsgFlags(u32),
    /// EINVAL: fewer than no pieces.
    MsgPieces(c_int),
    /// EINVAL: fewer than no messages.
    Negative(c_int),
    /// ENOTRECOVERABLE: a bug of the library.
    Panicked,
}

/// What the steps of a call return.
pub type Res<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(e: Error) -> Fault {
        Fault::Dp(e)
    }
}

impl Fault {
    /// A system call that failed.
    pub fn system(call: &'static str, errno: c_int) -> Fault {
        Fault::Dp(match errno {
            libc::EAGAIN => Error::WouldBlock,
            libc::EINTR => Error::Interrupted,
            _ => Error::System { call, errno },
        })
    }

    fn errno(&self) -> c_int {
        match self {
            Fault::Dp(e) => e.errno(),
            Fault::NotOpen(_) => libc::EBADF,
            Fault::NotAnEndpoint(_) => libc::ENOTSOCK,
            Fault::OnlyOpener(_) | Fault::NoOption(_) => libc::EOPNOTSUPP,
            Fault::OpenerGone(_) => libc::EPIPE,
            Fault::Null(_) => libc::EFAULT,
            Fault::StatSize(_) | Fault::Negative(_) => libc::EINVAL,
            Fault::MsgSize(_) | Fault::MsgFlags(_) | Fault::MsgPieces(_) => libc::EINVAL,
            Fault::Panicked => libc::ENOTRECOVERABLE,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Dp(e) => e.fmt(f),
            Fault::NotOpen(fd) => write!(f, "descriptor {fd} is not open; was it closed already?"),
            Fault::NotAnEndpoint(fd) => {
                write!(f, "descriptor {fd} is no endpoint, or one that was closed; dp_open makes one")
            }
            Fault::OnlyOpener(fd) => write!(
                f,
                "endpoint on descriptor {fd} was opened by another process, and only that one can do this; \
                 open one here with dp_open"
            ),
            Fault::OpenerGone(fd) => write!(
                f,
                "the process that opened the endpoint on descriptor {fd} has ended; open one here with dp_open"
            ),
            Fault::NoOption(option) => {
                write!(f, "option {option} cannot have this value, or not any more; leave it as it is")
            }
            Fault::Null(what) => write!(f, "{what} is NULL; pass the address of a variable"),
            Fault::StatSize(size) => {
                write!(f, "dpstat_t.size is {size}; set it to sizeof(dpstat_t) before the call")
            }
            Fault::MsgSize(size) => {
                write!(f, "dpmsg_t.size is {size}; set it to sizeof(dpmsg_t) before the call")
            }
            Fault::MsgFlags(flags) => {
                write!(f, "dpmsg_t.flags is {flags:#x}; DP_MSG_IMMEDIATE, DP_MSG_TO and DP_MSG_ROUTE are possible")
            }
            Fault::MsgPieces(n) => write!(f, "a message of {n} pieces; pass 0 to 1024"),
            Fault::Negative(n) => write!(f, "{n} messages to release; pass 0 or more"),
            Fault::Panicked => {
                write!(f, "a bug of the library: it panicked; close the endpoint, and report what stderr says")
            }
        }
    }
}

thread_local! {
    static LAST: RefCell<Option<Fault>> = const { RefCell::new(None) };
    static TEXT: Cell<[u8; LONGEST]> = const { Cell::new([0; LONGEST]) };
}

/// Remembers the fault, sets errno; -1.
#[cold]
pub fn fail(fault: Fault) -> c_int {
    let errno = fault.errno();
    // At the thread's very end there is nobody left to ask for words.
    let _ = LAST.try_with(|last| last.replace(Some(fault)));
    set_errno(errno);
    -1
}

fn set_errno(errno: c_int) {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// This thread's errno.
pub fn errno() -> c_int {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// See dp_errno_text(3).
#[no_mangle]
pub extern "C" fn dp_errno_text() -> *const c_char {
    let errno = errno();
    let text = std::panic::catch_unwind(|| words(errno)).unwrap_or(c"unknown error".as_ptr());
    set_errno(errno);
    text
}

/// The sentence for `errno`: of the last fault if that was its errno, else the system's.
fn words(errno: c_int) -> *const c_char {
    let own = |last: &RefCell<Option<Fault>>| {
        last.borrow().as_ref().filter(|f| f.errno() == errno).map(ToString::to_string)
    };
    let mut text = [0; LONGEST];
    match LAST.try_with(own).ok().flatten() {
        Some(sentence) => {
            let n = sentence.floor_char_boundary_at(LONGEST - 1);
            text[..n].copy_from_slice(&sentence.as_bytes()[..n]);
        }
        // SAFETY: the buffer and its size; it always ends with a 0.
        None => unsafe {
            libc::strerror_r(errno, text.as_mut_ptr().cast(), LONGEST - 1);
        },
    }
    let kept = TEXT.try_with(|to| {
        to.set(text);
        to.as_ptr().cast::<c_char>().cast_const()
    });
    kept.unwrap_or(c"error at the end of a thread".as_ptr())
}

trait Cut {
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl Cut for str {
    /// The most bytes up to `most` that end between two characters.
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        (0..=most.min(self.len())).rev().find(|&n| self.is_char_boundary(n)).unwrap_or(0)
    }
}
