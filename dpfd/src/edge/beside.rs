//! What goes beside a message: an immediate, for its receiver, and the route by which it is to go to another node, for the
//! gateway.
//!
//! It has one form wherever it lies: in a token before the message, behind an envelope, in a packet or a file beside it.
//!
//! ```text
//!   0           8        16              24
//!  +-----------+--------+---------------+      nothing, the immediate alone, or all of it
//!  | immediate | route  | 1: there is   |
//!  |           |        | an immediate  |
//!  +-----------+--------+---------------+
//! ```

use dp_edge::ring::{IMMEDIATE, ROUTED};

/// What goes beside one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// Eight bytes for the receiver.
    pub immediate: Option<u64>,
    /// The route's [`code`]; 0: the message names none.
    pub route: u64,
}

impl Beside {
    /// An immediate or none, and no route.
    pub const fn of(immediate: Option<u64>) -> Beside {
        Beside { immediate, route: 0 }
    }

    /// As bytes: the first `.1` of `.0`.
    #[inline]
    pub fn encode(self) -> ([u8; ROUTED], usize) {
        let mut out = [0; ROUTED];
        out[..8].copy_from_slice(&self.immediate.unwrap_or(0).to_ne_bytes());
        out[8..16].copy_from_slice(&self.route.to_ne_bytes());
        out[16..].copy_from_slice(&u64::from(self.immediate.is_some()).to_ne_bytes());
        let len = match self {
            Beside { immediate: None, route: 0 } => 0,
            Beside { route: 0, .. } => IMMEDIATE,
            _ => ROUTED,
        };
        (out, len)
    }

    /// From bytes, as many as [`Beside::encode`] made.
    pub fn decode(bytes: &[u8]) -> Option<Beside> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        match bytes.len() {
            0 => Some(Beside::default()),
            IMMEDIATE => Some(Beside::of(Some(word(0)))),
            ROUTED => Some(Beside { immediate: (word(16) != 0).then(|| word(0)), route: word(8) }),
            _ => None,
        }
    }
}

/// A route's name in 64 bits (FNV-1a); never 0.
#[inline]
pub fn code(name: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_out_as_it_went_in() {
        for immediate in [None, Some(0), Some(u64::MAX - 1)] {
            for route in [0, 1, code("eth")] {
                let beside = Beside { immediate, route };
                let (bytes, len) = beside.encode();
                assert_eq!(Beside::decode(&bytes[..len]), Some(beside));
            }
        }
        assert_eq!(Beside::default().encode().1, 0);
        assert_eq!([1, 7, 9, 16, 23].map(|len| Beside::decode(&[0; 24][..len])), [None; 5]);
    }

    #[test]
    fn routes_have_codes_of_their_own() {
        let names = ["udp", "eth", "sim", "shm", "a", "b", "ab", "ba"];
        let codes: std::collections::HashSet<u64> = names.into_iter().map(code).collect();
        assert_eq!(codes.len(), names.len());
        assert!(!codes.contains(&0));
    }
}
