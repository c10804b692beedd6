use super::*;

#[test]
fn the_next_process_reads_what_this_one_wrote() {
    let path = std::env::temp_dir().join(format!("dp-places-{}", std::process::id()));
    let ends = |n: u16| Ends { here: n, there: n + 1 };
    let place = |taken| Place { tag: u32::MAX, taken };
    let get = |nid, n| Places::open(&path, 1).unwrap().begin(nid, ends(n)).1;
    let mut places = Places::open(&path, 1).unwrap();
    for n in 1..100 {
        let (mut slot, before) = places.begin(2, ends(n));
        assert_eq!(before, None);
        places.claim(&mut slot);
        assert_eq!(places.begin(2, ends(n)).1, None);
        places.set(slot, place(n.into()));
    }
    let (slot, before) = places.begin(2, ends(7));
    assert_eq!(before, Some(place(7)));
    places.set(slot, place(700));
    let (mut slot, _) = places.begin(3, ends(7));
    places.claim(&mut slot);
    places.set(slot, place(701));
    // Read while it is mapped: it is in the file with the store.
    assert_eq!(get(2, 6), Some(place(6)));
    assert_eq!(get(2, 7), Some(place(700)));
    assert_eq!(get(3, 7), Some(place(701)));
    assert_eq!(get(4, 7), None);
    drop(places);
    Places::open(&path, 9).unwrap();
    assert_eq!(get(2, 7), None, "another node's file is begun anew");
    std::fs::write(&path, b"something else").unwrap();
    assert_eq!(get(2, 7), None);
    std::fs::remove_file(path).unwrap();
}

