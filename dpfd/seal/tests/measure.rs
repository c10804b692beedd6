//! What a frame takes, beside a copy of it. Ignored, as nothing in it can fail:
//! `cargo test --release -p dp-seal --test measure -- --ignored --nocapture`.

mod world;

use std::hint::black_box;
use std::time::{Duration, Instant};

use dp_seal::{Mode, Peer, HEAD, OVERHEAD, OWN_MAX};
use world::{key, Link, World, WALL};

const ROUNDS: usize = 7;
const FRAMES: u32 = 4000;

/// Nanoseconds of one, the least of several rounds. `turn` does so many.
fn each(n: u32, mut turn: impl FnMut() -> Duration) -> f64 {
    let times = (0..ROUNDS).map(|_| turn().as_secs_f64() * 1e9 / f64::from(n));
    times.fold(f64::INFINITY, f64::min)
}

fn of_frames(mode: Mode, frame: usize) -> [f64; 4] {
    let mut world = World::new(mode, Link::GOOD, 1);
    world.connect();
    let length = frame + OVERHEAD;
    // More than a cache near the core holds is the usual case for packets that arrive.
    let mut rooms = vec![vec![3u8; length]; FRAMES as usize];
    let now = world.now;
    let mut seal = f64::INFINITY;
    let mut open = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for room in &mut rooms {
            world.sides[0].peer.seal(now, room, frame).unwrap();
        }
        seal = seal.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES));
        let start = Instant::now();
        for room in &mut rooms {
            black_box(world.sides[1].peer.open(now, room)).unwrap();
        }
        open = open.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES));
    }
    let refuse = each(FRAMES, || {
        let start = Instant::now();
        for room in &mut rooms {
            black_box(world.sides[1].peer.open(now, room)).unwrap_err();
        }
        start.elapsed()
    });
    let mut to = vec![0; length];
    let copy = each(FRAMES, || {
        let start = Instant::now();
        for room in &rooms {
            to[HEAD..].copy_from_slice(&room[HEAD..]);
            black_box(&mut to);
        }
        start.elapsed()
    });
    [seal, open, refuse, copy]
}

/// A whole handshake of both sides, and an INITIATION that was not made with the key.
fn of_handshakes() -> [f64; 2] {
    let mut out = [0; OWN_MAX];
    let whole = each(100, || {
        let start = Instant::now();
        for _ in 0..100 {
            let mut world = World::new(Mode::Encrypt, Link::GOOD, 1);
            world.sides[0].peer.connect(0);
            for side in [0, 1, 0] {
                let length = world.sides[side].peer.poll_transmit(0, &mut out).unwrap();
                world.sides[1 - side].peer.open(0, &mut out[..length]).unwrap();
            }
        }
        start.elapsed()
    });
    let mut peer = Peer::new(&key(), dp_seal::Config::new(1, 2, Mode::Encrypt, WALL)).unwrap();
    let mut forged = [7; OWN_MAX];
    forged[..8].copy_from_slice(&[0x5e, 0x11, 0, 2, 0, 1, 2, 0]);
    let forged = each(FRAMES, || {
        let start = Instant::now();
        for _ in 0..FRAMES {
            black_box(peer.open(0, black_box(&mut forged))).unwrap_err();
        }
        start.elapsed()
    });
    [whole, forged]
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    for mode in [Mode::Authenticate, Mode::Encrypt] {
        for frame in [64, 1400, 8900] {
            let [seal, open, refuse, copy] = of_frames(mode, frame);
            println!(
                "{mode:?}, {frame} B: seal {seal:.0} ns, open {open:.0} ns, refuse as replayed {refuse:.0} ns, copy {copy:.0} ns"
            );
        }
    }
    let [whole, forged] = of_handshakes();
    println!("a handshake, both sides: {:.0} us; a forged one refused: {forged:.0} ns", whole / 1e3);
}
