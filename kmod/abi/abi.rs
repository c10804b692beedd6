// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT

//! What the kernel driver and user space agree on: numbers, layouts, limits. The one definition, compiled into
//! both; `dp_ioctl.h` says the same in C, and both sides check it.
//!
//! Rules of this file: `core` only, and nothing newer than the oldest compiler that a kernel is built with; `u8` to
//! `u64` only, so that 32-bit programs have the same layouts; padding has a name. Fields are in host order.

use core::mem::{offset_of, size_of};

/// The device.
pub const DEVICE: &str = "/dev/dp";

/// The version of this file that a program was made with, for [`Open`]. A newer module knows all older ones.
///
/// - 0: before there were immediates
/// - 1: tokens with an immediate, and [`IOC_SENDMSG`]
pub const VERSION: u32 = 1;

/// Longest message, bytes.
pub const MESSAGE_MAX: u64 = 16 << 20;
/// Highest number of an endpoint.
pub const DPID_MAX: u32 = 65535;
/// Numbers from here on need no privilege.
pub const DPID_FREE: u32 = 1024;
/// Highest number of a node.
pub const NID_MAX: u32 = 65534;
/// All other nodes that an attached interface reaches.
pub const NID_ALL: u32 = 65535;
/// Bytes of an interface's name, with a zero at the end.
pub const IFACE_NAME: usize = 16;

/// Smallest pool, bytes.
pub const POOL_MIN: u64 = 4096;
/// Largest pool, bytes.
pub const POOL_MAX: u64 = 1 << 30;
/// The pool of an endpoint that did not ask for another, bytes.
pub const POOL_DEFAULT: u64 = 128 << 10;

/// Every token begins at a multiple of this.
pub const TOKEN_ALIGN: u64 = 64;
/// What a token has before the message's first byte.
pub const TOKEN_HEADER: u64 = size_of::<Token>() as u64;

/// Nothing here yet. What comes next will be written at this place.
pub const TOKEN_EMPTY: u32 = 0;
/// A message.
pub const TOKEN_MESSAGE: u32 = 1;
/// Nothing to be read, to be stepped over: a sender gave up in the middle.
pub const TOKEN_VOID: u32 = 2;
/// A message that was taken by read(2), to be stepped over.
pub const TOKEN_DONE: u32 = 3;
/// A message that the ring has no room for ever. Behind the header lies, as eight bytes, the offset for mmap(2) where
/// it is; its own length is in the header. It stays until its token is released.
pub const TOKEN_OUT_OF_LINE: u32 = 4;

/// A message with an immediate: 8 bytes behind the header, which the message follows. The length is that of both.
///
/// ```text
///   0        8      12     16          24
///  +--------+------+------+-----------+- - - - - -+
///  | word   | nid  | dpid | immediate | message   |
///  +--------+------+------+-----------+- - - - - -+
/// ```
pub const TOKEN_IMMEDIATE: u32 = 5;
/// As [`TOKEN_OUT_OF_LINE`], with an immediate in the 8 bytes behind the offset.
pub const TOKEN_OUT_OF_LINE_IMMEDIATE: u32 = 6;
/// Bytes of an immediate.
pub const IMMEDIATE: u64 = 8;

/// The header of a message in the pool.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Token {
    /// Length in the lower half, state in the upper. Written last and in one piece, with release.
    pub word: u64,
    /// The sender's node; 0: this one.
    pub nid: u32,
    /// The sender.
    pub dpid: u32,
}

/// The first word of a token.
#[inline(always)]
pub const fn token_word(state: u32, len: u32) -> u64 {
    (state as u64) << 32 | len as u64
}

/// State and length of a token's first word.
#[inline(always)]
pub const fn token_parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// From one token to the next, bytes, for a message of `len`.
#[inline(always)]
pub const fn token_span(len: u64) -> u64 {
    (len + (TOKEN_HEADER + TOKEN_ALIGN - 1)) & !(TOKEN_ALIGN - 1)
}

