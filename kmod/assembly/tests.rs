// SPDX-License-Identifier: GPL-2.0

//! Parts of messages, in any order.

use super::*;

/// A part of a message of `total` bytes.
fn part(from: u16, number: u32, total: u32, begin: u32, bytes: u16) -> Result<(Frame, Part)> {
    let (from_nid, from_dpid, to_nid, to_dpid) = (2, from, 1, 5000);
    let frame = Frame { bytes, from_nid, from_dpid, to_nid, to_dpid, uid: 0, number, total, begin };
    Ok((frame, Part::without_frame(bytes.into())?))
}

/// Letters: p for partly, w for whole, l for lost; how many messages were given up or how many parts it has.
fn add(assembly: &mut Assembly, (frame, part): (Frame, Part)) -> (char, u64) {
    match assembly.add(&frame, part) {
        Added::Partly(given_up) => ('p', given_up),
        Added::Whole(parts) => ('w', parts.len() as u64),
        Added::Lost(given_up) => ('l', given_up),
    }
}

#[kunit_tests(dp_assembly)]
mod dp_assembly {
    use super::*;

    #[test]
    fn parts_in_order_are_a_message() -> Result {
        let mut a = KBox::new(Assembly::new(), GFP_KERNEL)?;
        assert!(add(&mut a, part(1, 1, 250, 0, 100)?) == ('p', 0));
        // Of another sender, in between.
        assert!(add(&mut a, part(2, 1, 150, 0, 100)?) == ('p', 0));
        assert!(add(&mut a, part(1, 1, 250, 100, 100)?) == ('p', 0));
        assert!(add(&mut a, part(1, 1, 250, 200, 50)?) == ('w', 3));
        assert!(add(&mut a, part(2, 1, 150, 100, 50)?) == ('w', 2));
        assert!(add(&mut a, part(1, 1, 250, 200, 50)?) == ('l', 0));
        Ok(())
    }

    #[test]
    fn a_missing_part_ends_its_message() -> Result {
        let mut a = KBox::new(Assembly::new(), GFP_KERNEL)?;
        assert!(add(&mut a, part(1, 1, 300, 0, 100)?) == ('p', 0));
        assert!(add(&mut a, part(1, 1, 300, 200, 100)?) == ('l', 1));
        assert!(add(&mut a, part(1, 1, 300, 100, 100)?) == ('l', 0));
        // Nor is a part another message's.
        assert!(add(&mut a, part(1, 2, 300, 0, 100)?) == ('p', 0));
        assert!(add(&mut a, part(1, 3, 300, 100, 100)?) == ('l', 1));
        assert!(add(&mut a, part(1, 4, 300, 0, 100)?) == ('p', 0));
        assert!(add(&mut a, part(1, 4, 301, 100, 100)?) == ('l', 1));
        Ok(())
    }

    #[test]
    fn a_new_message_takes_the_place_of_its_senders_last() -> Result {
        let mut a = KBox::new(Assembly::new(), GFP_KERNEL)?;
        assert!(add(&mut a, part(1, 1, 200, 0, 100)?) == ('p', 0));
        assert!(add(&mut a, part(1, 2, 200, 0, 100)?) == ('p', 1));
        assert!(add(&mut a, part(1, 2, 200, 100, 100)?) == ('w', 2));
        Ok(())
    }

    #[test]
    fn one_too_many_takes_the_place_of_the_oldest() -> Result {
        let mut a = KBox::new(Assembly::new(), GFP_KERNEL)?;
        for from in 0..PARTIALS as u16 {
            assert!(add(&mut a, part(100 + from, 1, 200, 0, 100)?) == ('p', 0));
        }
        assert!(add(&mut a, part(99, 1, 200, 0, 100)?) == ('p', 1));
        assert!(add(&mut a, part(100, 1, 200, 100, 100)?) == ('l', 0));
        assert!(add(&mut a, part(101, 1, 200, 100, 100)?) == ('w', 2));
        assert!(add(&mut a, part(99, 1, 200, 100, 100)?) == ('w', 2));
        Ok(())
    }
}
