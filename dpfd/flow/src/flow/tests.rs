use std::{assert, assert_eq, boxed::Box, vec, vec::Vec};

use super::*;
use crate::{crc32c, Address};

const A: Address = Address { nid: 1, dpid: 1024 };
const B: Address = Address { nid: 2, dpid: 2048 };
const PART: usize = 10;

type Small = Flow<Vec<u8>, 8>;

fn config(from: Address, to: Address) -> Config {
    Config { part_max: PART as u16, ..Config::new(from, to, from.nid.into(), Some(crc32c)) }
}

/// Not on the stack, where a kernel has little room.
#[inline(never)]
fn flow(config: Config) -> Box<Small> {
    Box::new(Flow::new(config, vec![0; 8 * PART]).unwrap())
}

fn send(flow: &mut Small, total: u32) -> Result<u64, NotSent> {
    flow.send(0, Outgoing { total, immediate: None })
}

/// What it sends now, where `there` bytes of each message are there.
fn frames(flow: &mut Small, now: u64, there: usize) -> Vec<Vec<u8>> {
    let mut out = vec![0; flow.frame_max()];
    let mut source = |message: u64, begin: u32, out: &mut [u8]| {
        let here = there.saturating_sub(begin as usize).min(out.len());
        out[..here].fill(message as u8);
        here
    };
    core::iter::from_fn(|| flow.poll_transmit(now, &mut source, &mut out).map(|len| Vec::from(&out[..len])))
        .collect()
}

/// Both say all they have to; parts that came to `to`.
fn exchange(from: &mut Small, to: &mut Small, now: u64, room: usize) -> usize {
    let mut parts = 0;
    loop {
        let (there, back) = (frames(from, now, usize::MAX), frames(to, now, usize::MAX));
        if there.is_empty() && back.is_empty() {
            return parts;
        }
        let mut sink = |_: Part<'_>| {
            parts += 1;
            parts <= room
        };
        there.iter().for_each(|frame| to.on_frame(now, frame, &mut sink).unwrap());
        back.iter().for_each(|frame| from.on_frame(now, frame, &mut |_: Part<'_>| unreachable!()).unwrap());
        parts = parts.min(room);
    }
}

use crate::reassemble::Part;

cases! {
    a_flow_is_refused_what_it_cannot_work_with
    parts_leave_before_the_rest_of_their_message_is_there
    an_acknowledgement_that_waits_for_an_answer_is_no_queue
    a_receiver_that_does_not_read_stops_the_sender_and_loses_nothing
    word_of_new_room_may_be_lost
    answers_that_are_only_late_leave_the_window_as_it_was
    pacing_holds_parts_back_until_their_time
    a_short_buffer_is_counted_and_nothing_is_written
    a_loss_has_to_be_looked_at_before_the_next_message
    a_frame_with_the_right_tag_and_nonsense_in_it_is_dropped
    each_part_tells_the_place_behind_it
    a_shortening_before_the_first_is_agreed_still_says_what_had_come
    a_loss_behind_a_restart_of_the_peer_counts_as_one_before_it
    a_message_that_was_taken_in_part_is_given_up_and_comes_again_from_its_first_part_on
    more_memory_while_the_peer_is_to_agree_leaves_nothing_due_that_cannot_be_said
    a_peer_that_never_agrees_to_begin_anew_is_dead_like_any_other
}

fn met() -> (Box<Small>, Box<Small>) {
    let (mut here, mut there) = (flow(config(A, B)), flow(config(B, A)));
    send(&mut here, 0).unwrap();
    assert_eq!(exchange(&mut here, &mut there, 0, 9), 1);
    assert_eq!(exchange(&mut here, &mut there, 1_000_000, 9), 0);
    assert_eq!(here.poll_event(), Some(Event::Delivered { before: 1 }));
    assert_eq!((here.poll_event(), there.poll_event()), (Some(Event::Up), Some(Event::Up)));
    assert_eq!((here.poll_event(), there.poll_event()), (None, None));
    (here, there)
}

/// Each by itself: a kernel's stack has no room for several at once.
#[inline(never)]
fn refused(config: Config, memory: usize) -> Option<Invalid> {
    Small::new(config, vec![0; memory]).err()
}

fn a_flow_is_refused_what_it_cannot_work_with() {
    let nobody = Address { nid: 0, dpid: 1 };
    assert_eq!(refused(config(A, nobody), 80), Some(Invalid::Address));
    assert_eq!(refused(config(A, B), 9), Some(Invalid::Memory));
    for part_max in [0, 65524] {
        assert_eq!(refused(Config { part_max, ..config(A, B) }, 80), Some(Invalid::PartMax));
    }
    let mut small = flow(config(A, B));
    assert_eq!(send(&mut small, 1 + MESSAGE_MAX as u32), Err(NotSent::TooLong));
    (0..8).for_each(|n| assert_eq!(send(&mut small, 1), Ok(n)));
    assert_eq!(send(&mut small, 1), Err(NotSent::Full));
}

fn parts_leave_before_the_rest_of_their_message_is_there() {
    let (mut here, mut there) = met();
    send(&mut here, 35).unwrap();
    assert_eq!(frames(&mut here, 2_000_000, 5).len(), 0, "not even one");
    let early = frames(&mut here, 2_000_000, 20);
    assert_eq!(early.len(), 2);
    let mut begins = vec![];
    let mut sink = |part: Part<'_>| {
        begins.push((part.begin, part.bytes.len(), part.total));
        true
    };
    early.iter().for_each(|frame| there.on_frame(2_000_000, frame, &mut sink).unwrap());
    assert_eq!(frames(&mut here, 2_000_000, 25).len(), 0);
    let rest = frames(&mut here, 2_000_000, 35);
    rest.iter().for_each(|frame| there.on_frame(2_000_000, frame, &mut sink).unwrap());
    assert_eq!(begins, [(0, 6, 35), (6, 10, 35), (16, 10, 35), (26, 9, 35)]);
}

