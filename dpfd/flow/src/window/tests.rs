use std::{assert, assert_eq, vec::Vec};

use super::*;

cases! {
    what_was_taken_leaves_the_window_and_ends_its_messages
    what_was_never_sent_cannot_be_acknowledged
    a_part_is_lost_when_three_later_transmissions_arrived
    with_few_on_their_way_fewer_tell_of_a_loss
    going_back_passes_over_what_arrived
    copies_are_no_samples
    a_link_that_reorders_makes_the_sender_patient
    what_was_given_up_and_had_arrived_flies_again_and_says_nothing_of_order
    a_copy_that_is_answered_says_that_the_original_was_lost
    credits_are_never_exceeded_and_never_taken_back
    patience_ends_where_nothing_is_overtaken_any_more
}

fn window(first: u32, parts: u32) -> Window<16> {
    let mut window = Window::new(0);
    window.restart(first, 16);
    for i in 0..parts {
        let number = window.push(1000 + u64::from(i), u64::from(i) / 2, 0, 10, i % 2 == 1);
        assert_eq!(number, first.wrapping_add(i));
    }
    window
}

fn said(number: u32, arrived: u16) -> Acknowledged<'static> {
    Acknowledged { number, room: 16, arrived, more: &[] }
}

fn all(_: u64) -> bool {
    true
}

/// Which numbers are to be sent again, in order.
fn lost(window: &Window<16>) -> Vec<u32> {
    window.numbers().filter(|n| window.sent[place::<16>(*n)].state == State::Lost).collect()
}

fn what_was_taken_leaves_the_window_and_ends_its_messages() {
    for first in [0, u32::MAX - 2] {
        let mut window = window(first, 6);
        let news = window.acknowledge(2000, said(first.wrapping_add(5), 0), all).unwrap();
        assert_eq!((news.parts, news.messages, news.took, news.moved), (5, 2, Some(996), true));
        assert_eq!((window.flying(), window.room(), window.is_waiting()), (1, 15, true));
        let news = window.acknowledge(2000, said(first.wrapping_add(3), 0), all);
        assert_eq!(news, Some(News::default()), "overtaken by a later one");
        window.acknowledge(2000, said(first.wrapping_add(6), 0), all);
        assert!(!window.is_waiting());
    }
}

fn what_was_never_sent_cannot_be_acknowledged() {
    let mut window = window(u32::MAX - 2, 6);
    let before = std::format!("{window:?}");
    for nonsense in [said(4, 0), said(u32::MAX - 2, 1 << 6), said(1, 0b1000), said(1 << 30, 0)] {
        assert_eq!(window.acknowledge(1, nonsense, all), None);
    }
    let more = Acknowledged { more: &[1], ..said(u32::MAX - 2, 0) };
    assert_eq!(window.acknowledge(1, more, all), None);
    assert_eq!(std::format!("{window:?}"), before, "and nothing of it is believed");
}

fn a_part_is_lost_when_three_later_transmissions_arrived() {
    let mut window = window(u32::MAX - 2, 6);
    let first = u32::MAX - 2;
    window.acknowledge(1, said(first, 0b00110), all);
    assert_eq!(window.find_lost(), None);
    window.acknowledge(1, said(first, 0b01110), all);
    assert_eq!(window.find_lost(), Some((1, 0)));
    assert_eq!(lost(&window), [first]);
    // So is its copy: it is the seventh transmission, and three more arrive.
    window.repeat(5, first);
    (0..4).for_each(|_| {
        window.push(6, 9, 0, 10, false);
    });
    window.acknowledge(7, said(first, 0b1_1101_1110), all);
    assert_eq!(window.find_lost(), Some((2, 6)));
    assert_eq!(lost(&window), [first, first.wrapping_add(5)]);
}

fn with_few_on_their_way_fewer_tell_of_a_loss() {
    for (parts, arrived) in [(2, 0b10), (3, 0b110)] {
        let mut window = window(7, parts);
        window.acknowledge(1, said(7, arrived), all);
        assert_eq!(window.find_lost(), Some((1, 0)), "{parts} parts");
    }
    let mut window = window(7, 3);
    window.acknowledge(1, said(7, 0b010), all);
    assert_eq!(window.find_lost(), None, "the third may still tell");
}

