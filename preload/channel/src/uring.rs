//! What an io_uring is about to be told: which descriptors an entry of its submission queue concerns.
//!
//! A shim can let a program keep its channels beside a ring, if it reads each entry before the kernel does, and none is
//! about a channel. This is the rule of reading; whoever looks at memory and descriptors is the shim. What is not known
//! here (a later kernel's operation, flag or registration) cannot be followed, and is said to be so.

/// Bytes of an entry.
pub const ENTRY: usize = 64;

/// Something that an entry concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// A descriptor that it works with.
    File(i32),
    /// `n` descriptors, ints at this address, that become the ring's own.
    Files(u64, u32),
    /// A `struct msghdr` at this address, which may pass descriptors on.
    Message(u64),
    /// It cannot be told.
    Anything,
}

/// Names of the kernel's (linux/io_uring.h), as far as they are exceptions.
mod op {
    pub const NOP: u8 = 0;
    pub const POLL_REMOVE: u8 = 7;
    pub const SENDMSG: u8 = 9;
    pub const TIMEOUT: u8 = 11;
    pub const TIMEOUT_REMOVE: u8 = 12;
    pub const ASYNC_CANCEL: u8 = 14;
    pub const LINK_TIMEOUT: u8 = 15;
    pub const OPENAT: u8 = 18;
    pub const CLOSE: u8 = 19;
    pub const FILES_UPDATE: u8 = 20;
    pub const STATX: u8 = 21;
    pub const MADVISE: u8 = 25;
    pub const OPENAT2: u8 = 28;
    pub const EPOLL_CTL: u8 = 29;
    pub const SPLICE: u8 = 30;
    pub const PROVIDE_BUFFERS: u8 = 31;
    pub const REMOVE_BUFFERS: u8 = 32;
    pub const TEE: u8 = 33;
    pub const RENAMEAT: u8 = 35;
    pub const MSG_RING: u8 = 40;
    pub const SETXATTR: u8 = 42;
    pub const GETXATTR: u8 = 44;
    pub const SOCKET: u8 = 45;
    pub const SENDMSG_ZC: u8 = 48;
    pub const WAITID: u8 = 50;
    pub const FUTEX_WAITV: u8 = 53;
    pub const FIXED_FD_INSTALL: u8 = 54;
    pub const PIPE: u8 = 62;
}

/// The descriptor is an index among the ring's own (IOSQE_FIXED_FILE).
const FIXED: u8 = 1;
/// So is the one that splice takes from (SPLICE_F_FD_IN_FIXED).
const FIXED_IN: u32 = 1 << 31;

/// Calls `f` with everything that an entry concerns.
pub fn touches(entry: &[u8; ENTRY], mut f: impl FnMut(Touch)) {
    let four = |at: usize| u32::from_ne_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
    let eight = |at: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|k| entry[at + k]));
    let (operation, fixed) = (entry[0], entry[1] & FIXED != 0);
    let (fd, off, addr, len, flags, other) =
        (four(4) as i32, eight(8), eight(16), four(24), four(28), four(44));
    match operation {
        // No descriptor, or one of a folder, or a number that means something else.
        op::NOP
        | op::POLL_REMOVE
        | op::TIMEOUT
        | op::TIMEOUT_REMOVE
        | op::ASYNC_CANCEL
        | op::LINK_TIMEOUT => {}
        op::OPENAT | op::OPENAT2 | op::STATX | op::MADVISE | op::RENAMEAT..=39 => {}
        op::PROVIDE_BUFFERS | op::REMOVE_BUFFERS | op::SETXATTR | op::GETXATTR => {}
        op::SOCKET | op::WAITID..=op::FUTEX_WAITV | op::PIPE => {}
        // Another ring, which gets a number, or a file of this ring's own: that is no channel either.
        op::MSG_RING => {}
        // A file of the ring's own gets a number.
        op::FIXED_FD_INSTALL => f(Touch::Anything),
        op::FILES_UPDATE => f(Touch::Files(addr, len)),
        // The file to close may be one of the ring's own, by another field.
        op::CLOSE if other != 0 => {}
        op::EPOLL_CTL => {
            f(Touch::File(fd));
            f(Touch::File(off as i32));
        }
        op::SPLICE | op::TEE => {
            if flags & FIXED_IN == 0 {
                f(Touch::File(other as i32));
            }
            if !fixed {
                f(Touch::File(fd));
            }
        }
        op::SENDMSG | op::SENDMSG_ZC => {
            if !fixed {
                f(Touch::File(fd));
            }
            f(Touch::Message(addr));
        }
        63.. => f(Touch::Anything),
        _ if fixed => {}
        _ => f(Touch::File(fd)),
    }
}

/// Whether each entry of a ring with these flags (IORING_SETUP_*) can be read before the kernel reads it: nobody
/// submits but the program's calls, and entries lie where they always do.
pub fn can_be_followed(flags: u32) -> bool {
    const IOPOLL: u32 = 1;
    const CQSIZE_TO_TASKRUN_FLAG: u32 = 0b11_1111_1000;
    const CQE32_TO_DEFER_TASKRUN: u32 = 0b111 << 11;
    const NO_SQARRAY_TO_CQE_MIXED: u32 = 0b111 << 16;
    flags & !(IOPOLL | CQSIZE_TO_TASKRUN_FLAG | CQE32_TO_DEFER_TASKRUN | NO_SQARRAY_TO_CQE_MIXED) == 0
}

/// Whether io_uring_register(2) with this number leaves the ring's own files and its memory as they are.
pub fn registers_no_files(number: u32) -> bool {
    /// The ring is named by an index.
    const BY_INDEX: u32 = 1 << 31;
    const FILES: u32 = 2;
    const FILES_UPDATE: u32 = 6;
    const FILES2: u32 = 13;
    const FILES_UPDATE2: u32 = 14;
    const RESIZE_RINGS: u32 = 33;
    const LAST_KNOWN: u32 = 36;
    let number = number & !BY_INDEX;
    number <= LAST_KNOWN && !matches!(number, FILES | FILES_UPDATE | FILES2 | FILES_UPDATE2 | RESIZE_RINGS)
}

/// The last version of liburing whose submitting functions are all known here.
const LIBRARY: (i32, i32) = (2, 15);

/// Whether every function is known by which a liburing of that version submits.
pub fn library_is_known(version: (i32, i32)) -> bool {
    version <= LIBRARY
}

#[cfg(test)]
mod tests;
