//! Forgers: they attach like any sender, and put onto the receiver's descriptor whatever they like.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dp_edge::segment::sealed_memory;
use dp_edge::sys::unix;
use dpfd::driver::user::note::OutOfLinePacket;
use dpfd::edge::beside::Beside;
use dpfd::Addr;

use crate::crowd::{Crowd, How, RECEIVER};
use crate::kit::*;
use crate::strangers::{memory, odd_descriptors, seal, Attached, Stranger};

const SIZES: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
const ALL: i32 = SIZES | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;

/// A tag in the name of whom it says.
fn tag(from: Addr) -> OwnedFd {
    let mut file = File::from(sealed_memory(c"forged", 8).expect("memory"));
    file.write_all(b"DPtg").expect("a tag");
    file.write_all(&from.nid.to_ne_bytes()).expect("a tag");
    file.write_all(&from.dpid.to_ne_bytes()).expect("a tag");
    file.into()
}

fn put(back: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, i32> {
    unix::send(back.as_raw_fd(), &[IoSlice::new(bytes)], fds, libc::MSG_DONTWAIT)
}

/// A receiver with honest senders: one with an edge, one that has to go through the descriptor, one that writes
/// plainly. And a forger.
fn beside(name: &str, mut f: impl FnMut(&mut Random, &Attached)) {
    let _turn = alone();
    let mut random = Random::new();
    println!("{name}: DP_SEED={}", random.seed);
    let mut crowd = Crowd::new(4096);
    crowd.welcome(How::Calls);
    crowd.welcome(How::Plain);
    crowd.progress(name);
    crowd.remember();
    let stranger = Stranger::at(RECEIVER).expect("a connection");
    // In the name of one of the honest.
    let way = stranger.attach(1, Addr::local(RECEIVER + 1), RECEIVER);
    let end = Instant::now() + attack_time();
    while Instant::now() < end {
        f(&mut random, &way);
    }
    crowd.progress(name);
    drop((stranger, way, f));
    crowd.progress(name);
    crowd.rests(name);
    crowd.end();
}

#[test]
fn packets_of_any_size_with_any_tag() {
    let mut odd = odd_descriptors();
    odd.push(tag(Addr::local(RECEIVER + 1)));
    odd.push(tag(Addr::local(RECEIVER)));
    odd.push(tag(Addr { nid: 7, dpid: 0 }));
    odd.push(memory(8, SIZES));
    beside("packets", move |random, way| {
        let len = [0, 1, 8, 20, 4096, 200_000][random.below(6) as usize] as usize;
        let bytes = vec![random.next() as u8; len];
        let fds: Vec<_> =
            (0..random.below(3)).map(|_| odd[random.below(odd.len() as u64) as usize].as_fd()).collect();
        // Full: the honest have their turn.
        if put(&way.back, &bytes, &fds).is_err() {
            sleep(Duration::from_micros(random.below(500)));
        }
    });
}

#[test]
fn a_flood_of_bells_and_of_messages() {
    let name = tag(Addr::local(RECEIVER + 1));
    let mut turn = 0u64;
    beside("flood", move |_, way| {
        turn += 1;
        // For a while the one, for a while the other, without a pause.
        let bells = turn / 10_000 % 2 == 0;
        let tag = [name.as_fd()];
        let _ = put(&way.back, if bells { b"" } else { b"junk" }, if bells { &[] } else { &tag });
    });
}

#[test]
fn far_messages_that_are_none() {
    let name = tag(Addr::local(RECEIVER + 1));
    let hostile = Addr::local(999);
    let other = tag(hostile);
    let text = |seals| {
        let mut file = File::from(memory(0, 0));
        file.write_all(&[7; 5000]).expect("memory");
        seal(&file, seals);
        OwnedFd::from(file)
    };
    let mut all: Vec<OwnedFd> = odd_descriptors();
    // Unsealed, half sealed, empty, too long, all as it should be.
    all.extend([text(0), text(SIZES), text(libc::F_SEAL_WRITE), memory(0, ALL), memory((16 << 20) + 1, ALL)]);
    all.extend([memory(1 << 40, ALL), memory(16 << 20, ALL), text(ALL)]);
    beside("out of line", move |random, way| {
        // Memory that is cut short right behind its packet.
        let shrinks = text(0);
        let memory = match random.below(4) {
            0 => shrinks.as_fd(),
            _ => all[random.below(all.len() as u64) as usize].as_fd(),
        };
        let key = [0, 1, random.next()][random.below(3) as usize];
        let immediate = (random.below(2) == 0).then(|| random.next());
        let beside = Beside { immediate, route: random.below(3) };
        let packet = OutOfLinePacket { key, number: random.below(4), beside };
        let (bytes, len) = packet.encode();
        let cut = if random.below(5) == 0 { random.below(28) as usize } else { len };
        let tag = if random.below(2) == 0 { name.as_fd() } else { other.as_fd() };
        if put(&way.back, &bytes[..cut], &[tag, memory]).is_err() {
            sleep(Duration::from_micros(random.below(500)));
        }
        let _ = nix::unistd::ftruncate(shrinks.as_fd(), 0);
    });
}

/// What a forger sends under another's name takes no place of what that one sends.
#[test]
fn a_forger_cannot_take_the_place_of_an_out_of_line_message() {
    let name = tag(Addr::local(RECEIVER + 1));
    let mut file = File::from(memory(0, 0));
    file.write_all(&[9; 250_000]).expect("memory");
    seal(&file, ALL);
    let mut number = 0;
    beside("places", move |_, way| {
        number += 1;
        // The numbers of the honest one's tokens, which anybody can count; its key nobody knows.
        let packet = OutOfLinePacket { key: number * 7919, number: number % 64, beside: Beside::default() };
        let (bytes, len) = packet.encode();
        if put(&way.back, &bytes[..len], &[name.as_fd(), file.as_fd()]).is_err() {
            sleep(Duration::from_micros(200));
        }
    });
}