/// Node 2 names endpoint after endpoint; node 3 has a few.
#[test]
fn the_node_that_has_most_gives_up_what_it_used_least_lately() {
    let path = std::env::temp_dir().join(format!("dp-places-full-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut places = Places::with_room(&path, 1, 8).unwrap();
    let ends = |n: u16| Ends { here: 1, there: n };
    let take = |places: &mut Places, nid, n: u16| {
        let (mut slot, before) = places.begin(nid, ends(n));
        if slot.is_none() {
            places.claim(&mut slot);
        }
        places.set(slot, Place { tag: 7, taken: n.into() });
        (slot, before)
    };
    let has = |places: &Places, nid, n: u16| places.slots.contains_key(&key(nid, ends(n)));
    for n in 1..=2 {
        let (slot, _) = take(&mut places, 3, n);
        places.end(slot);
    }
    for n in 1..=6 {
        let (slot, _) = take(&mut places, 2, n);
        places.end(slot);
    }
    // Once more: so it is not the one that was used least lately.
    let (first, before) = take(&mut places, 2, 1);
    assert_eq!(before, Some(Place { tag: 7, taken: 1 }));
    places.end(first);
    for n in 7..=8 {
        let (slot, before) = take(&mut places, 2, n);
        assert!(before.is_none() && !slot.is_none());
    }
    assert!(!has(&places, 2, 2) && !has(&places, 2, 3), "their room was needed");
    assert!([1, 4, 5, 6, 7, 8].into_iter().all(|n| has(&places, 2, n)));
    assert!([1, 2].into_iter().all(|n| has(&places, 3, n)), "the other node has few");
    assert_eq!(places.counts(), Counts { forgotten: 2, unkept: 0 });
    // All are in use.
    for (nid, n) in [(2, 1), (2, 4), (2, 5), (2, 6), (3, 1), (3, 2)] {
        let (slot, before) = take(&mut places, nid, n);
        assert!(!slot.is_none() && before.is_some());
    }
    let (slot, _) = take(&mut places, 4, 1);
    assert!(slot.is_none());
    assert_eq!(places.counts(), Counts { forgotten: 2, unkept: 0 });
    drop(places);
    // For the next process nobody uses any.
    let mut places = Places::with_room(&path, 1, 8).unwrap();
    assert_eq!(places.kept(), 8);
    let (slot, before) = take(&mut places, 4, 1);
    assert!(!slot.is_none() && before.is_none());
    assert_eq!(places.begin(3, ends(2)).1, Some(Place { tag: 7, taken: 2 }));
    drop(places);
    assert_eq!(Places::with_room(&path, 1, 8).unwrap().kept(), 8);
    std::fs::remove_file(path).unwrap();
}

/// The file is full of those that came and went. Two flows began early, and their parts are on their way while the gateway is killed;
/// others begin before those come again.
#[test]
fn a_full_file_that_is_read_anew_keeps_what_was_in_use() {
    let path = std::env::temp_dir().join(format!("dp-places-kept-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let ends = |n: u16| Ends { here: 1, there: n };
    let take = |places: &mut Places, n: u16| {
        let (mut slot, before) = places.begin(2, ends(n));
        places.claim(&mut slot);
        assert!(!slot.is_none());
        places.set(slot, Place { tag: 7, taken: n.into() });
        (slot, before)
    };
    let mut places = Places::with_room(&path, 1, 8).unwrap();
    let [_, two] = [1, 2].map(|n| take(&mut places, n).0);
    let others: Vec<_> = (3..=8).map(|n| take(&mut places, n).0).collect();
    others.into_iter().rev().for_each(|slot| places.end(slot));
    // One of the two was forgotten for a while.
    places.end(two);
    take(&mut places, 2);
    for left in [&[3, 4, 5, 6][..], &[3, 4], &[]] {
        drop(places);
        places = Places::with_room(&path, 1, 8).unwrap();
        for n in [100, 101] {
            let (slot, before) = take(&mut places, n + 2 * left.len() as u16);
            assert_eq!(before, None);
            places.end(slot);
        }
        assert_eq!(places.counts().forgotten, 2);
        let is_left = |n: &u16| places.slots.contains_key(&key(2, ends(*n)));
        assert_eq!((3..=8).filter(is_left).collect::<Vec<_>>(), left, "the first to end make room");
        for n in [1, 2] {
            assert_eq!(take(&mut places, n).1, Some(Place { tag: 7, taken: n.into() }));
        }
    }
    drop(places);
    // What a former gateway leaves has no more than the places.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(8 * 2 * 9).unwrap();
    let mut places = Places::with_room(&path, 1, 8).unwrap();
    assert_eq!((places.kept(), take(&mut places, 1).1), (8, Some(Place { tag: 7, taken: 1 })));
    std::fs::remove_file(path).unwrap();
}

/// Node 2 has most, and all of it in use, when the gateway is killed; node 3 has some that ended, and one that is in use, too.
#[test]
fn what_was_in_use_is_kept_while_any_node_has_others() {
    let path = std::env::temp_dir().join(format!("dp-places-two-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let take = |places: &mut Places, nid, n: u16| {
        let (mut slot, before) = places.begin(nid, Ends { here: 1, there: n });
        places.claim(&mut slot);
        assert!(!slot.is_none());
        places.set(slot, Place { tag: 7, taken: n.into() });
        (slot, before)
    };
    let mut places = Places::with_room(&path, 1, 9).unwrap();
    for n in 1..=5 {
        take(&mut places, 2, n);
    }
    let others: Vec<_> = (1..=4).map(|n| take(&mut places, 3, n).0).collect();
    others[1..].iter().for_each(|slot| places.end(*slot));
    drop(places);
    let mut places = Places::with_room(&path, 1, 9).unwrap();
    let has = |places: &Places, nid, all: std::ops::RangeInclusive<u16>| {
        all.filter(|n| places.slots.contains_key(&key(nid, Ends { here: 1, there: *n }))).collect::<Vec<_>>()
    };
    // Those that end in this process make room behind them, and before what was in use.
    for n in 100..110 {
        let (slot, _) = take(&mut places, 2 + n % 2, n);
        places.end(slot);
        assert_eq!((has(&places, 2, 1..=5), has(&places, 3, 1..=1)), (vec![1, 2, 3, 4, 5], vec![1]));
    }
    // All others are in use now: the node that has most gives up what it used least lately.
    for n in 200..204 {
        take(&mut places, 4, n);
    }
    assert_eq!((has(&places, 2, 1..=5), has(&places, 3, 1..=1)), (vec![2, 3, 4, 5], vec![1]));
    assert_eq!(take(&mut places, 2, 2).1, Some(Place { tag: 7, taken: 2 }));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn one_that_comes_and_goes_for_ever_keeps_little() {
    let mut rest = Rest::new(4);
    rest.add(2);
    rest.add(2);
    rest.lie(2, 1);
    for _ in 0..10_000 {
        rest.lie(2, 3);
        rest.rise(3);
    }
    assert_eq!(rest.make_room(), Some(1));
    assert_eq!(rest.make_room(), None, "the other one is in use");
    assert!(rest.nodes[&2].lying.len() < 200);
}

/// What somebody of the folder's group put there, or has a link to, could be made shorter, and its words believed.
#[test]
fn a_file_that_is_not_this_users_alone_is_not_used() {
    use std::os::unix::fs::{symlink, PermissionsExt};
    let path = std::env::temp_dir().join(format!("dp-node-foreign-{}", std::process::id()));
    let other = path.with_extension("other");
    let ends = Ends { here: 1, there: 2 };
    let known = |nid| Places::with_room(&path, nid, 9).unwrap().begin(2, ends).1;
    let write = || {
        let mut places = Places::with_room(&path, 1, 9).unwrap();
        let (mut slot, _) = places.begin(2, ends);
        places.claim(&mut slot);
        places.set(slot, Place { tag: 7, taken: 100 });
    };
    let spoil: [&dyn Fn(); 4] = [
        &|| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o620)).unwrap(),
        &|| std::fs::hard_link(&path, &other).unwrap(),
        &|| {
            std::fs::rename(&path, &other).unwrap();
            symlink(&other, &path).unwrap();
        },
        // Root alone can do that.
        &|| match std::os::unix::fs::chown(&path, Some(4711), None) {
            Ok(()) => {}
            Err(_) => std::fs::remove_file(&path).unwrap(),
        },
    ];
    for spoil in spoil {
        let _ = (std::fs::remove_file(&path), std::fs::remove_file(&other));
        write();
        assert!(known(1).is_some());
        spoil();
        assert_eq!(known(1), None);
    }
    let _ = (std::fs::remove_file(&path), std::fs::remove_file(&other));
}

#[test]
fn all_of_the_file_has_its_room_before_it_is_used() {
    let path = std::env::temp_dir().join(format!("dp-node-room-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let _places = Places::open(&path, 1).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
    std::fs::remove_file(&path).unwrap();
}