/// From one token to the next, bytes, for a token with this state and length.
#[inline]
pub const fn token_step(state: u32, len: u64) -> u64 {
    token_span(if token_is_out_of_line(state) { 8 } else { len })
}

/// Whether a token in this state stands for a message out of line.
#[inline(always)]
pub const fn token_is_out_of_line(state: u32) -> bool {
    state == TOKEN_OUT_OF_LINE || state == TOKEN_OUT_OF_LINE_IMMEDIATE
}

/// Whether a token in this state is a message that waits.
#[inline(always)]
pub const fn token_is_message(state: u32) -> bool {
    state == TOKEN_MESSAGE || state == TOKEN_IMMEDIATE || token_is_out_of_line(state)
}

/// Bytes of the message of a token with this state and length.
#[inline(always)]
pub const fn token_message(state: u32, len: u64) -> u64 {
    if state == TOKEN_IMMEDIATE {
        len.saturating_sub(IMMEDIATE)
    } else {
        len
    }
}

/// The page that the endpoint's holder writes. All positions count bytes since the endpoint was made and never
/// turn back; a position's place in the ring is its lower bits. The kernel believes none of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Control {
    /// The next token that has not been given to the program.
    pub taken: u64,
    /// Named padding: each field has a cache line of its own.
    pub pad0: [u64; 7],
    /// Up to here everything may be overwritten.
    pub released: u64,
    /// Padding.
    pub pad1: [u64; 7],
    /// Not 0: a sender waits for room. Store `released`, then a full fence, then look here; then `IOC_FSYNC` with 0.
    pub wanted: u32,
    /// Not 0: the endpoint is closed, and this page and the ring are what is left of it. Written by the kernel alone.
    pub closed: u32,
    /// Padding.
    pub pad2: [u32; 14],
}

/// Offset for mmap(2): the control page, to be read and written. One page, shared.
pub const MAP_CONTROL: u64 = 0;
/// Offset for mmap(2): the ring, twice in a row, so that no message is ever in two pieces. To be read only.
pub const MAP_RING: u64 = 1 << 16;

/// Offsets for mmap(2) from here on: messages out of line, each at what its token says. To be read only.
pub const MAP_OUT_OF_LINE: u64 = 1 << 40;

/// Argument of [`IOC_OPEN`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Open {
    /// In: the number, 0 for any free one. Out: the number.
    pub dpid: u32,
    /// In: what the program knows, [`VERSION`] or less. EINVAL: the module is older than that.
    pub version: u32,
    /// In: bytes for messages that wait, 0 for [`POOL_DEFAULT`].
    pub pool: u64,
}

/// Argument of [`IOC_TARGET`] and [`IOC_PEER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Addr {
    /// Node; 0: this one.
    pub nid: u32,
    /// Endpoint.
    pub dpid: u32,
}

/// Argument of [`IOC_SENDTO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendTo {
    /// Address of the message.
    pub message: u64,
    /// Its length.
    pub len: u64,
    /// Where to.
    pub to: Addr,
    /// [`SEND_NOWAIT`], [`SEND_TARGET`], both or 0.
    pub flags: u32,
    /// 0.
    pub pad0: u32,
}

/// Argument of [`IOC_SENDMSG`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendMsg {
    /// Address of the message's pieces: an address and a length each, as for writev(2).
    pub pieces: u64,
    /// How many they are, [`PIECES_MAX`] at most.
    pub count: u32,
    /// [`SEND_NOWAIT`], [`SEND_TARGET`], [`SEND_IMMEDIATE`], several of them or 0.
    pub flags: u32,
    /// Where to.
    pub to: Addr,
    /// What goes beside the message; 0 without [`SEND_IMMEDIATE`].
    pub immediate: u64,
}

/// What an entry of io_uring's queue has as its command area for [`URING_SENDTO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UringSendTo {
    /// Where to.
    pub to: Addr,
    /// [`SEND_TARGET`] or 0; [`SEND_NOWAIT`] changes nothing.
    pub flags: u32,
    /// 0.
    pub pad0: u32,
}

