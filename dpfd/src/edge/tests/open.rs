//! Memory that somebody else made: what is refused, and with which errno (E12).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use dp_edge::ring::Tail;
use dp_edge::segment::sealed_len;
use libc::{EBADMSG, EINVAL, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE};

use super::receiver::Receiver;
use crate::edge::message;
use crate::edge::segment::{Segment, CONTROL, MAX_RING, MIN_RING};

const NAME: &CStr = c"dp-test";
const SEALS: i32 = F_SEAL_SHRINK | F_SEAL_GROW;

fn memory(len: usize, seals: i32, flags: u32) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | flags;
    // SAFETY: a C string and flags.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(len as u64)?;
    // SAFETY: a plain call on our own descriptor.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    Ok(file.into())
}

fn errno<T>(result: io::Result<T>) -> i32 {
    result.map(|_| ()).expect_err("refused").raw_os_error().expect("an errno")
}

#[test]
#[cfg_attr(miri, ignore)]
fn memory_without_both_size_seals_is_refused() {
    for seals in [0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL] {
        let fd = memory(CONTROL + MIN_RING, seals, 0).unwrap();
        assert_eq!(errno(sealed_len(fd.as_fd())), EBADMSG, "seals {seals:x}");
        assert_eq!(errno(Segment::open(fd.try_clone().unwrap())), EBADMSG, "seals {seals:x}");
    }
    assert!(Segment::open(memory(CONTROL + MIN_RING, SEALS, 0).unwrap()).is_ok());
}

#[test]
#[cfg_attr(miri, ignore)]
fn descriptors_that_are_no_sealed_memory_are_refused() {
    let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let fds: [OwnedFd; 3] = [
        File::open("/dev/null").unwrap().into(),
        File::open("/proc/self/exe").unwrap().into(),
        socket.into(),
    ];
    for fd in fds {
        assert_eq!(errno(Segment::open(fd)), EBADMSG);
    }
}

/// Huge pages are refused wherever the kernel lets us make them at all.
#[test]
#[cfg_attr(miri, ignore)]
fn huge_pages_are_refused() {
    if let Ok(fd) = memory(1 << 22, SEALS, libc::MFD_HUGETLB) {
        assert_eq!(errno(sealed_len(fd.as_fd())), EBADMSG);
    }
}

/// Sealed against writing, or opened for reading only: refused by mmap(2), and nothing stays mapped.
#[test]
#[cfg_attr(miri, ignore)]
fn memory_we_may_not_write_is_refused() {
    let fd = memory(CONTROL + MIN_RING, SEALS | F_SEAL_WRITE, 0).unwrap();
    assert_eq!(errno(Segment::open(fd)), libc::EPERM);
    let fd = memory(CONTROL + MIN_RING, SEALS, 0).unwrap();
    let read_only = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    assert_eq!(errno(Segment::open(read_only.into())), libc::EACCES);
}

#[test]
#[cfg_attr(miri, ignore)]
fn segments_of_impossible_sizes_are_refused() {
    let sizes = [
        0,
        1,
        CONTROL - 1,
        CONTROL,
        CONTROL + MIN_RING / 2,
        CONTROL + MIN_RING - 1,
        CONTROL + MIN_RING + 1,
        CONTROL + 3 * MIN_RING,
        CONTROL + 2 * MAX_RING,
        MIN_RING * 2 - 4096,
        1 << 50,
    ];
    for len in sizes {
        let fd = memory(len, SEALS, 0).unwrap();
        assert_eq!(errno(Segment::open(fd)), EBADMSG, "{len} bytes");
    }
    for ring in [0, 1, MIN_RING - 1, MIN_RING / 2, MIN_RING * 3, MAX_RING * 2, usize::MAX] {
        assert_eq!(errno(Segment::create(ring)), EINVAL, "{ring} bytes");
    }
}

/// One edge, two mappings: a message longer than what is left before the ring's end lies in one piece.
#[test]
#[cfg_attr(miri, ignore)]
fn segment_opened_twice_is_one_edge() {
    let (a, fd) = Segment::create(MIN_RING).unwrap();
    let b = Segment::open(fd).unwrap();
    let (to, from) = (a.lines(), b.lines());
    let (mut tail, mut receiver) = (Tail::default(), Receiver::default());
    for i in 0..100u8 {
        let m = vec![i; 1000 + usize::from(i)];
        message::send_bytes(&to, &mut tail, &a.rx().cursor, &m).unwrap();
        let len = receiver.look(&from).unwrap();
        // SAFETY: look() bounds the length; the ring stands twice in a row; nobody writes now.
        let in_place = unsafe { core::slice::from_raw_parts(from.payload(receiver.at), len) };
        assert_eq!(in_place, m);
        receiver.release(len, &b.rx().cursor);
    }
}
