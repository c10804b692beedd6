//! Numbers of frames: 32 bits that begin again at 0 behind the highest.
//!
//! At most [`ROOM_MAX`](dp_abi::frame2::ROOM_MAX) numbers are on their way, so of two numbers that meet, the distance says
//! which is the later one: it is taken for ahead if it is less than half of all numbers away. A frame that was so late
//! that the numbers came round meanwhile (half of them are 35 minutes at a million frames in a second) would be taken
//! for a new one.

/// How far `number` is ahead of `base`; nothing if it is behind.
pub(crate) fn ahead(number: u32, base: u32) -> Option<u32> {
    let distance = number.wrapping_sub(base);
    (distance < 1 << 31).then_some(distance)
}

/// Which of `W` places has this number. `W` divides the count of all numbers, so no two neighbours ever meet.
pub(crate) const fn place<const W: usize>(number: u32) -> usize {
    number as usize & (W - 1)
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::assert_eq;

    use super::*;

    cases! {
        later_numbers_are_ahead_across_the_end_of_all_numbers
        neighbours_have_neighbouring_places_across_the_end
    }

    fn later_numbers_are_ahead_across_the_end_of_all_numbers() {
        assert_eq!(ahead(7, 7), Some(0));
        assert_eq!(ahead(2, u32::MAX - 1), Some(4));
        assert_eq!(ahead(u32::MAX - 1, 2), None);
        assert_eq!((ahead(6, 7), ahead(1 << 31, 0)), (None, None));
    }

    fn neighbours_have_neighbouring_places_across_the_end() {
        assert_eq!([u32::MAX, 0, 1].map(place::<8>), [7, 0, 1]);
    }
}
