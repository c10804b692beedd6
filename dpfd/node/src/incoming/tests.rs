use super::*;

const MOST: usize = 1000;

/// What was taken; with room for so many messages.
struct Pool {
    there: bool,
    room: usize,
    taken: Vec<(Vec<u8>, Option<u64>)>,
}

impl Receiver for Pool {
    fn is_there(&mut self) -> bool {
        self.there
    }
    fn has_room(&mut self, _: usize) -> bool {
        self.taken.len() < self.room
    }
    fn take(&mut self, message: &[u8], immediate: Option<u64>, _: Place) -> bool {
        let room = self.taken.len() < self.room;
        if room {
            self.taken.push((message.to_vec(), immediate));
        }
        room
    }
}

fn pool(room: usize) -> Pool {
    Pool { there: true, room, taken: Vec::new() }
}

fn part(total: u32, begin: u32, bytes: &[u8]) -> Part<'_> {
    Part { message: 0, total, begin, immediate: Some(7), place: Place { tag: 1, taken: 1 }, bytes }
}

#[test]
fn a_message_is_handed_on_when_it_is_whole() {
    let (mut incoming, mut budget, mut to) = (Incoming::default(), Budget::new(MOST), pool(9));
    assert!(incoming.put(part(3, 0, b"one"), &mut budget, MOST, &mut to));
    assert!(incoming.put(part(6, 0, b"two "), &mut budget, MOST, &mut to));
    assert_eq!((to.taken.len(), budget.left()), (1, MOST - 6));
    assert!(incoming.put(part(6, 4, b"is"), &mut budget, MOST, &mut to));
    assert!(incoming.put(part(0, 0, b""), &mut budget, MOST, &mut to));
    let taken: Vec<_> = to.taken.iter().map(|(message, _)| &message[..]).collect();
    assert_eq!(taken, [&b"one"[..], b"two is", b""]);
    assert!(to.taken.iter().all(|(_, immediate)| *immediate == Some(7)));
    assert_eq!(budget.left(), MOST);
}

#[test]
fn the_last_part_waits_for_room_and_is_offered_again() {
    let (mut incoming, mut budget, mut to) = (Incoming::default(), Budget::new(MOST), pool(0));
    assert!(incoming.put(part(4, 0, b"ab"), &mut budget, MOST, &mut to));
    for _ in 0..3 {
        assert!(!incoming.put(part(4, 2, b"cd"), &mut budget, MOST, &mut to));
    }
    to.room = 1;
    assert!(incoming.put(part(4, 2, b"cd"), &mut budget, MOST, &mut to));
    assert_eq!(to.taken[0].0, b"abcd");
}

#[test]
fn what_has_begun_is_void_when_the_sender_begins_anew() {
    let (mut incoming, mut budget, mut to) = (Incoming::default(), Budget::new(MOST), pool(9));
    assert!(incoming.put(part(900, 0, b"former"), &mut budget, MOST, &mut to));
    assert!(incoming.put(part(4, 0, b"ab"), &mut budget, MOST, &mut to));
    assert_eq!(budget.left(), MOST - 4);
    assert!(incoming.put(part(4, 2, b"cd"), &mut budget, MOST, &mut to));
    assert_eq!(to.taken[0].0, b"abcd");
    assert_eq!(budget.left(), MOST);
}

#[test]
fn who_waits_for_an_absent_receiver_uses_up_nothing() {
    let (mut incoming, mut budget, mut to) = (Incoming::default(), Budget::new(MOST), pool(9));
    to.there = false;
    assert!(!incoming.put(part(900, 0, b"x"), &mut budget, MOST, &mut to));
    assert_eq!(budget.left(), MOST);
}

#[test]
fn a_node_makes_others_keep_no_more_than_its_budget_but_one_message_always_fits() {
    let mut budget = Budget::new(MOST);
    let mut flows: Vec<Incoming> = (0..3).map(|_| Incoming::default()).collect();
    let mut to = pool(9);
    assert!(flows[0].put(part(5000, 0, b"x"), &mut budget, MOST, &mut to), "the first always");
    assert!(!flows[1].put(part(2, 0, b"x"), &mut budget, MOST, &mut to));
    flows[0].clear(&mut budget, MOST);
    assert_eq!(budget.left(), MOST);
    assert!(flows[1].put(part(600, 0, b"x"), &mut budget, MOST, &mut to));
    assert!(!flows[2].put(part(600, 0, b"x"), &mut budget, MOST, &mut to));
    flows[1].clear(&mut budget, MOST);
    assert!(flows[2].put(part(600, 0, b"x"), &mut budget, MOST, &mut to));
}

#[test]
fn receivers_without_room_leave_half_of_the_budget_to_those_with() {
    let mut budget = Budget::new(MOST);
    let (mut full, mut reads) = (pool(0), pool(9));
    let mut stuck: Vec<Incoming> = (0..10).map(|_| Incoming::default()).collect();
    let begun = stuck
        .iter_mut()
        .filter_map(|flow| flow.put(part(200, 0, b"x"), &mut budget, MOST, &mut full).then_some(()));
    assert_eq!(begun.count(), 2);
    let mut flow = Incoming::default();
    for _ in 0..3 {
        assert!(flow.put(part(600, 0, &[1; 300]), &mut budget, MOST, &mut reads));
        assert!(flow.put(part(600, 300, &[2; 300]), &mut budget, MOST, &mut reads));
    }
    assert_eq!((reads.taken.len(), budget.was_wanted()), (3, false));
    // Longer than all of it, and the first: only for one that is taken.
    stuck.iter_mut().for_each(|flow| flow.clear(&mut budget, MOST));
    assert!(!flow.put(part(5000, 0, b"x"), &mut budget, MOST, &mut full));
    assert!(flow.put(part(5000, 0, b"x"), &mut budget, MOST, &mut reads));
    assert!(!stuck[0].put(part(2, 0, b"x"), &mut budget, MOST, &mut reads));
    assert_eq!((budget.was_wanted(), budget.was_wanted()), (true, false));
}

#[test]
fn what_there_is_of_a_former_incarnation_is_given_back() {
    let (mut incoming, mut budget, mut to) = (Incoming::default(), Budget::new(MOST), pool(9));
    assert!(incoming.put(part(900, 0, b"former"), &mut budget, MOST, &mut to));
    incoming.clear_former(1, &mut budget, MOST);
    assert!(incoming.holds());
    incoming.clear_former(2, &mut budget, MOST);
    assert_eq!((incoming.holds(), budget.left()), (false, MOST));
}