fn going_back_passes_over_what_arrived() {
    let mut window = window(100, 6);
    window.acknowledge(1, said(100, 0b010110), all);
    window.give_up();
    assert_eq!(lost(&window), [100, 103, 105]);
    assert_eq!((window.flying(), window.lost()), (0, 3));
    assert_eq!(window.first_lost().unwrap().0, 100);
    window.repeat(9, 100);
    assert_eq!(window.first_lost().unwrap().0, 103);
}

fn copies_are_no_samples() {
    let mut window = window(0, 2);
    window.give_up();
    window.repeat(5000, 0);
    window.repeat(5000, 1);
    let news = window.acknowledge(5001, said(2, 0), all).unwrap();
    assert_eq!((news.parts, news.took), (2, None));
}

fn a_link_that_reorders_makes_the_sender_patient() {
    let mut window = window(0, 6);
    window.acknowledge(1, said(0, 0b1110), all);
    assert!(window.find_lost().is_some());
    window.repeat(10_000, 0);
    // The original came after all.
    window.acknowledge(10_001, said(4, 0), |took| took > 100);
    (0..6).for_each(|_| {
        window.push(11_000, 9, 0, 10, false);
    });
    window.acknowledge(12_000, said(4, 0b1_1000), |took| took > 100);
    assert_eq!(window.find_lost(), None, "overtaken by as much as six, which is not enough any more");
}

fn what_was_given_up_and_had_arrived_flies_again_and_says_nothing_of_order() {
    let mut window = window(u32::MAX - 2, 8);
    let first = u32::MAX - 2;
    window.give_up();
    window.repeat(5000, first);
    // The originals of the first three were answered, late.
    let news = window.acknowledge(5001, said(first.wrapping_add(3), 0), |took| took > 100).unwrap();
    assert!(news.late);
    assert_eq!(news.took, Some(5001 - 1002), "as of one that was sent once");
    window.take_back();
    assert_eq!((window.flying(), window.lost()), (5, 0));
    // Three that are overtaken by three are lost as ever.
    (0..4).for_each(|_| {
        window.push(6000, 9, 0, 10, false);
    });
    window.acknowledge(7000, said(first.wrapping_add(3), 0b1110_0000), |took| took > 100);
    assert_eq!(window.find_lost().map(|(n, _)| n), Some(5));
}

fn a_copy_that_is_answered_says_that_the_original_was_lost() {
    let mut window = window(0, 4);
    window.give_up();
    (0..4).for_each(|n| window.repeat(5000, n));
    let news = window.acknowledge(5500, said(4, 0), |took| took > 100).unwrap();
    assert_eq!((news.parts, news.late), (4, false));
}

fn credits_are_never_exceeded_and_never_taken_back() {
    let mut window = Window::<16>::new(0);
    assert_eq!(window.room(), 0);
    window.restart(u32::MAX, 3);
    (0..3).for_each(|_| {
        window.push(0, 0, 0, 1, false);
    });
    assert_eq!(window.room(), 0);
    window.acknowledge(1, Acknowledged { room: 2, ..said(0, 0) }, all);
    assert_eq!(window.room(), 0, "the limit stays where it was");
    window.acknowledge(1, Acknowledged { room: 4, ..said(0, 0) }, all);
    assert_eq!(window.room(), 2);
    window.acknowledge(1, Acknowledged { room: 1024, ..said(2, 0) }, all);
    assert_eq!(window.room(), 16, "never more than the window");
}

fn patience_ends_where_nothing_is_overtaken_any_more() {
    let mut window = window(0, 0);
    window.reordered = 8;
    for number in 0..2 * STEADY + 10 {
        assert_eq!(window.push(0, 0, 0, 10, true), number);
        window.acknowledge(1, said(number + 1, 0), all).unwrap();
    }
    assert_eq!(window.reordered, REORDERED);
    window.reordered = 8;
    window.restart(7, 16);
    assert_eq!(window.reordered, REORDERED, "another incarnation may go by another way");
}
