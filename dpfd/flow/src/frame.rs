//! Frames: from bytes that anybody may have written to values that are sound, and back.
//!
//! What a frame says of itself is checked here; what it says of the flow (numbers, tags, room) where that is known. The
//! layout is drawn in `dp_abi::frame2`.

use dp_abi::frame2::{
    Header, CHECKSUM_AT, FLAG_ASK, FLAG_FIRST, FLAG_IMMEDIATE, FLAG_LAST, HEADER, HELLO, KIND_ACK,
    KIND_HELLO, KIND_PART, KIND_RAW, PART_HEAD, ROOM_MAX,
};
use dp_abi::MESSAGE_MAX;

use crate::{Address, Refused};

/// Bytes of a message's length, which stand before the first of its parts, if there are several.
pub(crate) const TOTAL: u16 = 4;

/// CRC32C of some bytes, continued from that of the bytes before them; 0 for the first. The same as `crc32c_append` of
/// libraries that use the processor's instruction for it, and the kernel's `crc32c` up to two inversions.
pub type Checksum = fn(u32, &[u8]) -> u32;

/// CRC32C by tables, for processors and places of which nothing is known: about 1 GB/s. Where the processor has an
/// instruction for it, a library that uses that is the better one.
#[cfg(feature = "crc")]
pub fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    use crc::{Crc, Table, CRC_32_ISCSI};
    static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
    // The library wants the register as it is before the bits are mirrored, and without the last inversion.
    let mut digest = CRC.digest_with_initial((!before).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

/// What begins a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Hello {
    /// The sender's name. Not 0.
    pub mine: u32,
    /// The name by which it calls this end; 0: it does not know any.
    pub yours: u32,
    /// The tag of the sender's other frames; 0: it sends none yet.
    pub current: u32,
    /// An answer is wanted.
    pub ask: bool,
    /// The number of its first part.
    pub first: u32,
    /// Parts that it has room for from the first on. Not 0.
    pub room: u16,
    /// The longest part that it takes, bytes. Not 0.
    pub part_max: u16,
    pub user: u32,
    /// Up to where the sender took parts with this tag. Tag 0: there are none.
    pub resume: (u32, u32),
}

/// A part of a message as it stands in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece<'a> {
    pub first: bool,
    pub last: bool,
    /// Bytes of the message, in its first part.
    pub total: u32,
    /// In the first part.
    pub immediate: Option<u64>,
    pub bytes: &'a [u8],
}

/// A frame that is sound in itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body<'a> {
    Hello(Hello),
    Part(Piece<'a>),
    /// `arrived`, from its seventeenth bit on.
    Ack(&'a [u8]),
    Raw(Piece<'a>),
}

pub(crate) fn parse(bytes: &[u8], checksum: Option<Checksum>) -> Result<(Header, Body<'_>), Refused> {
    let (head, behind) = bytes.split_first_chunk::<HEADER>().ok_or(Refused::Short)?;
    let header = Header::decode(head).ok_or(Refused::Version)?;
    let behind = behind.get(..header.bytes.into()).ok_or(Refused::Short)?;
    if let Some(checksum) = checksum {
        if header.checksum != sum(checksum, head, behind) {
            return Err(Refused::Checksum);
        }
    }
    let body = match header.kind {
        KIND_HELLO => Body::Hello(parse_hello(&header, behind)?),
        KIND_PART => Body::Part(parse_piece(&header, behind)?),
        KIND_ACK => Body::Ack(behind),
        KIND_RAW => Body::Raw(parse_piece(&header, behind)?),
        _ => return Err(Refused::Kind),
    };
    let arrived_max = usize::from(ROOM_MAX) / 8;
    let room = header.kind == KIND_RAW || (1..=ROOM_MAX).contains(&header.room());
    if !room || header.kind == KIND_ACK && behind.len() > arrived_max {
        return Err(Refused::Contradiction);
    }
    Ok((header, body))
}

fn parse_hello(header: &Header, behind: &[u8]) -> Result<Hello, Refused> {
    let behind: &[u8; HELLO] = behind.try_into().map_err(|_| Refused::Contradiction)?;
    let word = |at: usize| u32::from_be_bytes([behind[at], behind[at + 1], behind[at + 2], behind[at + 3]]);
    let hello = Hello {
        mine: word(0),
        yours: header.tag,
        current: word(12),
        ask: header.flags & FLAG_ASK != 0,
        first: header.number,
        room: header.room(),
        part_max: (word(8) >> 16) as u16,
        user: word(4),
        resume: (word(16), word(20)),
    };
    if hello.mine == 0 || hello.part_max == 0 {
        return Err(Refused::Contradiction);
    }
    Ok(hello)
}

fn parse_piece<'a>(header: &Header, mut bytes: &'a [u8]) -> Result<Piece<'a>, Refused> {
    let first = header.flags & FLAG_FIRST != 0;
    let last = header.flags & FLAG_LAST != 0;
    let mut total = None;
    let mut immediate = None;
    if first && !last {
        let (word, rest) = bytes.split_first_chunk().ok_or(Refused::Contradiction)?;
        total = Some(u32::from_be_bytes(*word));
        bytes = rest;
    }
    if header.flags & FLAG_IMMEDIATE != 0 {
        let (word, rest) = bytes.split_first_chunk().ok_or(Refused::Contradiction)?;
        immediate = Some(u64::from_be_bytes(*word));
        bytes = rest;
    }
    // A part of nothing is the whole of an empty message.
    let something = !bytes.is_empty() || (first && last);
    let more = total.is_none_or(|total| total as usize > bytes.len() && u64::from(total) <= MESSAGE_MAX);
    if !something || !more || (immediate.is_some() && !first) {
        return Err(Refused::Contradiction);
    }
    Ok(Piece { first, last, total: total.unwrap_or(bytes.len() as u32), immediate, bytes })
}

