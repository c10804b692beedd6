//! Numbers of a sender whose receiver has left their ring: what goes onto TCP at once, and what does not (PROTOCOLS E8).

use dp_edge::ring::LINE;

/// The longest send buffer that is made for what is taken back, bytes: the kernel doubles `net.core.wmem_max`, 212 992 by
/// default.
pub const ORDINARY: u32 = 425_984;

/// Lines that are taken back whatever room there is: a receiver that waited when it left finds one token behind the last,
/// and no bell for it.
const LITTLE: u64 = 512;

/// Whether a rest of so many lines is taken back in any case.
pub fn is_little(lines: u64) -> bool {
    lines <= LITTLE
}

/// What so many lines of a ring need in a send buffer at most, bytes: the kernel counts its own headers, too.
pub fn bytes(lines: u64) -> u64 {
    let payload = lines.saturating_mul(LINE as u64);
    payload.saturating_add(payload / 2).saturating_add(16 * 1024)
}

/// Room in a send buffer, bytes.
pub fn free(limit: u32, queued: u32) -> u64 {
    limit.saturating_sub(queued).into()
}

/// SO_LINGER in one word; never 0.
pub fn pack_linger(on: bool, seconds: i32) -> u32 {
    let seconds = seconds.clamp(0, (u32::MAX >> 2) as i32) as u32;
    1 | u32::from(on) << 1 | seconds << 2
}

/// What [`pack_linger`] made; `None` of 0.
pub fn unpack_linger(word: u32) -> Option<(bool, i32)> {
    (word != 0).then_some((word & 2 != 0, (word >> 2) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_the_usual_length_goes_into_an_ordinary_buffer() {
        assert!(bytes(128 * 1024 / LINE as u64) <= u64::from(ORDINARY));
        assert!(bytes(4 << 20) > u64::from(ORDINARY));
        assert!(bytes(u64::MAX) == u64::MAX);
    }

    #[test]
    fn one_token_is_little() {
        assert!(is_little(dp_edge::ring::lines_for(crate::stream::MAX_TOKEN)));
    }

    #[test]
    fn a_buffer_that_is_over_its_limit_has_no_room() {
        assert_eq!(free(4608, 70_000), 0);
        assert_eq!(free(70_000, 4608), 65_392);
    }

    #[test]
    fn linger_goes_through_a_word() {
        for linger in [(false, 0), (true, 0), (true, 1), (false, 30), (true, 1 << 20)] {
            assert_eq!(unpack_linger(pack_linger(linger.0, linger.1)), Some(linger));
        }
        assert_eq!(unpack_linger(0), None);
        assert_eq!(unpack_linger(pack_linger(true, i32::MAX)), Some((true, (u32::MAX >> 2) as i32)));
        assert_eq!(unpack_linger(pack_linger(true, -1)), Some((true, 0)));
    }
}