fn an_acknowledgement_that_waits_for_an_answer_is_no_queue() {
    // Each way takes 10 us; the first questions are answered in 50 us, and one later.
    let ask = |here: &mut Small, there: &mut Small, now: u64, think: u64| {
        let mut takes = |_: Part<'_>| true;
        send(here, 1).unwrap();
        let asked = now + 10_000;
        frames(here, now, 1).iter().for_each(|frame| there.on_frame(asked, frame, &mut takes).unwrap());
        send(there, 1).unwrap();
        let told = asked + think;
        frames(there, told, 1)
            .iter()
            .for_each(|frame| here.on_frame(told + 10_000, frame, &mut takes).unwrap());
    };
    for (before, is_queueing) in [(20, false), (0, true)] {
        let (mut here, mut there) = met();
        // What an answer takes on this way.
        here.way_changed(2_000_000, 70_000);
        for turn in 0..before {
            ask(&mut here, &mut there, 10_000_000 + turn * 1_000_000, 50_000);
        }
        assert!(!here.rtt.is_queueing());
        ask(&mut here, &mut there, 40_000_000, 450_000);
        assert_eq!(here.rtt.is_queueing(), is_queueing, "behind {before}");
    }
}

fn a_receiver_that_does_not_read_stops_the_sender_and_loses_nothing() {
    let (mut here, mut there) = met();
    (0..8).for_each(|_| {
        send(&mut here, 16).unwrap();
    });
    let mut now = 10_000_000;
    assert_eq!(exchange(&mut here, &mut there, now, 0), 0);
    assert_eq!((here.state().room, here.state().flying), (0, 0), "all that was granted is there");
    // It asks now and then, and repeats nothing.
    for _ in 0..20 {
        now = here.next_timeout().unwrap().max(now);
        assert_eq!(exchange(&mut here, &mut there, now, 0), 0);
    }
    assert_eq!((here.counts().repeats, here.counts().messages_lost), (0, 0));
    let mut parts = 0;
    let mut sink = |_: Part<'_>| {
        parts += 1;
        true
    };
    there.deliver(now, &mut sink);
    assert_eq!(parts, 8);
    assert_eq!(exchange(&mut here, &mut there, now, 99), 8);
    exchange(&mut here, &mut there, now + 1_000_000, 0);
    assert_eq!(here.poll_event(), Some(Event::Delivered { before: 9 }));
}

