//! How sessions begin, give way to others and end, and what strangers and restarts do to them.

mod world;

use dp_seal::{Limits, Mode, NotSealed, Refused, HEAD, OVERHEAD};
use world::{key, Link, World, MS, S, US};

fn world() -> World {
    World::new(Mode::Authenticate, Link::GOOD, 1)
}

/// Packets that were sent so far, to both sides.
fn packets(world: &World) -> usize {
    world.recorded.iter().map(Vec::len).sum()
}

#[test]
fn three_packets_make_a_session_for_both() {
    let mut world = world();
    world.connect();
    assert_eq!(packets(&world), 3, "INITIATION, RESPONSE, EMPTY");
    world.both_pass();
    for side in &world.sides {
        assert_eq!((side.peer.counts().sessions, side.peer.counts().refused_sum()), (1, 0));
    }
    world.pass(60 * S);
    assert_eq!(packets(&world), 5, "nothing is sent of itself");
}

#[test]
fn the_first_frame_begins_a_session_too() {
    let mut world = world();
    assert!(!world.send(0), "there is none yet");
    world.pass(MS);
    world.both_pass();
}

#[test]
fn only_what_is_to_be_encrypted_is() {
    for (mode, readable) in [(Mode::Authenticate, true), (Mode::Encrypt, false)] {
        let mut world = World::new(mode, Link::GOOD, 1);
        world.connect();
        let id = world.sides[0].tried;
        world.send(0);
        let (packet, frame) = (world.recorded[1].last().unwrap(), world::frame(0, id));
        assert_eq!(packet.len(), frame.len() + OVERHEAD);
        let same = packet[HEAD..].iter().zip(&frame).filter(|(a, b)| a == b).count();
        assert_eq!(same == frame.len(), readable);
        assert!(readable || same < frame.len() / 4, "{same} of {} bytes", frame.len());
    }
}

#[test]
fn both_may_begin_at_once() {
    for delay in [US, 100 * MS, 240 * MS] {
        let mut world = world();
        world.link.delay = delay;
        world.sides.iter_mut().for_each(|side| side.peer.connect(0));
        world.pass(2 * S);
        for _ in 0..10 {
            world.both_pass();
        }
        world.once();
        let refused: u64 = world.sides.iter().map(|side| side.peer.counts().refused_sum()).sum();
        assert!(refused <= 2, "{refused} refused");
    }
}

#[test]
fn each_side_may_be_started_again() {
    for (side, off) in [(0, 0), (1, 0), (0, -3600 * S as i64), (1, -3600 * S as i64), (0, 3600 * S as i64)] {
        let mut world = world();
        world.connect();
        world.both_pass();
        for round in 0..4 {
            world.pass(3 * S);
            world.restart(side, off - round);
            // The other one does not know, and sends.
            let (before, came) = (packets(&world), world.sides[side].came.len());
            let mut sent = 0;
            while world.sides[side].came.len() == came {
                world.send(1 - side);
                world.pass(100 * US);
                sent += 1;
                assert!(sent < 5, "round {round}: {sent} frames are not enough");
            }
            assert!(packets(&world) - before <= 8, "{} packets", packets(&world) - before);
            world.both_pass();
            // Or the one that was started again has something to say first.
            world.pass(3 * S);
            world.restart(side, off - round);
            let mut sent = 0;
            while !world.send(side) {
                world.pass(100 * MS);
                sent += 1;
                assert!(sent < 30, "round {round}: no session in three seconds");
            }
            world.both_pass();
        }
        world.once();
    }
}

#[test]
fn both_may_be_started_again_at_once() {
    let mut world = world();
    world.connect();
    for round in 1..5 {
        world.restart(0, round * S as i64);
        world.restart(1, -round * S as i64);
        world.send(0);
        world.send(1);
        world.pass(S);
        world.both_pass();
    }
    world.once();
}

