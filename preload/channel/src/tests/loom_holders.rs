//! Who has a connection: a thread forks, and marks it for the child, while another one closes it and the entry becomes another's.

use dp_edge::sync::{AtomicU32, Ordering};
use dp_edge::testing::explore;
use loom::sync::Arc;
use loom::thread;

use crate::family::holders::{Added, Holders};

const US: u32 = 1;
const CHILD: u32 = 2;
const ANOTHER: u32 = 3;

/// An entry, and whether it is free.
#[derive(Default)]
struct Entry {
    holders: Holders,
    free: AtomicU32,
}

fn forks(add: impl Fn(&Holders) -> Added + Send + Sync + 'static) {
    let add = Arc::new(add);
    explore(Some(3), move || {
        let e = Arc::new(Entry::default());
        e.holders.begin(US);
        let (forking, add) = (e.clone(), add.clone());
        let forking = thread::spawn(move || {
            let added = add(&forking.holders);
            if added == Added::Last {
                assert_eq!(forking.free.swap(1, Ordering::AcqRel), 0, "freed twice");
            }
            added
        });
        if e.holders.remove(US) {
            assert_eq!(e.free.swap(1, Ordering::AcqRel), 0, "freed twice");
        }
        let claimed = e.free.swap(0, Ordering::AcqRel) == 1;
        if claimed {
            e.holders.begin(ANOTHER);
        }
        let added = forking.join().unwrap();
        if claimed {
            assert_eq!(
                (added, e.holders.has(CHILD)),
                (Added::Not, false),
                "it is marked for a child that does not have it"
            );
            assert!(e.holders.remove(ANOTHER), "the last");
        } else if added == Added::Yes {
            assert!(e.holders.has(CHILD) && e.holders.remove(CHILD), "the last");
        } else {
            assert_eq!(e.free.load(Ordering::Acquire), 1, "nobody has it, and it is not free");
        }
    });
}

#[test]
fn loom_a_child_is_marked_only_for_what_its_parent_has() {
    forks(|holders| holders.add_beside(CHILD, US));
}

#[test]
#[should_panic(expected = "it is marked for a child that does not have it")]
fn loom_broken_a_child_is_marked_for_what_its_parent_had() {
    forks(|holders| {
        if !holders.has(US) {
            return Added::Not;
        }
        holders.add(CHILD);
        Added::Yes
    });
}
