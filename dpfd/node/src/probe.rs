//! Frames by which a node finds out whether a route to another works in both directions: a question, and the answer that
//! comes back by the way that the question took.
//!
//! They have the header of all frames (`dp_abi::frame2`), kind PROBE, no endpoints, and a number that the answer repeats.

use dp_abi::frame2::{Header, CHECKSUM_AT, FLAG_ASK, HEADER, KIND_PROBE};
use dp_flow::Checksum;
use dpfd::Nid;

/// A question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Who sends it.
    pub from: Nid,
    /// Whom it is for.
    pub to: Nid,
    /// Of the question, and of the answer to it.
    pub number: u32,
    /// It wants an answer.
    pub asks: bool,
}

/// As it is sent.
pub fn write(probe: Probe, checksum: Option<Checksum>) -> [u8; HEADER] {
    let header = Header {
        kind: KIND_PROBE,
        flags: if probe.asks { FLAG_ASK } else { 0 },
        from_nid: probe.from,
        to_nid: probe.to,
        number: probe.number,
        ..Header::default()
    };
    let mut bytes = header.encode();
    if let Some(checksum) = checksum {
        let sum = checksum(0, &bytes);
        bytes[CHECKSUM_AT..].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// As it came, if it is one and was not damaged. What follows the header fills a short frame up.
pub fn read(bytes: &[u8], checksum: Option<Checksum>) -> Option<Probe> {
    let head = bytes.first_chunk::<HEADER>()?;
    let header = Header::decode(head)?;
    if header.kind != KIND_PROBE || header.bytes != 0 || header.from_dpid != 0 || header.to_dpid != 0 {
        return None;
    }
    if let Some(checksum) = checksum {
        let mut bare = *head;
        bare[CHECKSUM_AT..].fill(0);
        if checksum(0, &bare) != header.checksum {
            return None;
        }
    }
    let asks = header.flags & FLAG_ASK != 0;
    Some(Probe { from: header.from_nid, to: header.to_nid, number: header.number, asks })
}

#[cfg(test)]
mod tests {
    use dp_flow::crc32c;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let probe = Probe { from: 1, to: 65534, number: 0xdead_beef, asks: true };
        let bytes = write(probe, Some(crc32c));
        assert_eq!(read(&bytes, Some(crc32c)), Some(probe));
        let mut filled = [0; 60];
        filled[..HEADER].copy_from_slice(&bytes);
        assert_eq!(read(&filled, Some(crc32c)), Some(probe), "Ethernet fills short frames up");
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&damaged, Some(crc32c)), None, "bit {bit}");
        }
        assert_eq!(read(&bytes[..HEADER - 1], Some(crc32c)), None);
    }
}
