//! Pages are nobody else's while they are in use, and zero when they are taken.

use super::{sparse, Room, PAGE, PAGES};

const ME: u32 = 7;

fn room() -> (Room, usize) {
    let room = Room::new();
    let first = sparse::reserve(PAGES * PAGE).expect("memory");
    // SAFETY: mapped just now, and never unmapped.
    unsafe { room.begin(first, ME) };
    (room, first as usize)
}

#[test]
fn pages_in_a_row_go_where_there_is_room_for_them() {
    let (room, first) = room();
    let at = |pages| room.take(pages, ME).map(|p| (p as usize - first) / PAGE);
    assert_eq!([at(1), at(9), at(1), at(PAGES - 11)], [Some(0), Some(1), Some(10), Some(11)]);
    assert_eq!([at(1), at(PAGES), at(PAGES + 1), at(0)], [None; 4]);
    // SAFETY: the nine pages from above.
    assert!(unsafe { room.give_back((first + PAGE) as *mut u8, 9, ME) });
    assert_eq!([at(10), at(4), at(6), at(5)], [None, Some(1), None, Some(5)]);
}

#[test]
fn what_was_given_back_is_zero_again() {
    let (room, _) = room();
    let p = room.take(2, ME).expect("room");
    // SAFETY: two pages, and nobody else's.
    unsafe {
        p.add(PAGE).write(1);
        assert!(room.give_back(p, 2, ME));
        assert_eq!((room.take(2, ME), p.add(PAGE).read()), (Some(p), 0));
    }
}

#[test]
fn a_forked_child_takes_nothing_there_and_makes_nothing_free() {
    let (room, _) = room();
    let p = room.take(PAGES, ME).expect("room");
    // SAFETY: the pages just taken.
    assert!(unsafe { room.give_back(p, PAGES, ME + 1) });
    assert_eq!([room.take(1, ME), room.take(1, ME + 1)], [None; 2]);
}

#[test]
fn memory_that_is_elsewhere_is_not_taken_back() {
    let (room, first) = room();
    for at in [first - PAGE, first + PAGES * PAGE] {
        // SAFETY: nothing is done to it.
        assert!(unsafe { !room.give_back(at as *mut u8, 1, ME) });
    }
    // SAFETY: as above.
    assert!(unsafe { !Room::new().give_back(first as *mut u8, 1, ME) });
    assert_eq!(Room::new().take(1, ME), None);
}