/// Do not wait for room, whatever the file's flags say.
pub const SEND_NOWAIT: u32 = 1;
/// To the target; the address is not looked at.
pub const SEND_TARGET: u32 = 2;
/// There is an immediate. Only for [`IOC_SENDMSG`].
pub const SEND_IMMEDIATE: u32 = 4;
/// Pieces of one message, at most.
pub const PIECES_MAX: u32 = 1024;

/// Argument of [`IOC_POOL`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolInfo {
    /// In: bytes, 0: as it is. Out: bytes.
    pub size: u64,
    /// Out: bytes of the ring, a power of two; its mapping is twice that.
    pub ring: u64,
    /// Out: where [`Control::taken`] stood.
    pub taken: u64,
}

/// What [`IOC_STAT`] fills in. Fields may be added at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stat {
    /// In: bytes of this structure. Out: bytes filled in.
    pub size: u32,
    /// The endpoint's number.
    pub dpid: u32,
    /// The target's node; 0: this one.
    pub target_nid: u32,
    /// The target; 0: none.
    pub target_dpid: u32,
    /// Messages put into their receivers' pools.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that read(2) took, or that were released.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Times a message found no room at first.
    pub full: u64,
    /// Nonsense found in the control page.
    pub corrupt: u64,
    /// Bytes of the next message; all ones: none is there.
    pub next_len: u64,
    /// Bytes of the pool.
    pub pool: u64,
    /// Bytes of it that are free.
    pub pool_left: u64,
    /// Bytes of memory that belong to it.
    pub memory: u64,
    /// Longest message, bytes.
    pub max_message: u64,
    /// 1: messages are read in place, 0: by read(2).
    pub in_place: u32,
    /// Padding.
    pub pad0: u32,
    /// Tells the endpoint from all others that there are or were since the module was loaded.
    pub serial: u64,
    /// Of the messages sent: those left for numbers that nobody has opened yet.
    pub backlog: u64,
    /// Of the messages sent: those left for numbers that another user opened then. They are gone.
    pub lost: u64,
}

/// Argument of [`IOC_NODE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Node {
    /// The number of this node in the network namespace, 1 to [`NID_MAX`].
    pub nid: u32,
    /// 0.
    pub pad0: u32,
}

/// Argument of [`IOC_ATTACH_IF`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Iface {
    /// Its name in the network namespace.
    pub name: [u8; IFACE_NAME],
    /// [`REMOVE`] or 0.
    pub flags: u32,
    /// 0.
    pub pad0: u32,
}

/// Argument of [`IOC_NART`]: an entry of the Network Address Resolution Table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Route {
    /// The node, 1 to [`NID_MAX`].
    pub nid: u32,
    /// [`REMOVE`] or 0.
    pub flags: u32,
    /// The attached interface that it is reached by.
    pub name: [u8; IFACE_NAME],
    /// Its address there.
    pub mac: [u8; 6],
    /// 0.
    pub pad0: [u8; 2],
}

/// Takes back what the call without it makes.
pub const REMOVE: u32 = 1;

/// The letter of the numbers below.
pub const IOC_LETTER: u32 = 0xBD;

const fn ioc(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | IOC_LETTER << 8 | number
}

const NONE: u32 = 0;
const IN: u32 = 1;
const OUT: u32 = 2;

/// Names an endpoint and makes its pool.
pub const IOC_OPEN: u32 = ioc(IN | OUT, 1, size_of::<Open>());
/// Sets the default destination.
pub const IOC_TARGET: u32 = ioc(IN, 2, size_of::<Addr>());
/// Sends one message, to the target or to another destination. Returns its length.
pub const IOC_SENDTO: u32 = ioc(IN, 3, size_of::<SendTo>());
/// The sender of the message that read(2) returned last.
pub const IOC_PEER: u32 = ioc(OUT, 4, size_of::<Addr>());
/// Moves the endpoint to reading in place, for good.
pub const IOC_POOL: u32 = ioc(IN | OUT, 5, size_of::<PoolInfo>());
/// Releases as many of the oldest messages as the argument says; 0: looks at [`Control::released`] now.
pub const IOC_FSYNC: u32 = ioc(NONE, 6, 0);
/// Limits and counters. The kernel does not look at the size in this number, but at [`Stat::size`]: so fields can be
/// added.
pub const IOC_STAT: u32 = ioc(IN | OUT, 7, size_of::<Stat>());