#[test]
fn what_is_replayed_does_not_disturb_a_session() {
    let mut world = world();
    world.connect();
    for _ in 0..20 {
        world.both_pass();
    }
    let recorded = world.recorded.clone();
    let sent = packets(&world);
    for _ in 0..3 {
        for (to, packets) in recorded.iter().enumerate() {
            for packet in packets {
                world.arrive(to, packet.clone());
            }
        }
        world.both_pass();
    }
    // The INITIATION could be from a node whose clock was set back.
    assert_eq!(packets(&world), sent + 6 + 3, "one LATER a second");
    world.once();
    for side in &world.sides {
        assert_eq!(side.peer.counts().sessions, 1, "it is still the first one");
    }
    assert_eq!(world.sides[1].peer.counts().refused(Refused::Stale), 3);
    assert_eq!(world.sides[0].peer.counts().refused(Refused::Unasked), 6);
}

/// A node that was started again has forgotten which handshakes it answered. Somebody replays all of them, again and again;
/// nobody but the true node gets a session.
#[test]
fn what_is_replayed_to_a_node_that_was_started_again_does_not_hold_it_up() {
    let mut world = world();
    for round in 0..10 {
        world.connect();
        world.both_pass();
        world.restart(round % 2, 0);
        world.pass(3 * S);
    }
    let recorded = world.recorded.clone();
    for (side, packets) in recorded.iter().enumerate() {
        world.restart(side, 0);
        for packet in packets {
            world.arrive(side, packet.clone());
            world.pass(20 * MS);
        }
    }
    world.send(0);
    world.send(1);
    world.pass(S);
    world.both_pass();
    world.once();
}

/// Both clocks were set back, and both nodes have been told by somebody who replays how late it was before.
#[test]
fn clocks_that_were_set_back_on_both_sides_hold_nobody_up() {
    let mut world = world();
    world.connect();
    world.pass(200 * S);
    world.sides[1].peer.connect(world.now);
    world.pass(S);
    let recorded = world.recorded.clone();
    world.restart(0, -3600 * S as i64);
    world.restart(1, -3600 * S as i64);
    world.link.lost = 1000;
    for (side, packets) in recorded.iter().enumerate() {
        for packet in packets {
            world.arrive(side, packet.clone());
            world.pass(20 * MS);
        }
    }
    world.link.lost = 0;
    world.send(0);
    world.send(1);
    world.pass(6 * S);
    world.both_pass();
    world.once();
}

/// When there is a session with its successor already.
#[test]
fn what_a_node_sent_before_it_was_started_again_may_come_late() {
    let mut world = world();
    world.sides[1].peer.connect(0);
    world.pass(10 * US);
    // Side 1 is to have sent a frame of a session that side 0 offers; it is held back.
    world.pass(20 * US);
    world.link.delay = 3 * S;
    world.pass(20 * US);
    assert!(world.is_ready(1) && !world.is_ready(0));
    world.send(1);
    world.link.delay = 20 * US;
    world.restart(1, -30 * S as i64);
    world.send(0);
    world.pass(2 * S);
    assert!(world.is_ready(0) && world.is_ready(1));
    world.both_pass();
    world.pass(S);
    assert!(world.sides[0].came.contains_key(&0), "it came late");
    for _ in 0..3 {
        world.both_pass();
    }
    world.once();
}

#[test]
fn sessions_are_renewed_and_nothing_is_lost_meanwhile() {
    for mode in [Mode::Authenticate, Mode::Encrypt] {
        let mut world = World::new(mode, Link { delay: 30 * MS, jitter: 20 * MS, ..Link::GOOD }, 1);
        world.connect();
        let begin = world.sides.each_ref().map(|side| side.tried);
        while world.now < 900 * S {
            world.send(0);
            world.send(1);
            world.pass(40 * MS);
        }
        world.pass(S);
        for (side, begin) in begin.iter().enumerate() {
            let sent = world.sides[side].tried - begin;
            assert_eq!(world.sides[1 - side].came.len() as u64, sent, "all of them came");
            let counts = world.sides[side].peer.counts();
            assert!((7..=9).contains(&counts.sessions), "{counts:?}");
            assert_eq!(counts.refused_sum(), 0, "{counts:?}");
        }
        world.once();
    }
}

