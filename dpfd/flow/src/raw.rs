//! Raw mode: frames that nobody acknowledges, for programs that would rather lose a message than wait for it.
//!
//! Each loss is counted at the receiver, as soon as a later frame shows it: numbers that are missing are lost frames, and
//! messages of which a part is missing are lost messages. A frame that is overtaken counts as lost, too, and is dropped
//! when it comes: messages stay in order. Counting begins with the first frame that comes, and what is lost behind the
//! last one shows with the next.

use dp_abi::frame2::{Header, HEADER, KIND_RAW};
use dp_abi::MESSAGE_MAX;

use crate::config::{Config, Invalid, Place};
use crate::count::{add, Refused};
use crate::flow::Source;
use crate::frame::{self, Body, Piece};
use crate::number::ahead;
use crate::outbox::Outgoing;
use crate::reassemble::{Part, Sink};

/// What raw mode counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
pub struct RawCounts {
    /// Frames that were dropped because they were not sound, or not for this end.
    pub refused: u64,
    /// Frames that did not come, or were overtaken.
    pub frames_lost: u64,
    /// Frames that came twice or late, and were dropped.
    pub frames_late: u64,
    /// Messages of which something did not come, or for which the sink had no room.
    pub messages_lost: u64,
    /// Of those, the ones for which the sink had no room.
    pub no_room: u64,
    /// Messages that the sink has.
    pub messages_in: u64,
    /// Times that the other end was restarted.
    pub restarts: u64,
}

/// Both directions between two endpoints, without acknowledgements.
#[derive(Clone, Debug, Hash)]
pub struct Raw {
    config: Config,
    /// The longest part that the way carries.
    part_max: u16,
    /// Of the next frame and message to be sent.
    number: u32,
    message: u32,
    from_peer: Option<FromPeer>,
    messages_in: u64,
    counts: RawCounts,
}

/// What is known of the other end's frames.
#[derive(Clone, Copy, Debug, Hash)]
struct FromPeer {
    tag: u32,
    /// That of the incarnation before, of which frames may still come.
    former: Option<u32>,
    /// The next frame.
    number: u32,
    /// The first message that is neither with the sink nor counted as lost.
    message: u32,
    /// Bytes that the sink has of it, and what its first part said.
    taken: u32,
    total: u32,
    immediate: Option<u64>,
}

/// A message on its way into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawFrame {
    message: Outgoing,
    /// What is asked of the source.
    id: u64,
    begin: u32,
    number: u32,
    done: bool,
}

impl Raw {
    /// Of the configuration, addresses, `user`, `incarnation`, `first_number`, `part_max` and `checksum` are used. The
    /// incarnation must not be 0 and must be another one than all before, or the peer takes what comes for late.
    pub fn new(config: Config) -> Result<Raw, Invalid> {
        config.check()?;
        let (number, part_max) = (config.first_number, config.part_max);
        let counts = RawCounts::default();
        Ok(Raw { config, part_max, number, message: 0, from_peer: None, messages_in: 0, counts })
    }

    /// What it sends from now on is of another incarnation; not 0.
    pub fn set_tag(&mut self, tag: u32) {
        self.config.incarnation = tag;
    }

    /// From now on no longer parts than these are sent, 1 to [`Config::part_max`]; also of a message that was begun.
    pub fn set_part_max(&mut self, part_max: u16) {
        self.part_max = part_max.clamp(1, self.config.part_max);
    }

    /// Begins a message; `id` is what the source will be asked for. [`None`]: it is longer than [`MESSAGE_MAX`]. A message
    /// that is begun before all frames of the former are written ends that one: the peer counts it as lost.
    pub fn begin(&mut self, id: u64, message: Outgoing) -> Option<RawFrame> {
        if u64::from(message.total) > MESSAGE_MAX {
            return None;
        }
        let number = self.message;
        self.message = number.wrapping_add(1);
        Some(RawFrame { message, id, begin: 0, number, done: false })
    }

    /// Writes the message's next frame into `out`, of at least [`frame_max`](Raw::frame_max) bytes: how long it is.
    /// [`None`]: all were written, the source has not got the next part yet, or `out` is too short.
    pub fn write(&mut self, rest: &mut RawFrame, source: &mut impl Source, out: &mut [u8]) -> Option<usize> {
        if rest.done || out.len() < self.frame_max() {
            return None;
        }
        let Outgoing { total, immediate } = rest.message;
        let left = total - rest.begin;
        let bytes = u32::from(frame::next_part(self.part_max, rest.begin, left, immediate));
        let last = bytes == left;
        let (head, flags) =
            frame::write_piece_head(&mut out[HEADER..], rest.begin == 0, last, total, immediate);
        let part = &mut out[HEADER + head..][..bytes as usize];
        if !part.is_empty() && source.read(rest.id, rest.begin, part) < part.len() {
            return None;
        }
        let header = Header {
            kind: KIND_RAW,
            flags,
            bytes: 0,
            from_nid: self.config.from.nid,
            from_dpid: self.config.from.dpid,
            to_nid: self.config.to.nid,
            to_dpid: self.config.to.dpid,
            tag: self.config.incarnation,
            number: self.number,
            acknowledged: rest.number,
            word: self.config.user,
            checksum: 0,
        };
        let len = frame::seal(out, header, head + bytes as usize, self.config.checksum);
        let len = frame::fill_up(out, len, self.part_max, (rest.begin, last), total);
        self.number = self.number.wrapping_add(1);
        rest.begin += bytes;
        rest.done = last;
        Some(len)
    }

