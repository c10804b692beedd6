// SPDX-License-Identifier: GPL-2.0

//! One thread puts messages into a pool and takes them out: places, their order, and how room comes back.

use kernel::{bindings, iov::IovIterDest, types::Opaque};

use super::*;

use crate::reading::{Claim, Next};

const FROM: abi::Addr = abi::Addr { nid: 0, dpid: 7 };

fn pool(budget: u64) -> Result<Arc<Pool>> {
    Pool::new(5000, 0, Ring::new(budget, 0)?, true)
}

fn write(place: &Reservation<'_>, byte: u8) {
    // SAFETY: reserved, with so many bytes.
    unsafe { place.spot.message().write_bytes(byte, place.spot.len as usize) };
}

fn send(pool: &Pool, len: u64, byte: u8) -> bool {
    let Ok(place) = pool.reserve(len, None, None) else { return false };
    write(&place, byte);
    place.commit(FROM);
    true
}

/// Of the kernel's own memory nothing is copied at once: each message is claimed.
fn take(pool: &Pool) -> (Option<Next>, Option<Claim>) {
    let mut byte = 0u8;
    let iter = Opaque::<bindings::iov_iter>::zeroed();
    let piece = bindings::kvec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the iterator is written before it is used; piece and byte live as long.
    let out = unsafe {
        bindings::iov_iter_kvec(iter.get(), bindings::ITER_DEST, &piece, 1, 1);
        IovIterDest::from_raw(iter.get())
    };
    let mut claim = None;
    (pool.take(out, &mut claim), claim)
}

fn claim(pool: &Pool) -> Option<Claim> {
    take(pool).1
}

/// Length and byte of a message that has one byte all over.
fn content(claim: &Claim) -> (u64, Option<u8>) {
    // SAFETY: claimed.
    let bytes = unsafe { core::slice::from_raw_parts(claim.message, claim.len as usize) };
    let first = bytes.first().copied();
    (claim.len, first.filter(|first| bytes.iter().all(|b| b == first)))
}

fn receive(pool: &Pool) -> Option<(u64, Option<u8>)> {
    let claim = claim(pool)?;
    let content = content(&claim);
    pool.settle(claim, true);
    Some(content)
}

fn left(pool: &Pool) -> u64 {
    // SAFETY: numbers only.
    let mut stat: abi::Stat = unsafe { core::mem::zeroed() };
    pool.fill(&mut stat);
    stat.pool_left
}

fn in_place(pool: &Pool) -> Result<(Arc<Area>, Arc<Ring>)> {
    pool.reshape(None, true, None)?;
    let inner = pool.inner.lock();
    Ok((inner.control.clone().ok_or(EINVAL)?, inner.ring.clone().ok_or(EINVAL)?))
}

fn refused<T>(result: Result<T, Refused>) -> Option<Refused> {
    result.err()
}

#[kunit_tests(dp_pool)]
mod dp_pool {
    use super::*;

    #[test]
    fn messages_come_out_in_order_and_whole() -> Result {
        let pool = pool(4096)?;
        assert!(receive(&pool).is_none() && !pool.readable() && pool.next_len().is_none());
        assert!(send(&pool, 100, 1) && send(&pool, 0, 2) && send(&pool, 7, 3));
        assert!(pool.readable() && pool.next_len() == Some(100));
        assert_eq!(receive(&pool), Some((100, Some(1))));
        assert_eq!(receive(&pool), Some((0, None)));
        assert_eq!(receive(&pool), Some((7, Some(3))));
        assert!(receive(&pool).is_none() && pool.last().dpid == FROM.dpid);
        assert_eq!(left(&pool), 4096);
        Ok(())
    }

    #[test]
    fn a_full_pool_refuses_and_each_read_makes_room_for_one() -> Result {
        let pool = pool(4096)?;
        // Tokens of 64 bytes, and one header behind the last.
        for i in 0..63 {
            assert!(send(&pool, 48, i));
        }
        assert!(refused(pool.reserve(48, None, None)) == Some(Refused::Full) && !pool.worth_trying(48));
        assert!(!pool.writable(0));
        assert_eq!(receive(&pool), Some((48, Some(0))));
        assert!(pool.worth_trying(48) && send(&pool, 48, 63));
        assert!(refused(pool.reserve(0, None, None)) == Some(Refused::Full));
        for i in 1..64 {
            assert_eq!(receive(&pool), Some((48, Some(i))));
        }
        assert!(pool.writable(0) && left(&pool) == 4096);
        Ok(())
    }

    #[test]
    fn poll_tells_of_room_where_senders_are_woken_for_it() -> Result {
        let pool = pool(4096)?;
        while send(&pool, 48, 0) {}
        let mut reads = 0;
        while !pool.inner.lock().a_quarter_is_free() {
            assert!(receive(&pool).is_some());
            reads += 1;
        }
        // Or they would sleep on.
        assert!(pool.writable(0) && (12..=16).contains(&reads));
        Ok(())
    }