/// Also where only one side sends, whichever began.
#[test]
fn sessions_are_renewed_where_one_side_sends() {
    for side in 0..2 {
        let mut world = world();
        world.connect();
        let begin = world.sides[side].tried;
        while world.now < 600 * S {
            world.send(side);
            world.pass(300 * MS);
        }
        world.pass(S);
        assert_eq!(world.sides[1 - side].came.len() as u64, world.sides[side].tried - begin);
        // Nothing is heard from there but answers to handshakes.
        let initiations = world.sides[side].peer.counts().initiations;
        assert!(initiations <= 62, "{initiations} handshakes in 600 seconds");
    }
}

#[test]
fn sessions_are_renewed_by_frames() {
    let limits = Limits { renew_frames: 1000, end_frames: 1100, ..Limits::DEFAULT };
    let mut world = World::with([Mode::Encrypt; 2], [key(), key()], limits, Link::GOOD, 1);
    world.connect();
    for _ in 0..10_500 {
        world.send(0);
        world.pass(300 * US);
    }
    world.pass(S);
    // A handshake begins a quarter of a second after the last one at the earliest.
    assert!(world.sides[0].peer.counts().sessions >= 10, "{:?}", world.sides[0].peer.counts());
    world.once();
    world.both_pass();
}

#[test]
fn no_more_frames_are_sent_than_a_session_may_carry() {
    let limits = Limits { renew_frames: 50, end_frames: 60, ..Limits::DEFAULT };
    let mut world = World::with([Mode::Encrypt; 2], [key(), key()], limits, Link::GOOD, 1);
    world.connect();
    let before = world.sides[0].sealed;
    // Nobody answers from here on.
    world.link.lost = 1000;
    for _ in 0..100 {
        world.send(0);
    }
    // The first packet was EMPTY.
    assert_eq!(world.sides[0].sealed - before, 59);
    assert!(!world.is_ready(0));
}

#[test]
fn a_session_ends_and_its_keys_are_forgotten() {
    let mut world = world();
    world.connect();
    world.link.delay = 200 * S;
    world.send(0);
    world.link.delay = US;
    let packet = world.recorded[1].last().unwrap().clone();
    world.pass(177 * S);
    assert!(world.is_ready(0) && world.is_ready(1));
    world.pass(2 * S);
    assert!(!world.is_ready(0) && !world.is_ready(1));
    world.arrive(1, packet);
    assert_eq!(world.sides[1].peer.counts().refused(Refused::Session), 1);
    assert!(world.sides[1].came.is_empty());
    world.pass(S);
    world.both_pass();
}

#[test]
fn nobody_is_called_for_ever() {
    let mut world = world();
    world.link.lost = 1000;
    world.send(0);
    world.pass(3600 * S);
    let calls = packets(&world);
    assert!((15..=30).contains(&calls), "{calls} in ninety seconds");
    assert_eq!(world.sides[0].peer.poll_timeout(), None);
    // But anew, when there is something to say.
    world.link.lost = 0;
    world.send(0);
    world.pass(MS);
    world.both_pass();
}

/// Frames of sessions that are not known could be from a node that does not know of a restart. Whoever forges them gets
/// this node to send less than it was sent.
#[test]
fn a_flood_of_forged_frames_is_answered_with_a_few_words() {
    let mut world = world();
    let mut forged = vec![0x5e, 0x13, 0, 2];
    forged.resize(100, 0x77);
    for _ in 0..60_000 {
        world.arrive(0, forged.clone());
        world.pass(MS);
    }
    assert_eq!(world.sides[0].peer.counts().refused(Refused::Session), 60_000);
    let calls = world.sides[0].peer.counts().initiations;
    assert!(calls <= 20, "{calls} handshakes in a minute");
}