/// Numbers this node in the network namespace. This and the next two need CAP_NET_ADMIN there, and no endpoint.
pub const IOC_NODE: u32 = ioc(IN, 8, size_of::<Node>());
/// Frames of an interface are ours from now on.
pub const IOC_ATTACH_IF: u32 = ioc(IN, 9, size_of::<Iface>());
/// Where a node is.
pub const IOC_NART: u32 = ioc(IN, 10, size_of::<Route>());

/// Sends one message of several pieces, with an immediate or without. Returns its length. A module that does not know it
/// says ENOTTY.
pub const IOC_SENDMSG: u32 = ioc(IN, 11, size_of::<SendMsg>());

/// `cmd_op` of `IORING_OP_URING_CMD`: sends the message at `addr`, of `len` bytes, to the address in the command area.
/// The result is its length, or -EAGAIN at once if there is no room.
pub const URING_SENDTO: u32 = ioc(IN, 3, size_of::<UringSendTo>());

/// A call's number without the size of its argument.
pub const fn ioc_without_size(number: u32) -> u32 {
    number & !(0x3fff << 16)
}

// The same numbers stand in dp_ioctl.h.
const _: () = {
    assert!(size_of::<Token>() == 16 && offset_of!(Token, nid) == 8 && offset_of!(Token, dpid) == 12);
    assert!(size_of::<Control>() == 192);
    assert!(offset_of!(Control, released) == 64 && offset_of!(Control, wanted) == 128);
    assert!(offset_of!(Control, closed) == 132);
    assert!(size_of::<Open>() == 16 && offset_of!(Open, pool) == 8);
    assert!(size_of::<Addr>() == 8 && offset_of!(Addr, dpid) == 4);
    assert!(size_of::<SendTo>() == 32 && offset_of!(SendTo, to) == 16);
    assert!(
        size_of::<SendMsg>() == 32 && offset_of!(SendMsg, to) == 16 && offset_of!(SendMsg, immediate) == 24
    );
    assert!(IOC_SENDMSG == 0x4020_bd0b);
    assert!(token_span(8) == token_span(16) && token_message(TOKEN_IMMEDIATE, 9) == 1);
    assert!(size_of::<UringSendTo>() == 16 && offset_of!(UringSendTo, flags) == 8);
    assert!(size_of::<PoolInfo>() == 24 && offset_of!(PoolInfo, taken) == 16);
    assert!(size_of::<Stat>() == 136);
    assert!(
        offset_of!(Stat, sent) == 16
            && offset_of!(Stat, next_len) == 64
            && offset_of!(Stat, in_place) == 104
            && offset_of!(Stat, lost) == 128
    );
    assert!(IOC_OPEN == 0xc010_bd01 && IOC_TARGET == 0x4008_bd02 && IOC_SENDTO == 0x4020_bd03);
    assert!(
        IOC_PEER == 0x8008_bd04 && IOC_POOL == 0xc018_bd05 && IOC_FSYNC == 0xbd06 && IOC_STAT == 0xc088_bd07
    );
    assert!(URING_SENDTO == 0x4010_bd03);
    assert!(size_of::<Node>() == 8 && size_of::<Iface>() == 24 && size_of::<Route>() == 32);
    assert!(offset_of!(Iface, flags) == 16 && offset_of!(Route, name) == 8 && offset_of!(Route, mac) == 24);
    assert!(IOC_NODE == 0x4008_bd08 && IOC_ATTACH_IF == 0x4018_bd09 && IOC_NART == 0x4020_bd0a);
    assert!(token_step(TOKEN_OUT_OF_LINE, 1 << 20) == 64 && token_step(TOKEN_MESSAGE, 49) == 128);
    assert!(token_span(0) == 64 && token_span(48) == 64 && token_span(49) == 128);
};
