use super::*;
use crate::spin::{IN_VAIN, LONG_IN_VAIN};
use crate::testing::Pair;
use dp_channel::bell::BY_BELL;
use dp_channel::slot::Side;
use dp_channel::tcp;

/// The owner that a process of ours was, which has ended.
fn one_that_ended() -> u64 {
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    let pid = child.id();
    child.wait().expect("its end");
    u64::from(space()) << 32 | u64::from(pid)
}

#[test]
fn connections_that_a_dead_owner_had_hot_do_not_tell_whoever_has_its_group_next() {
    let pair = Pair::live();
    let c = pair.server;
    let i = take(c.family, &c).expect("a group");
    let word = c.receiving().word;
    assert!(word.heat_group(i as u8 + 1));
    let group = &c.my_groups()[i];
    group.doze(BY_BELL);
    group.taken.store(one_that_ended(), Ordering::Relaxed);
    assert_eq!(take(c.family, &c), Some(i), "the first that is free");
    assert_eq!((word.is_hot(), word.group()), (false, 0));
    assert!(group.is_awake());
}

/// Two workers of one server have mapped the memory of the same client at the same place, and each its connections' part of it where
/// the other has none. One of them is killed.
#[test]
fn a_connection_of_a_relatives_is_not_looked_for_where_only_that_one_has_it_mapped() {
    let pair = Pair::live();
    let c = pair.server;
    let i = take(c.family, &c).expect("a group");
    let word = c.receiving().word;
    assert!(word.heat_group(i as u8 + 1));
    let group = &c.my_groups()[i];
    let entry = c.family.claim().expect("an entry");
    let theirs = c.family.conn(entry);
    let holders = c.family.holders(theirs);
    for n in holders.each() {
        holders.remove(n);
    }
    theirs.reset(Side::Server as u32, c.local(), c.peer());
    theirs.groups.store(c.groups.load(Ordering::Relaxed), Ordering::Relaxed);
    theirs.mapping.store(c.mapping.load(Ordering::Relaxed), Ordering::Relaxed);
    let at = 1 << 12;
    theirs.edges.iter().for_each(|to| to.store(at, Ordering::Relaxed));
    theirs.offer.store(at, Ordering::Relaxed);
    theirs.set_stage(Stage::Live);
    group.taken.store(one_that_ended(), Ordering::Relaxed);
    assert_eq!(take(c.family, &c), Some(i), "the first that is free");
    assert_eq!((word.is_hot(), word.group()), (false, 0));
    // At the place of a connection of ours, in other memory.
    assert!(word.heat_group(i as u8 + 1));
    c.set_stage(Stage::Candidate);
    let at = c.offer.load(Ordering::Relaxed);
    theirs.offer.store(at, Ordering::Relaxed);
    theirs.set_addresses(tcp::Addr { port: 1, ..c.local() }, c.peer());
    group.taken.store(one_that_ended(), Ordering::Relaxed);
    assert_eq!(take(c.family, &c), Some(i));
    assert!(word.is_hot(), "that of another connection");
    theirs.set_stage(Stage::Unused);
    c.family.free(entry);
    group.taken.store(0, Ordering::Relaxed);
}

#[test]
fn a_bell_is_left_to_a_set_that_sleeps_and_not_for_ever_to_one_that_never_wakes() {
    let pair = Pair::live();
    let c = pair.server;
    let i = take(c.family, &c).expect("a group");
    let word = c.receiving().word;
    let group = &c.my_groups()[i];
    group.doze(BY_BELL);
    assert!(word.heat_group(i as u8 + 1));
    c.woke_in_vain(LONG_IN_VAIN - 1);
    assert!(word.is_hot(), "its owner lives, and may be about to wake");
    c.woke_in_vain(LONG_IN_VAIN);
    assert!(!word.is_hot(), "its thread was cancelled");

    assert!(word.heat_group(i as u8 + 1));
    group.taken.store(one_that_ended(), Ordering::Relaxed);
    c.woke_in_vain(IN_VAIN - 1);
    assert!(word.is_hot(), "nobody is asked so early");
    c.woke_in_vain(IN_VAIN);
    assert!(!word.is_hot(), "its owner has ended");
    group.taken.store(0, Ordering::Relaxed);
}
