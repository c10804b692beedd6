//! The calls of the kernel driver, on descriptors of /dev/dp. What they mean is in dp(4); numbers and layouts are
//! those of [`dp_abi`].
//!
//! Every call here does nothing to a descriptor of something else but fail with ENOTTY: a number that a program gave
//! away and another file has now is never written to.

use std::io::IoSlice;
use std::os::fd::{FromRawFd, OwnedFd};

use dp_abi as abi;

use dp_edge::sys::raw;

/// Opens the device: an endpoint without a number.
///
/// # Errors
///
/// ENOENT, EACCES and whatever else open(2) says.
pub fn open() -> Result<OwnedFd, i32> {
    let path = c"/dev/dp";
    debug_assert_eq!(path.to_str(), Ok(abi::DEVICE));
    // SAFETY: a path that ends with a 0.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives the endpoint its number and a pool; 0: any number. What it is.
///
/// # Errors
///
/// EADDRINUSE, EACCES, ENFILE, ENOMEM, EBUSY.
pub fn name(fd: i32, dpid: u16) -> Result<u16, i32> {
    let mut open = abi::Open { dpid: dpid.into(), version: abi::VERSION, pool: 0 };
    match ioctl(fd, abi::IOC_OPEN, &mut open) {
        // A module that is older than this library: as one that is as old.
        Err(libc::EINVAL) => {
            open.version = 0;
            ioctl(fd, abi::IOC_OPEN, &mut open)?;
        }
        done => drop(done?),
    }
    u16::try_from(open.dpid).map_err(|_| libc::EPROTO)
}

/// Sets the target.
///
/// # Errors
///
/// EINVAL, EHOSTUNREACH.
pub fn target(fd: i32, nid: u16, dpid: u16) -> Result<(), i32> {
    ioctl(fd, abi::IOC_TARGET, &mut abi::Addr { nid: nid.into(), dpid: dpid.into() }).map(drop)
}

/// Sends one message, to a node and an endpoint or to the target. `wait`: for room, unless the descriptor does not.
///
/// # Errors
///
/// EDESTADDRREQ, EACCES, EMSGSIZE, EHOSTUNREACH, EAGAIN, EINTR, ENOMEM.
#[inline]
pub fn send(fd: i32, to: Option<(u16, u16)>, message: &[u8], wait: bool) -> Result<(), i32> {
    let (nid, dpid) = to.unwrap_or((0, 0));
    let mut send = abi::SendTo {
        message: message.as_ptr() as u64,
        len: message.len() as u64,
        to: abi::Addr { nid: nid.into(), dpid: dpid.into() },
        flags: if wait { 0 } else { abi::SEND_NOWAIT } | if to.is_none() { abi::SEND_TARGET } else { 0 },
        pad0: 0,
    };
    ioctl(fd, abi::IOC_SENDTO, &mut send).map(drop)
}

/// Sends pieces as one message, with an immediate if there is one; else as [`send`].
///
/// # Errors
///
/// As [`send`]; EPROTONOSUPPORT: its receiver knows no immediates. EOPNOTSUPP: nor do frames to other nodes. ENOTTY: nor does
/// the module.
pub fn send_parts(
    fd: i32,
    to: Option<(u16, u16)>,
    pieces: &[IoSlice<'_>],
    immediate: Option<u64>,
    wait: bool,
) -> Result<(), i32> {
    let (nid, dpid) = to.unwrap_or((0, 0));
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let mut send = abi::SendMsg {
        // IoSlice is iovec by its documentation.
        pieces: pieces.as_ptr() as u64,
        count: u32::try_from(pieces.len()).map_err(|_| libc::EINVAL)?,
        flags: flag(!wait, abi::SEND_NOWAIT)
            | flag(to.is_none(), abi::SEND_TARGET)
            | flag(immediate.is_some(), abi::SEND_IMMEDIATE),
        to: abi::Addr { nid: nid.into(), dpid: dpid.into() },
        immediate: immediate.unwrap_or(0),
    };
    ioctl(fd, abi::IOC_SENDMSG, &mut send).map(drop)
}

/// Moves the endpoint to reading in place, for good; 0: the pool keeps its size. Size, bytes of the ring, and the
/// position of the next message.
///
/// # Errors
///
/// EBUSY: it reads in place already, with another size. EINVAL, ENOMEM, EINTR.
pub fn pool(fd: i32, size: usize) -> Result<abi::PoolInfo, i32> {
    let mut info = abi::PoolInfo { size: size as u64, ring: 0, taken: 0 };
    ioctl(fd, abi::IOC_POOL, &mut info)?;
    Ok(info)
}

/// Tells senders who wait that there may be room. Whether it is an endpoint.
///
/// # Errors
///
/// ENOTTY: something else.
pub fn look_again(fd: i32) -> Result<(), i32> {
    // SAFETY: the argument is a number.
    unsafe { call(fd, abi::IOC_FSYNC, 0) }.map(drop)
}

/// Limits and counters.
///
/// # Errors
///
/// ENOTTY: no descriptor of the device. ENXIO: it has no number.
pub fn stat(fd: i32) -> Result<abi::Stat, i32> {
    // SAFETY: numbers only: all zeros are a value.
    let mut stat: abi::Stat = unsafe { core::mem::zeroed() };
    stat.size = size_of::<abi::Stat>() as u32;
    ioctl(fd, abi::IOC_STAT, &mut stat)?;
    if (stat.size as usize) < size_of::<abi::Stat>() {
        return Err(libc::EPROTO); // a driver older than this library
    }
    Ok(stat)
}

/// Waits until a message is there, and takes none. With O_NONBLOCK it does not wait.
///
/// # Errors
///
/// EAGAIN, EINTR.
pub fn await_message(fd: i32) -> Result<(), i32> {
    // SAFETY: no byte is written. libc's own function: a cancellation point.
    match unsafe { libc::read(fd, core::ptr::null_mut(), 0) } {
        -1 => Err(errno()),
        _ => Ok(()),
    }
}

/// read(2) that does not wait, as the descriptor is non-blocking; how many bytes were copied.
///
/// # Errors
///
/// EAGAIN.
pub fn read(fd: i32, into: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: as many bytes as the slice has.
    match unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) } {
        -1 => Err(errno()),
        n => Ok(n as usize),
    }
}

