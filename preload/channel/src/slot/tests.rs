use super::*;

const SERIAL: u64 = 0x1234_5677 << 32;
const NAME: u64 = SERIAL | 0x2a_bcde << LINK_MAKER | 5;

fn maker(name: u64) -> u32 {
    name as u32 >> LINK_MAKER
}

/// Where to find it, for whoever is to be woken.
fn place(name: u64) -> (u64, u64) {
    (name >> 32, name & ((1 << LINK_MAKER) - 1))
}

#[test]
fn a_link_is_the_makers_in_the_generation_that_it_was_named_in_alone() {
    let slot = Slot::default();
    let mut before = None;
    for _ in 0..10_000 {
        let generation = slot.offer(&Tuple::default(), 1, 1, 1);
        assert_eq!(slot.link(), 0, "nobody has named one");
        if let Some(before) = before.replace(generation) {
            // As a server's thread that was stopped since it looked which generation it is.
            slot.is_linked_by(before, NAME);
            assert_ne!(maker(slot.link()), maker(NAME));
            slot.is_linked_by(before, 0);
            assert_eq!(slot.link(), 0);
        }
        slot.is_linked_by(generation, NAME);
        assert_eq!(slot.link(), NAME);
    }
}

/// Other versions on either side know no generation in it.
#[test]
fn a_link_is_found_by_other_versions() {
    let slot = Slot::default();
    let generation = slot.offer(&Tuple::default(), 1, 1, 1);
    let old_clients = SERIAL | 5;
    slot.is_linked_by(generation, old_clients);
    assert_eq!(slot.link.load(Ordering::Relaxed), old_clients);
    // By an old server.
    slot.link.store(NAME, Ordering::Relaxed);
    assert_eq!(place(slot.link()), place(NAME));
    assert_ne!(maker(slot.link()), maker(NAME), "it may be a late writer's");
}
