// SPDX-License-Identifier: GPL-2.0

//! A table of its own, with no network behind it.

use super::*;

const ROOT: u32 = 0;
const OTHER: u32 = 1000;

extern "C" {
    fn dp_ether_new() -> *mut c_void;
}

fn table() -> Result<Arc<Table>> {
    // SAFETY: the table's from here on.
    let ether = unsafe { Ether::new(dp_ether_new()) };
    Table::new(ether.ok_or(ENOMEM)?)
}

/// The tests run as root.
fn open(table: &Table, dpid: u32) -> Result<Arc<Pool>> {
    table.open(dpid, Endpoint::new()?.as_arc_borrow(), 1, None)
}

fn close(table: &Table, pool: &Arc<Pool>) {
    table.remove(pool);
    pool.close();
}

fn is(found: Option<Arc<Pool>>, pool: &Arc<Pool>) -> bool {
    found.is_some_and(|found| Arc::ptr_eq(&found, pool))
}

fn place(pool: &Pool) -> bool {
    pool.reserve(8, None, None).map(|place| place.commit(crate::abi::Addr { nid: 0, dpid: 1 })).is_ok()
}

#[kunit_tests(dp_table)]
mod dp_table {
    use super::*;

    #[test]
    fn a_number_is_found_while_it_is_open_and_given_once() -> Result {
        let table = table()?;
        assert!(table.find(5000).is_none());
        let pool = open(&table, 5000)?;
        assert!(pool.dpid == 5000 && pool.is_opened() && is(table.find(5000), &pool));
        assert!(open(&table, 5000).err() == Some(glue::error(bindings::EADDRINUSE)));
        let before = table.openings();
        close(&table, &pool);
        assert!(table.find(5000).is_none());
        let again = open(&table, 5000)?;
        assert!(table.openings() > before);
        // The former holder of the number does not take it from the present one.
        table.remove(&pool);
        assert!(is(table.find(5000), &again));
        close(&table, &again);
        Ok(())
    }

    #[test]
    fn free_numbers_go_round_and_come_back_late() -> Result {
        let table = table()?;
        let (first, second) = (open(&table, 0)?, open(&table, 0)?);
        assert!(first.dpid == SEARCH_FROM && second.dpid == SEARCH_FROM + 1);
        close(&table, &first);
        let taken = open(&table, SEARCH_FROM + 2)?;
        let third = open(&table, 0)?;
        assert_eq!(third.dpid, SEARCH_FROM + 3);
        table.map.lock().next = DPID_MAX;
        let (last, low) = (open(&table, 0)?, open(&table, 0)?);
        assert!(last.dpid == DPID_MAX && low.dpid == DPID_FREE);
        for pool in [second, taken, third, last, low] {
            close(&table, &pool);
        }
        assert!(table.map.lock().numbers.iter().next().is_none());
        Ok(())
    }

    #[test]
    fn who_opens_a_number_finds_what_was_left_for_it() -> Result {
        let table = table()?;
        let mut tx = Tx::new();
        let backlog = table.find_or_park(6000, ROOT, &mut tx)?.ok_or(EIO)?;
        assert!(!backlog.is_opened() && place(&backlog));
        assert!(is(table.find_or_park(6000, ROOT, &mut tx)?, &backlog) && tx.backlog.len() == 1);
        // Another user's is not mixed with it, and what nobody has opened is in no list.
        assert!(table.find_or_park(6000, OTHER, &mut Tx::new())?.is_none());
        assert!(table.endpoint_from(0).is_none());
        let pool = open(&table, 6000)?;
        assert!(Arc::ptr_eq(&pool, &backlog) && pool.is_opened() && pool.next_len() == Some(8));
        assert!(table.map.lock().backlog.next_is_old_in().is_none());
        close(&table, &pool);
        Ok(())
    }

    #[test]
    fn what_another_user_left_goes_when_the_number_is_opened() -> Result {
        let table = table()?;
        let mut tx = Tx::new();
        let left = table.find_or_park(6000, OTHER, &mut tx)?.ok_or(EIO)?;
        assert!(place(&left));
        tx.count_backlog(6000);
        assert!(tx.undelivered() == (1, 0));
        let pool = open(&table, 6000)?;
        assert!(!Arc::ptr_eq(&pool, &left) && left.is_closed() && pool.next_len().is_none());
        assert!(tx.undelivered() == (0, 1));
        close(&table, &pool);
        Ok(())
    }

    #[test]
    fn a_sender_leaves_messages_at_so_many_numbers() -> Result {
        let table = table()?;
        let (mut tx, mut other) = (Tx::new(), Tx::new());
        for dpid in 7000..7016 {
            assert!(table.find_or_park(dpid, ROOT, &mut tx)?.is_some());
        }
        assert!(table.find_or_park(7016, ROOT, &mut tx)?.is_none());
        assert!(table.find_or_park(7016, ROOT, &mut other)?.is_some());
        // One that is opened makes place for another.
        let pool = open(&table, 7003)?;
        assert!(table.find_or_park(7017, ROOT, &mut tx)?.is_some());
        close(&table, &pool);
        for backlog in core::mem::take(&mut tx.backlog) {
            table.sender_left(&backlog.pool);
        }
        let old = table.map.lock().backlog.next_is_old_in();
        assert!(old.is_some_and(|time| !time.is_zero()));
        Ok(())
    }

    #[test]
    fn the_list_goes_on_from_a_number() -> Result {
        let table = table()?;
        let (low, high) = (open(&table, 3)?, open(&table, DPID_MAX)?);
        let mut tx = Tx::new();
        table.find_or_park(100, ROOT, &mut tx)?;
        let from = |number: u32| table.endpoint_from(number).map(|(dpid, _)| dpid);
        assert!(from(0) == Some(3) && from(3) == Some(3) && from(4) == Some(DPID_MAX));
        assert!(from(DPID_MAX + 1).is_none());
        close(&table, &low);
        close(&table, &high);
        assert!(from(0).is_none());
        Ok(())
    }
}