fn word_of_new_room_may_be_lost() {
    let (mut here, mut there) = met();
    (0..8).for_each(|_| {
        send(&mut here, 20).unwrap();
    });
    let begin = 10_000_000;
    exchange(&mut here, &mut there, begin, 0);
    there.deliver(begin, &mut |_: Part<'_>| true);
    assert_eq!(frames(&mut there, begin, 0).len(), 1, "it says so once, and nobody hears");
    let mut now = begin;
    while exchange(&mut here, &mut there, now, 99) == 0 {
        now = here.next_timeout().unwrap().max(now + 1);
    }
    assert!(now - begin <= 50_000_000, "asked after {} us", (now - begin) / 1000);
}

fn answers_that_are_only_late_leave_the_window_as_it_was() {
    let (mut here, mut there) = met();
    (0..8).for_each(|_| {
        send(&mut here, 10).unwrap();
    });
    let now = 10_000_000;
    let parts = frames(&mut here, now, usize::MAX);
    assert_eq!((parts.len(), here.state().window), (8, 8));
    parts.iter().for_each(|frame| there.on_frame(now, frame, &mut |_: Part<'_>| true).unwrap());
    let answers = frames(&mut there, now, 0);
    // Two time-outs, and then they come.
    let mut late = now;
    for _ in 0..2 {
        late = here.next_timeout().unwrap();
        frames(&mut here, late, usize::MAX);
    }
    assert_eq!((here.state().window, here.counts().timeouts, here.counts().early_timeouts), (4, 2, 0));
    let mut nothing = |_: Part<'_>| unreachable!();
    answers.iter().for_each(|frame| here.on_frame(late, frame, &mut nothing).unwrap());
    let state = here.state();
    assert_eq!((state.window, state.flying, state.lost, here.counts().early_timeouts), (8, 0, 0, 1));
}

fn pacing_holds_parts_back_until_their_time() {
    let (here, mut there) = met();
    let mut config = config(A, B);
    // A frame of 10 and 32 bytes, with 38 around it, takes 8 ms.
    (config.link, config.incarnation) = (Some(Link { speed: 10_000, around: 38 }), 99);
    drop(here);
    let mut here = flow(config);
    (0..4).for_each(|_| {
        send(&mut here, 10).unwrap();
    });
    let (mut now, mut times) = (0, vec![]);
    while times.len() < 4 {
        times.extend(core::iter::repeat_n(now, exchange(&mut here, &mut there, now, 9)));
        now = here.next_timeout().unwrap().max(now + 1);
    }
    let gaps: Vec<u64> = times.windows(2).map(|t| t[1] - t[0]).collect();
    assert!(gaps.iter().all(|gap| (7_000_000..9_000_000).contains(gap)), "{gaps:?}");
}

fn a_short_buffer_is_counted_and_nothing_is_written() {
    let (mut here, _) = met();
    send(&mut here, 5).unwrap();
    let mut out = vec![0; here.frame_max() - 1];
    let mut source = |_: u64, _: u32, _: &mut [u8]| unreachable!();
    assert_eq!(here.poll_transmit(0, &mut source, &mut out), None);
    assert_eq!(here.counts().short_buffers, 1);
}

fn a_loss_has_to_be_looked_at_before_the_next_message() {
    let (mut here, mut there) = met();
    send(&mut here, 5).unwrap();
    frames(&mut here, 3_000_000, 5);
    there = flow(Config { incarnation: 77, ..there.config });
    send(&mut there, 0).unwrap();
    // From the restarted one to here, and back.
    for now in [3_000_000, 30_000_000] {
        for frame in frames(&mut there, now, 9) {
            here.on_frame(now, &frame, &mut |_: Part<'_>| true).unwrap();
        }
        for frame in frames(&mut here, now, 9) {
            let _ = there.on_frame(now, &frame, &mut |_: Part<'_>| true);
        }
    }
    assert_eq!(send(&mut here, 5), Err(NotSent::Lost));
    assert_eq!(here.poll_event(), Some(Event::Down(Down::Restarted)));
    assert_eq!(here.poll_event(), Some(Event::Lost { from: 1, before: 2 }));
    assert_eq!(here.poll_event(), Some(Event::Up));
    assert_eq!(send(&mut here, 5), Ok(2));
}

fn a_frame_with_the_right_tag_and_nonsense_in_it_is_dropped() {
    let (mut here, there) = met();
    let mut out = vec![0; here.frame_max()];
    let mut sink = |_: Part<'_>| unreachable!();
    let before = std::format!("{:?}", here.window);
    let header = there.header(dp_abi::frame2::KIND_ACK, 0, 0);
    let wrong = [
        (Header { acknowledged: header.acknowledged.wrapping_add(9), ..header }, Refused::Acknowledged),
        (Header { word: header.word | 4, ..header }, Refused::Acknowledged),
        (Header { tag: header.tag ^ 1, ..header }, Refused::Incarnation),
        (Header { from_dpid: 7, ..header }, Refused::Address),
    ];
    for (header, reason) in wrong {
        let len = frame::seal(&mut out, header, 0, Some(crc32c));
        assert_eq!(here.on_frame(5, &out[..len], &mut sink), Err(reason));
        assert_eq!(
            here.counts().refused(reason),
            1 + u64::from(reason == Refused::Acknowledged && header.word & 4 != 0)
        );
    }
    assert_eq!(std::format!("{:?}", here.window), before);
}

fn each_part_tells_the_place_behind_it() {
    let (mut here, mut there) = met();
    send(&mut here, 35).unwrap();
    for frame in frames(&mut here, 2_000_000, usize::MAX) {
        let mut told = None;
        let mut sink = |part: Part<'_>| {
            told = Some(part.place);
            true
        };
        there.on_frame(2_000_000, &frame, &mut sink).unwrap();
        assert_eq!(told, there.place());
    }
    exchange(&mut here, &mut there, 3_000_000, 9);
    // Those that the sink refused, and takes later.
    send(&mut here, 35).unwrap();
    for frame in frames(&mut here, 4_000_000, usize::MAX) {
        there.on_frame(4_000_000, &frame, &mut |_: Part<'_>| false).unwrap();
    }
    let before = there.place().unwrap();
    let mut told = Vec::new();
    there.deliver(5_000_000, &mut |part: Part<'_>| {
        told.push(part.place);
        true
    });
    let expected: Vec<Place> = (1..=4).map(|n| Place { taken: before.taken + n, ..before }).collect();
    assert_eq!(told, expected);
    assert_eq!(told.last().copied(), there.place());
}

fn a_shortening_before_the_first_is_agreed_still_says_what_had_come() {
    let (mut here, mut there) = met();
    let now = 2_000_000;
    let takes = |flow: &mut Small, frames: Vec<Vec<u8>>| {
        let mut parts = 0;
        for frame in frames {
            let _ = flow.on_frame(now, &frame, &mut |_: Part<'_>| {
                parts += 1;
                true
            });
        }
        parts
    };
    send(&mut here, 35).unwrap();
    assert_eq!(takes(&mut there, frames(&mut here, now, 35)), 4);
    // That it came is not heard: the way becomes shorter here. There that is known soon, ...
    here.set_part_max(now, 5);
    takes(&mut there, frames(&mut here, now, 0));
    takes(&mut here, frames(&mut there, now, 0));
    takes(&mut there, frames(&mut here, now, 0));
    assert_eq!(there.poll_event(), Some(Event::Down(Down::Restarted)));
    assert_eq!(there.poll_event(), Some(Event::Up));
    // ... but its answer is lost, and so is what it sends, for which the way is too short there as well.
    send(&mut there, 10).unwrap();
    assert_eq!(frames(&mut there, now, 10).len(), 2);
    there.set_part_max(now, 5);
    assert_eq!(exchange(&mut there, &mut here, now, 99), 0);
    assert_eq!(here.poll_event(), Some(Event::Delivered { before: 2 }), "it had come, and is not sent again");
    assert_eq!(here.poll_event(), Some(Event::Down(Down::Shortened)));
    assert_eq!((here.poll_event(), here.poll_event()), (Some(Event::Up), None));
    assert_eq!(there.poll_event(), Some(Event::Down(Down::Shortened)));
    assert_eq!(there.poll_event(), Some(Event::Lost { from: 0, before: 1 }));
}

/// As [`exchange`], whatever is refused.
fn greet(from: &mut Small, to: &mut Small, now: u64) {
    loop {
        let (there, back) = (frames(from, now, usize::MAX), frames(to, now, usize::MAX));
        if there.is_empty() && back.is_empty() {
            return;
        }
        there.iter().for_each(|frame| {
            let _ = to.on_frame(now, frame, &mut |_: Part<'_>| true);
        });
        back.iter().for_each(|frame| {
            let _ = from.on_frame(now, frame, &mut |_: Part<'_>| true);
        });
    }
}

fn a_loss_behind_a_restart_of_the_peer_counts_as_one_before_it() {
    let (mut here, mut there) = met();
    let mut now = 2_000_000;
    for _ in 0..1000 {
        send(&mut here, 1).unwrap();
        exchange(&mut here, &mut there, now, 9);
        while here.poll_event().is_some() {}
        now += 1_000_000;
    }
    let lose = |here: &mut Small| {
        let next = here.window.order();
        here.congestion.lost(next - 1, next);
        here.state().window
    };
    let (full, once) = (here.state().window, lose(&mut here));
    assert!(once < full);
    let mut there = flow(Config { incarnation: 77, ..config(B, A) });
    send(&mut here, 1).unwrap();
    for _ in 0..5 {
        greet(&mut here, &mut there, now);
        now += 50_000_000;
    }
    while here.poll_event().is_some() {}
    send(&mut here, 1).unwrap();
    assert_eq!(exchange(&mut here, &mut there, now, 9), 1);
    let before = here.state().window;
    assert!(before > 4 && lose(&mut here) < before, "{before}");
}

fn a_message_that_was_taken_in_part_is_given_up_and_comes_again_from_its_first_part_on() {
    let (mut here, mut there) = met();
    let mut now = 2_000_000;
    // The other way something is on its way, and comes once.
    send(&mut there, 25).unwrap();
    send(&mut here, 35).unwrap();
    let begun = frames(&mut here, now, 20);
    begun.iter().for_each(|frame| there.on_frame(now, frame, &mut |_: Part<'_>| true).unwrap());
    let back = frames(&mut there, now, usize::MAX);
    let mut answers = 0;
    let mut count = |part: Part<'_>| {
        answers += u32::from(part.is_last());
        true
    };
    back.iter().for_each(|frame| here.on_frame(now, frame, &mut count).unwrap());
    there.renew(now);
    there.renew(now);
    let mut begins = vec![];
    for _ in 0..6 {
        for frame in frames(&mut there, now, usize::MAX) {
            let _ = here.on_frame(now, &frame, &mut count);
        }
        while let Some(event) = here.poll_event() {
            if let Event::Lost { .. } = event {
                send(&mut here, 35).unwrap();
            }
        }
        while let Some(event) = there.poll_event() {
            assert!(!matches!(event, Event::Lost { .. }), "it had come");
        }
        for frame in frames(&mut here, now, usize::MAX) {
            let _ = there.on_frame(now, &frame, &mut |part: Part<'_>| {
                begins.push(part.begin);
                true
            });
        }
        now += 30_000_000;
    }
    assert_eq!((begins, answers), (vec![0, 6, 16, 26], 1));
}

fn more_memory_while_the_peer_is_to_agree_leaves_nothing_due_that_cannot_be_said() {
    let mut small = Box::new(Small::new(config(A, B), vec![0; 4 * PART]).unwrap());
    let mut there = flow(config(B, A));
    send(&mut small, 0).unwrap();
    exchange(&mut small, &mut there, 0, 9);
    let now = 2_000_000;
    small.renew(now);
    assert_eq!(frames(&mut small, now, 0).len(), 1, "a HELLO");
    assert!(small.grow(now, vec![0; 8 * PART]).is_ok());
    frames(&mut small, now, 0);
    assert!(small.next_timeout().unwrap() > now, "the next HELLO");
    // The room is known when that is through.
    let now = 40_000_000;
    greet(&mut small, &mut there, now);
    assert_eq!(there.state().room, 8);
}

fn a_peer_that_never_agrees_to_begin_anew_is_dead_like_any_other() {
    let (mut here, _) = met();
    let begin = 2_000_000;
    send(&mut here, 5).unwrap();
    assert_eq!(frames(&mut here, begin, 5).len(), 1);
    here.renew(begin);
    let (mut now, mut hellos) = (begin, 0);
    while let Some(next) = here.next_timeout().filter(|next| *next <= begin + 60_000_000_000) {
        now = next.max(now);
        hellos += frames(&mut here, now, 5).len();
    }
    assert_eq!(here.poll_event(), Some(Event::Down(Down::Silent)));
    assert_eq!(here.poll_event(), Some(Event::Lost { from: 1, before: 2 }));
    let took = now - begin;
    assert!((5_000_000_000..7_000_000_000).contains(&took), "{took} ns, {hellos} HELLOs");
    // It tries again when there is something to say.
    assert_eq!((here.next_timeout(), here.state().open), (None, false));
    assert_eq!(send(&mut here, 5), Ok(2));
    assert_eq!(frames(&mut here, now, 5).len(), 1);
}