    #[test]
    fn a_place_that_is_not_published_holds_those_behind_it() -> Result {
        let pool = pool(4096)?;
        let first = pool.reserve(10, None, None).map_err(|_| EIO)?;
        assert!(send(&pool, 20, 2) && !pool.readable() && receive(&pool).is_none());
        write(&first, 1);
        first.commit(FROM);
        assert!(receive(&pool) == Some((10, Some(1))) && receive(&pool) == Some((20, Some(2))));
        Ok(())
    }

    #[test]
    fn a_place_given_up_never_was_or_is_stepped_over() -> Result {
        let pool = pool(4096)?;
        pool.reserve(1000, None, None).map_err(|_| EIO)?.abandon();
        assert_eq!(left(&pool), 4096);
        let given_up = pool.reserve(1000, None, None).map_err(|_| EIO)?;
        assert!(send(&pool, 10, 1));
        given_up.abandon();
        assert!(pool.next_len() == Some(10) && left(&pool) == 4096 - 64);
        assert_eq!(receive(&pool), Some((10, Some(1))));
        assert!(receive(&pool).is_none() && left(&pool) == 4096);
        assert_eq!(pool.inner.lock().reserved, pool.published.load(Acquire));
        Ok(())
    }

    #[test]
    fn who_found_nothing_looks_again_when_something_has_come() -> Result {
        let pool = pool(4096)?;
        assert!(pool.nothing_new());
        assert!(send(&pool, 10, 1) && !pool.nothing_new());
        assert!(receive(&pool).is_some() && pool.nothing_new());
        // What is not published yet is nothing, and found when it is.
        let place = pool.reserve(10, None, None).map_err(|_| EIO)?;
        assert!(receive(&pool).is_none());
        write(&place, 1);
        place.commit(FROM);
        assert!(!pool.nothing_new());
        // What is being read is not new; what could not be read is.
        let first = claim(&pool).ok_or(EIO)?;
        assert!(receive(&pool).is_none() && pool.nothing_new());
        pool.settle(first, false);
        assert!(!pool.nothing_new() && receive(&pool).is_some() && pool.nothing_new());
        // Nor is anything taken for nothing that is read in place.
        in_place(&pool)?;
        assert!(!pool.nothing_new() && take(&pool).1.is_none() && !pool.nothing_new());
        Ok(())
    }

    #[test]
    fn a_read_that_fails_leaves_the_message_unless_the_next_is_read_already() -> Result {
        let pool = pool(4096)?;
        assert!(send(&pool, 10, 1) && send(&pool, 20, 2));
        let first = claim(&pool).ok_or(EIO)?;
        pool.settle(first, false);
        assert_eq!(receive(&pool), Some((10, Some(1))));
        assert!(send(&pool, 30, 3));
        let (second, third) = (claim(&pool).ok_or(EIO)?, claim(&pool).ok_or(EIO)?);
        assert!(content(&second) == (20, Some(2)) && content(&third) == (30, Some(3)));
        pool.settle(second, false);
        pool.settle(third, true);
        assert!(receive(&pool).is_none() && left(&pool) == 4096 && pool.inner.lock().claims == 0);
        Ok(())
    }

    #[test]
    fn positions_go_round_and_no_message_is_in_two_pieces() -> Result {
        let pool = pool(4096)?;
        for i in 0..2000u64 {
            assert!(send(&pool, i * 7 % 1500, i as u8) && send(&pool, i % 100 + 1, !i as u8));
            let first = receive(&pool).ok_or(EIO)?;
            assert!(first.0 == i * 7 % 1500 && (first.0 == 0 || first.1 == Some(i as u8)));
            assert_eq!(receive(&pool), Some((i % 100 + 1, Some(!i as u8))));
        }
        assert!(left(&pool) == 4096 && pool.inner.lock().head > 20 * 4096);
        Ok(())
    }

    #[test]
    fn a_message_that_never_fits_lies_apart_until_it_is_read() -> Result {
        let pool = pool(4096)?;
        assert!(refused(pool.reserve(4096 - 16, None, None)) == Some(Refused::OutOfLine));
        let area = Arc::new(Area::new(8192, 1)?, GFP_KERNEL)?;
        // SAFETY: it has so many bytes, and nobody else knows of it.
        unsafe { area.base().write_bytes(9, 8192) };
        let place = pool.reserve(8192, None, Some(&area)).map_err(|_| EIO)?;
        assert!(place.is_out_of_line());
        place.commit(FROM);
        assert!(send(&pool, 10, 1) && pool.next_len() == Some(8192));
        assert!(receive(&pool) == Some((8192, Some(9))) && receive(&pool) == Some((10, Some(1))));
        // Nobody else holds it.
        assert!(Arc::into_unique_or_drop(area).is_some() && left(&pool) == 4096);
        Ok(())
    }

