// SPDX-License-Identifier: GPL-2.0

//! Who keeps what was left, and for how long.

use super::*;

use crate::ring::Ring;

fn pool(dpid: u32) -> Result<Arc<Pool>> {
    Pool::new(dpid, 0, Ring::new(4096, 0)?, false)
}

#[kunit_tests(dp_parked)]
mod dp_parked {
    use super::*;

    #[test]
    fn there_are_so_many() -> Result {
        let (mut parked, pool) = (Parked::new(), pool(1)?);
        for _ in 0..MOST {
            assert!(parked.has_room()?);
            parked.push(&pool)?;
        }
        assert!(!parked.has_room()?);
        parked.forget(&pool);
        assert!(parked.has_room()?);
        Ok(())
    }

    #[test]
    fn it_stays_while_a_sender_is_there_and_a_while_longer() -> Result {
        let (mut parked, pool) = (Parked::new(), pool(1)?);
        parked.push(&pool)?;
        parked.keep(&pool);
        parked.sender_left(&pool);
        assert!(parked.next_is_old_in().is_none() && parked.take_old().is_none());
        parked.sender_left(&pool);
        assert!(parked.next_is_old_in().is_some_and(|time| !time.is_zero() && time <= LINGER));
        assert!(parked.take_old().is_none());
        // Somebody comes for it in time.
        parked.keep(&pool);
        assert!(parked.next_is_old_in().is_none());
        Ok(())
    }

    #[test]
    fn what_is_old_is_taken_and_nothing_else() -> Result {
        let (mut parked, old, young) = (Parked::new(), pool(1)?, pool(2)?);
        parked.push(&old)?;
        parked.push(&young)?;
        parked.sender_left(&old);
        parked.sender_left(&young);
        parked.0[0].left = Some(Instant::now() - LINGER);
        assert!(parked.next_is_old_in().is_some_and(|time| time.is_zero()));
        assert!(parked.take_old().is_some_and(|pool| Arc::ptr_eq(&pool, &old)));
        assert!(parked.take_old().is_none() && parked.0.len() == 1);
        // It may be gone when its sender goes.
        parked.sender_left(&old);
        Ok(())
    }
}
