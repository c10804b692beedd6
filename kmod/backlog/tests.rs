// SPDX-License-Identifier: GPL-2.0

//! Which pools keep what was left, and for how long.

use super::*;

use crate::ring::Ring;

fn pool(dpid: u32) -> Result<Arc<Pool>> {
    Pool::new(dpid, 0, Ring::new(4096, 0)?, false)
}

#[kunit_tests(dp_backlog)]
mod dp_backlog {
    use super::*;

    #[test]
    fn there_are_so_many() -> Result {
        let (mut backlog, pool) = (Backlog::new(), pool(1)?);
        for _ in 0..MOST {
            assert!(backlog.has_room()?);
            backlog.push(&pool)?;
        }
        assert!(!backlog.has_room()?);
        backlog.forget(&pool);
        assert!(backlog.has_room()?);
        Ok(())
    }

    #[test]
    fn it_stays_while_a_sender_is_there_and_a_while_longer() -> Result {
        let (mut backlog, pool) = (Backlog::new(), pool(1)?);
        backlog.push(&pool)?;
        backlog.keep(&pool);
        backlog.sender_left(&pool);
        assert!(backlog.next_is_old_in().is_none() && backlog.take_old().is_none());
        backlog.sender_left(&pool);
        assert!(backlog.next_is_old_in().is_some_and(|time| !time.is_zero() && time <= LINGER));
        assert!(backlog.take_old().is_none());
        // Somebody comes for it in time.
        backlog.keep(&pool);
        assert!(backlog.next_is_old_in().is_none());
        Ok(())
    }

    #[test]
    fn what_is_old_is_taken_and_nothing_else() -> Result {
        let (mut backlog, old, young) = (Backlog::new(), pool(1)?, pool(2)?);
        backlog.push(&old)?;
        backlog.push(&young)?;
        backlog.sender_left(&old);
        backlog.sender_left(&young);
        backlog.0[0].left = Some(Instant::now() - LINGER);
        assert!(backlog.next_is_old_in().is_some_and(|time| time.is_zero()));
        assert!(backlog.take_old().is_some_and(|pool| Arc::ptr_eq(&pool, &old)));
        assert!(backlog.take_old().is_none() && backlog.0.len() == 1);
        // It may be gone when its sender goes.
        backlog.sender_left(&old);
        Ok(())
    }
}