    #[test]
    fn few_lie_apart_in_number_and_in_bytes() -> Result {
        let (many, large) = (pool(4096)?, pool(4096)?);
        let put = |pool: &Pool, len: u64| -> Result<bool> {
            let area = Arc::new(Area::new(len as usize, 1)?, GFP_KERNEL)?;
            Ok(pool.reserve(len, None, Some(&area)).map(|place| place.commit(FROM)).is_ok())
        };
        for _ in 0..16 {
            assert!(put(&many, 4096)?);
        }
        assert!(!put(&many, 4096)? && receive(&many).is_some() && put(&many, 4096)? && !put(&many, 4096)?);
        // One may be of any size, and then there is no other.
        assert!(put(&large, 2 << 20)? && !put(&large, 8192)?);
        assert!(receive(&large).is_some() && put(&large, 1 << 19)? && put(&large, 1 << 19)?);
        assert!(!put(&large, 8192)? && send(&large, 8, 1));
        Ok(())
    }

    #[test]
    fn a_frame_fills_its_place_or_gives_it_up() -> Result {
        let pool = pool(4096)?;
        let filled = pool.deposit(5, FROM, |to| {
            // SAFETY: five bytes.
            unsafe { to.write_bytes(4, 5) };
            true
        });
        assert!(matches!(filled, Ok(true)) && receive(&pool) == Some((5, Some(4))));
        assert!(matches!(pool.deposit(5, FROM, |_| false), Ok(false)) && left(&pool) == 4096);
        assert!(refused(pool.deposit(5000, FROM, |_| true)) == Some(Refused::OutOfLine));
        while send(&pool, 900, 0) {}
        assert!(refused(pool.deposit(900, FROM, |_| true)) == Some(Refused::Full));
        Ok(())
    }

    #[test]
    fn another_size_keeps_what_waits() -> Result {
        let pool = pool(4096)?;
        for i in 0..10 {
            assert!(send(&pool, 300, i));
        }
        assert!(receive(&pool) == Some((300, Some(0))));
        // Nine of 320 bytes are more than the new budget.
        let info = pool.reshape(Some(65536), false, None)?;
        assert!(info.size == 65536 && info.ring == 65536 && send(&pool, 30000, 10));
        let info = pool.reshape(Some(4096), false, Some(Ring::new(4096, 0)?))?;
        assert!(info.size == 4096 && info.ring == 65536 && !send(&pool, 1, 0));
        for i in 1..10 {
            assert_eq!(receive(&pool), Some((300, Some(i))));
        }
        assert_eq!(receive(&pool), Some((30000, Some(10))));
        assert!(send(&pool, 1, 0) && refused(pool.reserve(4096, None, None)) == Some(Refused::OutOfLine));
        Ok(())
    }

    #[test]
    fn in_place_the_program_releases_and_its_lies_are_counted() -> Result {
        let pool = pool(4096)?;
        assert!(send(&pool, 10, 1) && send(&pool, 10, 2));
        let (_control, ring) = in_place(&pool)?;
        assert!(matches!(take(&pool), (Some(Next::InPlace), None)) && pool.readable());
        assert!(pool.reshape(None, true, None).is_ok() && pool.reshape(Some(8192), true, None).is_err());
        let set = |taken: u64, released: u64| {
            let inner = pool.inner.lock();
            if let Some(control) = inner.control() {
                control.taken.store(taken, Relaxed);
                control.released.store(released, Relaxed);
            }
        };
        assert!(ring.token(0) == (TOKEN_MESSAGE, 10) && ring.token(128).0 == abi::TOKEN_EMPTY);
        assert!(pool.release(1).is_err());
        set(64, 0);
        assert!(pool.release(2).is_err() && pool.release(1).is_ok() && left(&pool) == 4096 - 64);
        set(1 << 40, 64);
        assert!(!pool.readable() && pool.next_len().is_none() && pool.release(1).is_err());
        set(128, 1 << 40);
        assert!(left(&pool) == 4096 - 64 && pool.inner.lock().corrupt > 0);
        // Half a token counts when the rest comes.
        set(128, 96);
        assert_eq!(left(&pool), 4096 - 64);
        set(128, 128);
        assert!(left(&pool) == 4096 && pool.inner.lock().received == 2);
        Ok(())
    }

    #[test]
    fn a_closed_pool_takes_and_gives_nothing() -> Result {
        let pool = pool(4096)?;
        assert!(send(&pool, 10, 1));
        let area = Arc::new(Area::new(8192, 1)?, GFP_KERNEL)?;
        pool.reserve(8192, None, Some(&area)).map_err(|_| EIO)?.commit(FROM);
        pool.close();
        assert!(pool.is_closed() && receive(&pool).is_none() && !pool.readable());
        assert!(refused(pool.reserve(10, None, None)) == Some(Refused::Gone));
        assert!(refused(pool.deposit(10, FROM, |_| true)) == Some(Refused::Gone));
        assert!(pool.reshape(Some(8192), false, None).is_err() && Arc::into_unique_or_drop(area).is_some());
        Ok(())
    }
}
