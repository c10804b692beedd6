//! The XDP program, made and put on an interface by bpf(2), for which no crate without a compiler for BPF has calls: a room for
//! `unsafe`.
#![expect(unsafe_code, reason = "a system call on structures of the kernel's")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::Mac;

/// The kernel driver's frames begin with this byte, and stay its own.
const KERNEL_DRIVERS: i32 = dp_abi::frame::FRAME_VERSION as i32;

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const LINK_DETACH: libc::c_int = 34;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
/// The kind of attachment.
const XDP: u32 = 37;
/// The program takes frames that lie in several pieces, which this one passes on; interfaces may have any MTU then.
const HAS_FRAGS: u32 = 1 << 5;

/// Frames that are redirected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    /// Sent there.
    pub to: Mac,
    /// Of this type.
    pub ether_type: u16,
    /// No longer than that, bytes with the header.
    pub longest: u32,
}

/// Where the program runs: in the driver or in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The interface's driver, before there is a buffer of the network stack's.
    Driver,
    /// The kernel, with such a buffer, which it may have to copy first.
    Kernel,
}

/// A program that no interface has as yet, and the sockets that it redirects to.
#[derive(Debug)]
pub(super) struct Program {
    program: OwnedFd,
    sockets: OwnedFd,
}

/// A program is on an interface while this lives, whoever has copies of the descriptor.
#[derive(Debug)]
pub(super) struct Link(OwnedFd);

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = call(LINK_DETACH, &LinkDetach { link: self.0.as_raw_fd() as u32 });
    }
}

impl Program {
    /// For so many queues.
    pub fn load(frames: &Frames, queues: u32) -> io::Result<Program> {
        let map = MapCreate { kind: MAP_TYPE_XSKMAP, key: 4, value: 4, entries: queues, flags: 0 };
        let sockets = created(MAP_CREATE, &map)?;
        let code = code(frames, sockets.as_raw_fd());
        let load = ProgLoad {
            kind: PROG_TYPE_XDP,
            length: code.len() as u32,
            code: code.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel: 0,
            flags: HAS_FRAGS,
            name: *b"dp_frames\0\0\0\0\0\0\0",
            interface: 0,
            attachment: XDP,
        };
        let program = created(PROG_LOAD, &load)?;
        Ok(Program { program, sockets })
    }

    /// Frames that come by this queue go to that socket from now on.
    pub fn put(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd();
        let update = MapUpdate {
            map: self.sockets.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        call(MAP_UPDATE_ELEM, &update).map(drop)
    }

    /// Puts it on an interface, by number, if there is no other one.
    pub fn attach(&self, interface: u32, place: Place) -> io::Result<Link> {
        let flags = match place {
            Place::Kernel => 1 << 1,
            Place::Driver => 1 << 2,
        };
        let program = self.program.as_raw_fd() as u32;
        created(LINK_CREATE, &LinkCreate { program, interface, attachment: XDP, flags }).map(Link)
    }
}

/// The parts of `union bpf_attr` that are used, as the kernel has them.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    length: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attachment: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attachment: u32,
    flags: u32,
}

#[repr(C)]
struct LinkDetach {
    link: u32,
}

/// What bpf(2) is asked.
trait Question {}
impl Question for MapCreate {}
impl Question for MapUpdate {}
impl Question for ProgLoad {}
impl Question for LinkCreate {}
impl Question for LinkDetach {}

fn call<Q: Question>(command: libc::c_int, question: &Q) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads the question, which has no padding, and takes what is behind it for zeros. What the question points
    // to, code, a text, a key and a value, lives until the call returns, and is only read.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, question, mem::size_of::<Q>()) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer as libc::c_int)
}

/// The same of commands that answer with a descriptor, which closes with the process and with its exec.
fn created<Q: Question>(command: libc::c_int, question: &Q) -> io::Result<OwnedFd> {
    let descriptor = call(command, question)?;
    // SAFETY: the descriptor is new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// An instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Codes of instructions: what they do, with a register (`X`) or a number (`K`).
const MOV_X: u8 = 0xbf;
const MOV_K: u8 = 0xb7;
const ADD_X: u8 = 0x0f;
const ADD_K: u8 = 0x07;
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const LOAD_MAP: u8 = 0x18;
const GREATER_X: u8 = 0x2d;
const GREATER_K: u8 = 0x25;
const EQUAL_K: u8 = 0x15;
const OTHER_K: u8 = 0x55;
const OTHER_WORD_K: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

const REDIRECT_MAP: i32 = 51;
const BUFFER_LENGTH: i32 = 188;
const PASS: i32 = 2;

fn insn(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Insn {
    let registers = if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
    Insn { code, registers, offset, immediate }
}

/// The program. Register 1 has what the kernel tells of a frame at the start: where it begins, where its first piece ends, and at
/// byte 16 the queue that it came by.
fn code(frames: &Frames, sockets: i32) -> Vec<Insn> {
    // The program loads and compares numbers in the machine's own order.
    let [a, b, c, d, e, f] = frames.to.0;
    let to = (i32::from_ne_bytes([a, b, c, d]), i32::from(u16::from_ne_bytes([e, f])));
    let ether_type = i32::from(frames.ether_type.to_be());
    // Jumps to 0 go to the end, where frames are passed on.
    let mut code = vec![
        insn(MOV_X, 6, 1, 0, 0),
        insn(LOAD_WORD, 7, 1, 0, 0),
        insn(LOAD_WORD, 8, 1, 4, 0),
        // The header and a byte are there.
        insn(MOV_X, 2, 7, 0, 0),
        insn(ADD_K, 2, 0, 0, 15),
        insn(GREATER_X, 2, 8, 0, 0),
        // To this interface, of the EtherType, and not of the kernel driver's layout.
        insn(LOAD_WORD, 3, 7, 0, 0),
        insn(OTHER_WORD_K, 3, 0, 0, to.0),
        insn(LOAD_HALF, 3, 7, 4, 0),
        insn(OTHER_K, 3, 0, 0, to.1),
        insn(LOAD_HALF, 3, 7, 12, 0),
        insn(OTHER_K, 3, 0, 0, ether_type),
        insn(LOAD_BYTE, 3, 7, 14, 0),
        insn(EQUAL_K, 3, 0, 0, KERNEL_DRIVERS),
        // It fits into a chunk, and lies in one piece.
        insn(CALL, 0, 0, 0, BUFFER_LENGTH),
        insn(GREATER_K, 0, 0, 0, frames.longest as i32),
        insn(ADD_X, 7, 0, 0, 0),
        insn(GREATER_X, 7, 8, 0, 0),
        // To its queue's socket; passed on where there is none.
        insn(LOAD_WORD, 2, 6, 16, 0),
        insn(LOAD_MAP, 1, 1, 0, sockets),
        insn(0, 0, 0, 0, 0),
        insn(MOV_K, 3, 0, 0, PASS),
        insn(CALL, 0, 0, 0, REDIRECT_MAP),
        insn(EXIT, 0, 0, 0, 0),
        insn(MOV_K, 0, 0, 0, PASS),
        insn(EXIT, 0, 0, 0, 0),
    ];
    let end = code.len() as i16 - 2;
    for (at, one) in (0..).zip(&mut code) {
        if matches!(one.code, GREATER_X | GREATER_K | EQUAL_K | OTHER_K | OTHER_WORD_K) {
            one.offset = end - at - 1;
        }
    }
    code
}