/// While there is a session that both sides know, they are not answered at all.
#[test]
fn forged_frames_do_not_disturb_a_session() {
    let mut world = world();
    world.connect();
    world.both_pass();
    let sent = packets(&world);
    let mut forged = vec![0x5e, 0x13, 0, 2];
    forged.resize(100, 0x77);
    for n in 0..10_000u64 {
        // Some with the true session's name, and counters far ahead.
        forged[4..16].copy_from_slice(&world.recorded[0].last().unwrap()[4..16]);
        forged[8..16].copy_from_slice(&(n << 32).to_be_bytes());
        world.arrive(0, forged.clone());
    }
    assert_eq!(packets(&world), sent);
    world.both_pass();
}

#[test]
fn a_node_that_does_not_seal_is_told_apart_from_a_forger() {
    let mut world = world();
    world.connect();
    let mut frame = world::frame(0, 3);
    frame[0] = 2;
    world.arrive(1, frame);
    assert_eq!(world.sides[1].peer.counts().refused(Refused::Plain), 1);
}

#[test]
fn sides_of_different_modes_never_meet_and_are_told() {
    let modes = [Mode::Authenticate, Mode::Encrypt];
    let mut world = World::with(modes, [key(), key()], Limits::DEFAULT, Link::GOOD, 1);
    world.send(0);
    world.send(1);
    world.pass(5 * S);
    for side in &world.sides {
        assert!(side.peer.counts().refused(Refused::Mode) > 0 && side.peer.counts().sessions == 0);
    }
}

#[test]
fn frames_without_room_are_refused() {
    let mut world = world();
    world.connect();
    let mut room = [0; 100];
    let peer = &mut world.sides[0].peer;
    assert_eq!(peer.seal(world.now, &mut room, 15), Err(NotSealed::Length));
    assert_eq!(peer.seal(world.now, &mut room, 69), Err(NotSealed::Length));
    assert_eq!(peer.seal(world.now, &mut room, usize::MAX), Err(NotSealed::Length));
    assert_eq!(peer.seal(world.now, &mut room, 68), Ok(100));
    assert_eq!(peer.seal(world.now, &mut [], 16), Err(NotSealed::Length));
    assert_eq!(peer.poll_transmit(world.now, &mut [0; 79]), None);
}

/// The other side lost the session, and what it says about that does not arrive.
#[test]
fn a_session_in_doubt_is_renewed() {
    let mut world = world();
    world.connect();
    world.restart(1, 0);
    for _ in 0..12 {
        world.send(0);
        world.link.lost = 1000;
        world.pass(S);
        world.link.lost = 0;
    }
    assert!(world.sides[0].peer.counts().initiations >= 2, "{:?}", world.sides[0].peer.counts());
    world.send(0);
    world.pass(6 * S);
    world.both_pass();
}

/// A node was started again and has nothing to say, and its word that it has the keys is lost: the other one goes on with the
/// session that was.
#[test]
fn a_lost_word_of_the_keys_holds_a_route_up_for_a_moment_only() {
    let mut world = world();
    world.connect();
    world.both_pass();
    world.restart(1, 0);
    let came = world.sides[1].came.len();
    world.send(0);
    world.pass(50 * US);
    // INITIATION and RESPONSE have come; EMPTY does not.
    world.link.lost = 1000;
    world.pass(50 * US);
    assert!(world.is_ready(1));
    world.link.lost = 0;
    let since = world.now;
    while world.sides[1].came.len() == came {
        world.send(0);
        world.pass(10 * MS);
        assert!(world.now - since < 500 * MS, "nothing came for so long");
    }
    world.both_pass();
    // Whoever repeats what cannot be opened has nothing sent any more.
    let sent = packets(&world);
    let mut forged = vec![0x5e, 0x13, 0, 1];
    forged.resize(100, 0x77);
    for _ in 0..100 {
        world.arrive(1, forged.clone());
        world.pass(10 * MS);
    }
    assert_eq!(packets(&world), sent);
}
