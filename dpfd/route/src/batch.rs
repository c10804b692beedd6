//! Frames on their way out and in.
//!
//! Frames of a batch lie one behind the other, so that a run of equal ones is what segmentation offload wants, and a
//! layer that encrypts can do it in place. Nothing here allocates after it was made.

use std::ops::Range;

use crate::PeerAddr;

/// The longest frame of any route, bytes: UDP's over IPv4.
pub const FRAME_MAX: usize = 65_507;
/// Frames of a batch at most.
pub const BATCH_MAX: usize = 64;

/// Frames to be sent to one peer, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    lengths: &'a [u16],
}

impl<'a> Frames<'a> {
    /// Frames of these lengths, which fill `bytes`. None if they do not, if one is empty or longer than [`FRAME_MAX`],
    /// or if there are more than [`BATCH_MAX`].
    pub fn new(bytes: &'a [u8], lengths: &'a [u16]) -> Option<Frames<'a>> {
        let sum: usize = lengths.iter().map(|&length| usize::from(length)).sum();
        let sound = lengths.iter().all(|&length| (1..=FRAME_MAX).contains(&usize::from(length)));
        (sound && sum == bytes.len() && lengths.len() <= BATCH_MAX).then_some(Frames { bytes, lengths })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of each.
    pub fn lengths(&self) -> &'a [u16] {
        self.lengths
    }

    /// Those behind the first `n`, where there are so many; what is left after a `send` that took `n`.
    pub fn after(&self, n: usize) -> Frames<'a> {
        let n = n.min(self.len());
        let bytes: usize = self.lengths[..n].iter().map(|&length| usize::from(length)).sum();
        Frames { bytes: &self.bytes[bytes..], lengths: &self.lengths[n..] }
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        self.lengths.iter().map(move |&length| {
            let (frame, behind) = rest.split_at(usize::from(length));
            rest = behind;
            frame
        })
    }

    /// The longest start that one segmented send can carry: frames as long as the first one, of which the last may be
    /// shorter; at most `frames` of them and `bytes` bytes, but at least one. How many, and their bytes.
    pub(crate) fn run(&self, frames: usize, bytes: usize) -> (usize, usize) {
        let Some(&first) = self.lengths.first() else { return (0, 0) };
        let (mut n, mut sum) = (1, usize::from(first));
        for &length in self.lengths.iter().take(frames).skip(1) {
            if length > first || sum + usize::from(length) > bytes {
                break;
            }
            n += 1;
            sum += usize::from(length);
            if length < first {
                break;
            }
        }
        (n, sum)
    }
}

/// Room for frames that are to be sent together.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    used: usize,
    lengths: [u16; BATCH_MAX],
    n: usize,
}

impl Batch {
    /// Room for `bytes` bytes, which should be as long as the longest frame at least.
    pub fn new(bytes: usize) -> Batch {
        Batch { bytes: vec![0; bytes], used: 0, lengths: [0; BATCH_MAX], n: 0 }
    }

    /// Has `fill` write one more frame of at most `room` bytes; it answers with its length, 0 for none. False if there
    /// is no such room, or no frame came.
    pub fn push(&mut self, room: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let end = self.used.saturating_add(room);
        if self.n == BATCH_MAX || room > FRAME_MAX || end > self.bytes.len() {
            return false;
        }
        let length = fill(&mut self.bytes[self.used..end]).min(room);
        if length == 0 {
            return false;
        }
        // A frame is no longer than FRAME_MAX, so it fits.
        self.lengths[self.n] = length as u16;
        self.n += 1;
        self.used += length;
        true
    }

    /// What it holds.
    pub fn frames(&self) -> Frames<'_> {
        Frames { bytes: &self.bytes[..self.used], lengths: &self.lengths[..self.n] }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.used = 0;
        self.n = 0;
    }
}

/// Frames that arrived together from one peer, in one slot: all of one length, of which the last may be shorter.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    from: PeerAddr,
    length: usize,
    each: usize,
}

/// Room for what arrives: slots, each of which takes what one packet of the network, or several joined ones, brought.
#[derive(Debug)]
pub struct Received {
    bytes: Vec<u8>,
    slot: usize,
    arrivals: Vec<Arrival>,
}

impl Received {
    /// So many slots, 1 to 32, of so many bytes, which [`Route::slot`](crate::Route::slot) tells.
    pub fn new(slots: usize, slot: usize) -> Received {
        let (slots, slot) = (slots.clamp(1, 32), slot.max(1));
        Received { bytes: vec![0; slots * slot], slot, arrivals: Vec::with_capacity(slots) }
    }

    /// Bytes of a slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Slots that are taken: less than the frames, where the system joined some of them.
    pub fn slots_used(&self) -> usize {
        self.arrivals.len()
    }

    /// Each frame and who sent it, in the order in which they arrived.
    pub fn iter(&self) -> impl Iterator<Item = (&PeerAddr, &[u8])> {
        let slots = self.bytes.chunks_exact(self.slot);
        self.arrivals.iter().zip(slots).flat_map(|(arrival, slot)| {
            slot[..arrival.length].chunks(arrival.each).map(|frame| (&arrival.from, frame))
        })
    }

    /// The same, to be decrypted in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&PeerAddr, &mut [u8])> {
        let slots = self.bytes.chunks_exact_mut(self.slot);
        self.arrivals.iter().zip(slots).flat_map(|(arrival, slot)| {
            slot[..arrival.length].chunks_mut(arrival.each).map(|frame| (&arrival.from, frame))
        })
    }

    /// For a route: all slots, whatever they hold.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// For a route: forgets what it holds.
    pub fn clear(&mut self) {
        self.arrivals.clear();
    }

    /// For a route: the next slot holds `length` bytes in frames of `each`, from there. What stands in slot `at` is
    /// moved there, if it is another one. The frames, or 0 if the slot does not hold so many bytes.
    pub fn push(&mut self, at: usize, from: PeerAddr, length: usize, each: usize) -> usize {
        let to = self.arrivals.len();
        let sound = (1..=self.slot).contains(&length) && each > 0;
        if !sound || at < to || (at + 1) * self.slot > self.bytes.len() {
            return 0;
        }
        if at > to {
            self.bytes.copy_within(span(at, self.slot, length), to * self.slot);
        }
        self.arrivals.push(Arrival { from, length, each });
        length.div_ceil(each)
    }
}

fn span(at: usize, slot: usize, length: usize) -> Range<usize> {
    at * slot..at * slot + length
}

#[cfg(test)]
mod tests;