/// The same of a descriptor that may wait.
///
/// # Errors
///
/// EAGAIN.
pub fn read_now(fd: i32, into: &mut [u8]) -> Result<usize, i32> {
    let part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: one part, which is the slice. -1: no position.
    match unsafe { libc::preadv2(fd, &part, 1, -1, libc::RWF_NOWAIT) } {
        -1 => Err(errno()),
        n => Ok(n as usize),
    }
}

/// The sender of what read(2) took last.
///
/// # Errors
///
/// ENOTTY.
pub fn peer(fd: i32) -> Result<(u16, u16), i32> {
    let mut from = abi::Addr { nid: 0, dpid: 0 };
    ioctl(fd, abi::IOC_PEER, &mut from)?;
    Ok((from.nid as u16, from.dpid as u16))
}

/// Numbers this node.
///
/// # Errors
///
/// EPERM, EINVAL.
pub fn set_node(fd: i32, nid: u16) -> Result<(), i32> {
    ioctl(fd, abi::IOC_NODE, &mut abi::Node { nid: nid.into(), pad0: 0 }).map(drop)
}

/// Attaches an interface, or detaches it.
///
/// # Errors
///
/// EPERM, ENODEV, EPROTOTYPE, EEXIST; EINVAL: no interface has such a name.
pub fn set_interface(fd: i32, name: &str, attached: bool) -> Result<(), i32> {
    let flags = if attached { 0 } else { abi::REMOVE };
    ioctl(fd, abi::IOC_ATTACH_IF, &mut abi::Iface { name: iface(name)?, flags, pad0: 0 }).map(drop)
}

/// Says where a node is: behind which interface, and its address there; or nothing of it.
///
/// # Errors
///
/// EPERM, ENODEV, ENOENT, EINVAL.
pub fn set_route(fd: i32, nid: u16, place: Option<(&str, [u8; 6])>) -> Result<(), i32> {
    let mut route = abi::Route {
        nid: nid.into(),
        flags: abi::REMOVE,
        name: [0; abi::IFACE_NAME],
        mac: [0; 6],
        pad0: [0; 2],
    };
    if let Some((name, mac)) = place {
        route = abi::Route { flags: 0, name: iface(name)?, mac, ..route };
    }
    ioctl(fd, abi::IOC_NART, &mut route).map(drop)
}

fn iface(name: &str) -> Result<[u8; abi::IFACE_NAME], i32> {
    let mut bytes = [0; abi::IFACE_NAME];
    if name.is_empty() || name.len() >= bytes.len() || name.contains('\0') {
        return Err(libc::EINVAL);
    }
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

fn ioctl<T>(fd: i32, number: u32, argument: &mut T) -> Result<usize, i32> {
    debug_assert_eq!((number >> 16 & 0x3fff) as usize, size_of::<T>());
    // SAFETY: each number is called with the structure it is defined with, and says its size; a message that one of
    // them names is borrowed by the caller.
    unsafe { call(fd, number, core::ptr::from_mut(argument) as usize) }
}

/// # Safety
///
/// `argument` is what the call wants.
#[inline]
unsafe fn call(fd: i32, number: u32, argument: usize) -> Result<usize, i32> {
    // SAFETY: the caller's promise.
    unsafe { raw::call(libc::SYS_ioctl, [fd as usize, number as usize, argument, 0, 0, 0]) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
