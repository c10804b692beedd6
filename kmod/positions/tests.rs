// SPDX-License-Identifier: GPL-2.0

//! The positions by themselves, and that no look at them takes long.

use super::*;

fn inner(budget: u64) -> Result<Positions> {
    Ok(Positions::new(Arc::new(Ring::new(budget, 0)?, GFP_KERNEL)?, true))
}

/// A token without a byte, as a place takes it.
fn token(inner: &mut Positions, state: u32) {
    let Some(ring) = &inner.ring else { return };
    ring.clear(inner.tail + TOKEN_ALIGN);
    ring.set_state(inner.tail, state, 0);
    inner.tail += token_span(0);
}

#[kunit_tests(dp_positions)]
mod dp_positions {
    use super::*;

    #[test]
    fn there_are_tokens_from_the_head_to_the_tail_only() -> Result {
        let mut inner = inner(4096)?;
        (inner.head, inner.tail) = (1 << 20, (1 << 20) + 640);
        assert!(inner.holds(1 << 20) && inner.holds((1 << 20) + 640));
        assert!(!inner.holds((1 << 20) + 641) && !inner.holds((1 << 20) - 1) && !inner.holds(0));
        assert!(!inner.holds(u64::MAX) && !inner.holds(1 << 63));
        Ok(())
    }

    #[test]
    fn room_is_what_the_budget_says_and_not_what_the_ring_has() -> Result {
        // The ring has 8192 bytes.
        let mut inner = inner(5000)?;
        assert!(inner.limit() == 4992 && inner.info().ring == 8192 && inner.info().size == 5000);
        assert!(inner.room_for(4992 - 64 - 16).is_ok() && inner.is_out_of_line(4992 - 64 - 15));
        assert!(inner.room_for(5000).is_ok());
        inner.tail = 4992 - 128;
        assert!(inner.room_for(48).is_ok() && inner.room_for(49) == Err(Refused::Full));
        inner.state = State::Moving;
        assert!(inner.room_for(0) == Err(Refused::Full));
        inner.state = State::Closed;
        assert!(inner.room_for(0) == Err(Refused::Gone));
        Ok(())
    }

    #[test]
    fn a_quarter_is_counted_from_the_budget() -> Result {
        let mut inner = inner(4096)?;
        assert!(inner.a_quarter_is_free());
        inner.tail = 3072;
        assert!(inner.a_quarter_is_free());
        inner.tail = 3072 + 64;
        assert!(!inner.a_quarter_is_free());
        inner.head = 64;
        assert!(inner.a_quarter_is_free());
        Ok(())
    }

    #[test]
    fn what_was_read_is_stepped_over_in_goes_that_end() -> Result {
        let mut inner = inner(1 << 20)?;
        let tokens = u64::from(STEPS) + 10;
        for _ in 0..tokens {
            token(&mut inner, TOKEN_DONE);
        }
        token(&mut inner, TOKEN_MESSAGE);
        inner.taken = tokens * 64;
        assert!(inner.collect(None) == Err(Refused::Again) && inner.head == u64::from(STEPS) * 64);
        assert!(inner.collect(None).is_ok() && inner.head == tokens * 64);
        assert!(inner.readable() && inner.next_len() == Some(0));
        Ok(())
    }

    #[test]
    fn what_was_given_up_needs_nobody_to_come_for_it() -> Result {
        let mut inner = inner(4096)?;
        for state in [TOKEN_VOID, TOKEN_VOID, TOKEN_MESSAGE, TOKEN_VOID] {
            token(&mut inner, state);
        }
        assert!(inner.collect(None).is_ok() && inner.head == 128 && inner.taken == 128);
        Ok(())
    }

    #[test]
    fn the_next_message_is_not_looked_for_without_end() -> Result {
        let mut inner = inner(1 << 20)?;
        for _ in 0..STEPS {
            token(&mut inner, TOKEN_VOID);
        }
        token(&mut inner, TOKEN_MESSAGE);
        assert!(inner.next_len().is_none());
        inner.taken = 64;
        assert_eq!(inner.next_len(), Some(0));
        Ok(())
    }

    #[test]
    fn memory_that_lies_apart_is_found_until_it_is_over() -> Result {
        let mut inner = inner(4096)?;
        let area = Arc::new(Area::new(8192, 1)?, GFP_KERNEL)?;
        let first = inner.put_apart(0, 8192, area.clone());
        let second = inner.put_apart(64, 5000, area.clone());
        assert!(first == abi::MAP_OUT_OF_LINE && second > first + abi::MESSAGE_MAX);
        assert!(inner.out_of_line_at(64).is_some() && inner.out_of_line_mapped(second).is_some());
        assert!(inner.out_of_line_at(128).is_none() && inner.out_of_line_mapped(first + 4096).is_none());
        inner.end_apart(0);
        inner.end_apart(0);
        assert!(
            inner.out_of_line_at(0).is_none()
                && inner.out_of_line_mapped(first).is_none()
                && inner.out_of_line_over
        );
        let over = inner.take_over(false).ok_or(EIO)?;
        assert!(over.iter().flatten().count() == 1 && inner.take_over(false).is_none());
        assert!(inner.out_of_line_at(64).is_some());
        let rest = inner.take_over(true).ok_or(EIO)?;
        assert!(rest.iter().flatten().count() == 1 && inner.out_of_line_mapped(second).is_none());
        Ok(())
    }
}
