//! The numbers by which both sides of an offer prove that they hold its connection (PROTOCOLS I2).

use super::slot::Side;
use super::unmapped::Key;
use crate::sys::digest;

/// Bits of a digest that are shown; the one above is always set, and the rate is far from a limit and from "no limit".
const BITS: u32 = 61;

/// What the socket of `side` has to show, for an offer with `nonce` in the memory `key`, given to the family of `opener`, and
/// answered by `challenge`.
pub fn number(side: Side, key: Key, opener: [u64; 3], nonce: u64, challenge: u64) -> u64 {
    let [a, b, c] = opener;
    let digest = digest::of_words(&[side as u64, key[0], key[1], a, b, c, nonce, challenge]);
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
}
