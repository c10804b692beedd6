use super::*;
use crate::testing;

/// A number that no other test has.
const FD: i32 = 100_000;

#[test]
fn a_number_that_stands_for_another_connection_with_the_same_index_has_another_entry() {
    testing::start();
    let mut seen = Vec::new();
    for _ in 0..5 {
        begin(FD, 4000);
        assert_eq!((get(FD), conn(FD)), (Entry::Conn(4000), Some(4000)));
        assert!(!seen.contains(&word(FD)), "the life of one before");
        seen.push(word(FD));
    }
    assert_eq!(clear(FD), seen[4]);
    assert_eq!((get(FD), conn(FD), word(FD)), (Entry::None, None, 0));
}

#[test]
fn a_number_that_is_changed_is_nobodys_until_it_is() {
    testing::start();
    let fd = FD + 1;
    assert_eq!(change(fd), None, "not ours");
    begin(fd, 4001);
    let before = change(fd).unwrap();
    assert_eq!((get_at_once(fd), conn_of(word(fd))), (Entry::None, None));
    changed(fd, before);
    assert_eq!(get(fd), Entry::None);
    // Another one takes the number while the first is on its way to say so.
    begin(fd, 4002);
    let before = change(fd).unwrap();
    begin(fd, 4003);
    changed(fd, before);
    assert_eq!(get(fd), Entry::Conn(4003));
    clear(fd);
}

#[test]
fn what_is_never_to_be_ours_stays_so_unless_it_was_before() {
    testing::start();
    let fd = FD + 2;
    assert!(mark_elsewhere(fd));
    assert_eq!(begin(fd, 4004), Entry::Elsewhere, "whoever connects it sees the mark");
    assert!(!mark_elsewhere(fd), "it is a connection by now");
    clear(fd);
    assert!(mark_elsewhere(LIMIT as i32), "beyond the table nothing is ours");
    assert_eq!(
        (get(LIMIT as i32), set(-1, Entry::Internal), get(-1)),
        (Entry::None, Entry::None, Entry::None)
    );
}

#[test]
fn a_number_of_ours_that_stands_in_for_a_closed_one_is_known_from_inside_only() {
    testing::start();
    let (closed, kept) = (FD + 3, FD + 4);
    begin(closed, 4005);
    mark_kept(kept, clear(closed));
    assert_eq!((get(kept), conn(kept), conn_inside(kept)), (Entry::Internal, None, Some(4005)));
    set(kept, Entry::Internal);
    assert_eq!(conn_inside(kept), None);
    set(kept, Entry::None);
}

#[test]
fn an_entry_has_room_for_every_index_that_there_is() {
    testing::start();
    let last = dp_channel::family::CONNS as u32 - 1;
    for entry in
        [Entry::Conn(last), Entry::Epoll(crate::epoll::MOST - 1), Entry::Listener(last), Entry::Elsewhere]
    {
        set(FD + 9, entry);
        assert_eq!(get(FD + 9), entry);
    }
    clear(FD + 9);
}
