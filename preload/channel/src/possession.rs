//! The numbers by which both sides of an offer prove that they hold its connection (PROTOCOLS I2).

use hmac_sha256::Hash;

use crate::slot::Side;
use crate::unmapped::Key;

/// Bits of a digest that are shown; the one above is always set, and the rate is far from a limit and from "no limit".
const BITS: u32 = 61;

/// What the socket of `side` has to show, for an offer with `nonce` in the memory `key`, given to the family of `opener`, and
/// answered by `challenge`.
pub fn number(side: Side, key: Key, opener: [u64; 3], nonce: u64, challenge: u64) -> u64 {
    let [a, b, c] = opener;
    let words = [side as u64, key[0], key[1], a, b, c, nonce, challenge].map(u64::to_le_bytes);
    let [d0, d1, d2, d3, d4, d5, d6, d7, ..] = Hash::hash(words.as_flattened());
    let digest = u64::from_be_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
    (1 << BITS) | (digest & ((1 << BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_hands_numbers_on_has_other_ones_to_show() {
        let of = |key, opener, nonce, challenge| {
            [Side::Client, Side::Server].map(|side| number(side, key, opener, nonce, challenge))
        };
        let true_ones = of([1, 2], [1, 5, 6], 7, 8);
        let others = [
            of([9, 2], [1, 5, 6], 7, 8), // other memory
            of([1, 9], [1, 5, 6], 7, 8),
            of([1, 2], [2, 5, 6], 7, 8), // the same, given to somebody else
            of([1, 2], [1, 9, 6], 7, 8),
            of([1, 2], [1, 5, 9], 7, 8),
            of([1, 2], [1, 5, 6], 9, 8), // another time
            of([1, 2], [1, 5, 6], 7, 9),
        ];
        // One side's number shown by the other proves nothing, either.
        assert_ne!(true_ones[0], true_ones[1]);
        for other in others {
            assert!(other.iter().all(|number| !true_ones.contains(number)));
        }
        for number in true_ones {
            assert_eq!(number >> BITS, 1, "neither a limit nor the value for none");
        }
        assert_eq!(true_ones, of([1, 2], [1, 5, 6], 7, 8));
    }

    #[test]
    fn both_sides_compute_the_same_in_every_version() {
        // SHA-256 of eight little-endian words 1 to 8, its first eight bytes, 61 bits of them.
        assert_eq!(number(Side::Client, [2, 3], [4, 5, 6], 7, 8), 0x208ae425ef1615c9);
    }
}