    /// A frame came, from anybody. What is in order goes into the sink; one that is refused ends its message, which is
    /// counted as lost. An error: the frame was dropped, and is counted.
    pub fn on_frame(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Refused> {
        self.on_frame_if(bytes, |_| Ok(()), sink)
    }

    /// The same, if frames with its tag are taken.
    pub fn on_frame_if(
        &mut self,
        bytes: &[u8],
        admit: impl FnOnce(u32) -> Result<(), Refused>,
        sink: &mut impl Sink,
    ) -> Result<(), Refused> {
        let taken = self.take(bytes, admit, sink);
        if taken.is_err() {
            add(&mut self.counts.refused, 1);
        }
        taken
    }

    /// Whether the sink has the beginning of a message whose other parts may still come.
    pub fn is_inside(&self) -> bool {
        self.from_peer.is_some_and(|peer| peer.taken > 0)
    }

    /// Waits no longer for the rest of that message, which is lost.
    pub fn give_up_begun(&mut self) {
        if let Some(peer) = self.from_peer.as_mut().filter(|peer| peer.taken > 0) {
            (peer.message, peer.taken) = (peer.message.wrapping_add(1), 0);
            add(&mut self.counts.messages_lost, 1);
        }
    }

    /// What was counted.
    pub fn counts(&self) -> &RawCounts {
        &self.counts
    }

    /// Length of the longest frame.
    pub fn frame_max(&self) -> usize {
        frame::frame_max(self.config.part_max)
    }

    fn take(
        &mut self,
        bytes: &[u8],
        admit: impl FnOnce(u32) -> Result<(), Refused>,
        sink: &mut impl Sink,
    ) -> Result<(), Refused> {
        let (header, body) = frame::parse(bytes, self.config.checksum)?;
        if !frame::is_between(&header, self.config.to, self.config.from) {
            return Err(Refused::Address);
        }
        let Body::Raw(piece) = body else { return Err(Refused::Kind) };
        admit(header.tag)?;
        let mut peer = match self.from_peer {
            Some(peer) if peer.tag == header.tag => peer,
            Some(peer) if peer.former == Some(header.tag) => return Err(Refused::Incarnation),
            Some(before) => {
                add(&mut self.counts.restarts, 1);
                // A later part of a message whose tag changed on its way is given up, and counted, below.
                let is_same = !piece.first && header.acknowledged == before.message;
                add(&mut self.counts.messages_lost, u64::from(before.taken > 0 && !is_same));
                FromPeer { former: Some(before.tag), ..FromPeer::new(&header) }
            }
            None => FromPeer::new(&header),
        };
        let Some(missing) = ahead(header.number, peer.number) else {
            add(&mut self.counts.frames_late, 1);
            return Ok(());
        };
        let Some(messages) = ahead(header.acknowledged, peer.message) else {
            // A part of a message that is given up already.
            self.step(peer, &header, missing);
            return Ok(());
        };
        if messages > 0 {
            peer = FromPeer { message: header.acknowledged, taken: 0, ..peer };
        }
        let next = peer.continued(&piece, missing);
        self.step(peer, &header, missing);
        add(&mut self.counts.messages_lost, messages.into());
        let Some(next) = next else {
            self.give_up(&header);
            return Ok(());
        };
        let part = Part {
            message: self.messages_in,
            total: next.total,
            begin: next.taken,
            immediate: next.immediate,
            place: Place { tag: header.tag, taken: header.number.wrapping_add(1) },
            bytes: piece.bytes,
        };
        if !sink.put(part) {
            add(&mut self.counts.no_room, 1);
            self.give_up(&header);
            return Ok(());
        }
        let mut next = FromPeer { number: header.number.wrapping_add(1), ..next };
        next.taken += piece.bytes.len() as u32;
        if piece.last {
            add(&mut self.counts.messages_in, 1);
            self.messages_in += 1;
            (next.message, next.taken) = (next.message.wrapping_add(1), 0);
        }
        self.from_peer = Some(next);
        Ok(())
    }

    fn step(&mut self, peer: FromPeer, header: &Header, missing: u32) {
        add(&mut self.counts.frames_lost, missing.into());
        self.from_peer = Some(FromPeer { number: header.number.wrapping_add(1), ..peer });
    }

    /// The message of this frame is lost; so are its other parts.
    fn give_up(&mut self, header: &Header) {
        add(&mut self.counts.messages_lost, 1);
        if let Some(peer) = &mut self.from_peer {
            (peer.message, peer.taken) = (header.acknowledged.wrapping_add(1), 0);
        }
    }
}

impl RawFrame {
    /// Whether all frames of the message were written.
    pub fn is_done(&self) -> bool {
        self.done
    }
}

impl FromPeer {
    fn new(header: &Header) -> FromPeer {
        FromPeer {
            tag: header.tag,
            former: None,
            number: header.number,
            message: header.acknowledged,
            taken: 0,
            total: 0,
            immediate: None,
        }
    }

    /// The message that a part is of, if nothing of it is missing before the part.
    fn continued(self, piece: &Piece<'_>, missing: u32) -> Option<FromPeer> {
        let next = match piece.first {
            true => FromPeer { taken: 0, total: piece.total, immediate: piece.immediate, ..self },
            false if self.taken > 0 && missing == 0 => self,
            false => return None,
        };
        let left = (next.total - next.taken) as usize;
        let ends = piece.bytes.len() == left;
        (piece.bytes.len() <= left && piece.last == ends && (self.taken == 0 || !piece.first)).then_some(next)
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests;
