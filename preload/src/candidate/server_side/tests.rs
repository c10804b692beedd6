use super::*;

use dp_channel::layouts;

use crate::life;
use crate::testing::Pair;

/// A child that was forked while an offer was looked into has the connection, and perhaps not the memory: nothing leads there.
#[test]
fn no_offer_is_taken_for_a_connection_that_a_child_has_by_now() {
    let (pair, arena, generation) = Pair::offered();
    let c = pair.server;
    let child = life::reserve(c.family, b"child").expect("a place");
    c.family.holders(c.conn).add(child);
    c.accept_offer(&arena, 0, generation, layouts::arena().newest);
    assert_eq!(c.stage(), Stage::Candidate);
    assert!(c.slot().is_none());
    c.family.holders(c.conn).remove(child);
    c.family.member(child as usize).clear();
    c.accept_offer(&arena, 0, generation, layouts::arena().newest);
    assert_eq!(c.stage(), Stage::Accepted, "the next call takes it");
}
