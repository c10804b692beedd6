//! What every route does. A new one is done when it passes this, between two of its ends.

use std::time::Duration;

use dp_route::{Frames, PeerAddr, Reason, Received, Route, BATCH_MAX};
use nix::errno::Errno;

use crate::kit::{await_frames, await_nothing};

/// In each byte: no frame of the kernel driver's, which begin with 1 and may take another way, so that they overtake others.
const LATER: u8 = 2;

/// Both ways between `a` and `b`, which nobody else sends to.
pub fn keeps(a: &mut dyn Route, b: &mut dyn Route) {
    assert_eq!(a.name(), a.local().route());
    one_way(a, b);
    one_way(b, a);
    let counts = [a.counters(), b.counters()];
    assert_eq!(counts[0].sent, counts[1].received);
    assert_eq!(counts[0].sent_bytes, counts[1].received_bytes);
    assert_eq!(counts[1].sent, counts[0].received);
    assert_eq!(counts[1].sent_bytes, counts[0].received_bytes);
    a.refresh().expect("it is well");
}

fn one_way(a: &mut dyn Route, b: &mut dyn Route) {
    lengths_arrive(a, b);
    batches_arrive(a, b);
    wrong_frames_are_refused(a, b);
}

fn room(route: &dyn Route) -> Received {
    Received::new(8, route.slot())
}

fn lengths_arrive(a: &mut dyn Route, b: &mut dyn Route) {
    let mtu = a.mtu(&b.local()).unwrap();
    let mut into = room(b);
    assert_eq!(b.recv(&mut into).unwrap(), 0, "nothing was sent");
    for length in [1, 2, 31, 64, 512, 1000, mtu - 1, mtu] {
        let bytes: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8 | LATER).collect();
        let lengths = [length as u16];
        let frames = Frames::new(&bytes, &lengths).unwrap();
        assert_eq!(a.send(&b.local(), frames).unwrap(), 1, "{length} bytes");
        let got = await_frames(b, 1);
        assert_eq!(got, [(a.local(), bytes)], "{length} bytes");
    }
}

fn batches_arrive(a: &mut dyn Route, b: &mut dyn Route) {
    let long = a.mtu(&b.local()).unwrap().min(1400) as u16;
    let batches: [Vec<u16>; 5] = [
        vec![long; 40],
        vec![100; BATCH_MAX],
        [vec![long; 9], vec![17]].concat(),
        vec![9, 90, 900, 900, 9, 9, 90, 1, 1],
        (1..=BATCH_MAX as u16).collect(),
    ];
    for lengths in batches {
        let bytes: Vec<u8> =
            (0..lengths.iter().map(|&n| u32::from(n)).sum()).map(|n: u32| (n % 251) as u8 | LATER).collect();
        let mut rest = Frames::new(&bytes, &lengths).unwrap();
        let wanted: Vec<(PeerAddr, Vec<u8>)> = rest.iter().map(|frame| (a.local(), frame.to_vec())).collect();
        let mut got = Vec::new();
        while !rest.is_empty() {
            let sent = a.send(&b.local(), rest).unwrap();
            rest = rest.after(sent);
            // Where there is no room, somebody must take some.
            got.extend(await_frames(b, sent));
        }
        assert_eq!(got.len(), wanted.len());
        assert!(got == wanted, "{lengths:?}");
    }
}

fn wrong_frames_are_refused(a: &mut dyn Route, b: &mut dyn Route) {
    let (before, mtu) = (*a.counters(), a.mtu(&b.local()).unwrap());
    if mtu < dp_route::FRAME_MAX {
        let bytes = vec![0; mtu + 1];
        let error = a.send(&b.local(), Frames::new(&bytes, &[mtu as u16 + 1]).unwrap()).unwrap_err();
        assert_eq!(Reason::of(&error), Reason::TooLong, "{error}");
        assert_eq!(a.counters().refused(Reason::TooLong), before.refused(Reason::TooLong) + 1);
    }
    let one = Frames::new(&[1], &[1]).unwrap();
    let foreign = "another:place".parse().unwrap();
    assert_eq!(Reason::of(&a.send(&foreign, one).unwrap_err()), Reason::Address);
    assert_eq!(Reason::of(&a.mtu(&foreign).unwrap_err()), Reason::Address);
    let mut short = Received::new(2, b.slot() - 1);
    let error = b.recv(&mut short).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EINVAL as i32), "slots that are too short");
    assert_eq!(a.send(&b.local(), Frames::new(&[], &[]).unwrap()).unwrap(), 0);
    await_nothing(b, Duration::from_millis(20));
}