fn sum(checksum: Checksum, head: &[u8; HEADER], behind: &[u8]) -> u32 {
    checksum(checksum(checksum(0, &head[..CHECKSUM_AT]), &[0; HEADER - CHECKSUM_AT]), behind)
}

/// Whether a frame is from and to these.
pub(crate) fn is_between(header: &Header, from: Address, to: Address) -> bool {
    (header.from_nid, header.from_dpid) == (from.nid, from.dpid)
        && (header.to_nid, header.to_dpid) == (to.nid, to.dpid)
}

/// Puts the header before `behind` bytes that stand in `out` already. How long the frame is.
pub(crate) fn seal(out: &mut [u8], mut header: Header, behind: usize, checksum: Option<Checksum>) -> usize {
    header.bytes = behind as u16;
    header.checksum = 0;
    let (head, rest) = out.split_at_mut(HEADER);
    head.copy_from_slice(&header.encode());
    if let Some(checksum) = checksum {
        let sum = checksum(checksum(0, head), &rest[..behind]);
        head[CHECKSUM_AT..].copy_from_slice(&sum.to_be_bytes());
    }
    HEADER + behind
}

/// Writes what stands behind a HELLO's header.
pub(crate) fn write_hello(out: &mut [u8], hello: &Hello) -> usize {
    let Hello { mine, user, current, resume: (before, taken), .. } = *hello;
    let words = [mine, user, u32::from(hello.part_max) << 16, current, before, taken];
    for (at, word) in words.iter().enumerate() {
        out[4 * at..][..4].copy_from_slice(&word.to_be_bytes());
    }
    HELLO
}

/// Bytes of a message's next part, where so many are left. The first of several has less of it than the others by what stands
/// before it ([`write_piece_head`]), so that its frame is as long as theirs: what is below sends and takes a run of frames of one
/// length at once.
pub(crate) fn next_part(part_max: u16, begin: u32, left: u32, immediate: Option<u64>) -> u16 {
    if begin == 0 && left > part_max.into() {
        part_max.saturating_sub(if immediate.is_some() { PART_HEAD as u16 } else { TOTAL }).max(1)
    } else {
        left.min(part_max.into()) as u16
    }
}

/// A frame may be filled up with so small a part of its message.
const FILLED_WITH: usize = 128;

/// Fills the frame of a message's last part up, if it is a little shorter than the others: then the next message's frames go on as one
/// run with its own. How long it is. The first one, and one that was cut for a shorter way, stay as they are.
pub(crate) fn fill_up(
    out: &mut [u8],
    len: usize,
    part_max: u16,
    (begin, last): (u32, bool),
    total: u32,
) -> usize {
    let full = HEADER + usize::from(part_max);
    if begin == 0 || !last || len >= full || (full - len) * FILLED_WITH > total as usize {
        return len;
    }
    out[len..full].fill(0);
    full
}

/// Writes what stands between a part's header and the part. Its length, and the flags that go with it.
pub(crate) fn write_piece_head(
    out: &mut [u8],
    first: bool,
    last: bool,
    total: u32,
    immediate: Option<u64>,
) -> (usize, u8) {
    let mut at = 0;
    let mut flags = if last { FLAG_LAST } else { 0 };
    if first {
        flags |= FLAG_FIRST;
        if !last {
            out[..4].copy_from_slice(&total.to_be_bytes());
            at = 4;
        }
        if let Some(immediate) = immediate {
            out[at..at + 8].copy_from_slice(&immediate.to_be_bytes());
            at += 8;
            flags |= FLAG_IMMEDIATE;
        }
    }
    (at, flags)
}

/// Length of the longest frame with parts of up to `part_max` bytes, and of the longest that says what arrived.
pub(crate) const fn frame_max(part_max: u16) -> usize {
    let part = part_max as usize + PART_HEAD;
    let ack = ROOM_MAX as usize / 8;
    HEADER + if part > ack { part } else { ack }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests;
