use super::*;
use crate::{Limits, Mode};

fn key(byte: u8) -> GraphKey {
    GraphKey::from_bytes([byte; 32])
}

#[test]
fn what_cannot_be_is_refused() {
    let new = |here, there, limits| {
        Peer::new(&key(1), Config { limits, ..Config::new(here, there, Mode::Encrypt, 0) }).map(drop)
    };
    let limits = Limits::DEFAULT;
    assert_eq!(new(1, 2, limits), Ok(()));
    for (here, there) in [(0, 1), (1, 0), (1, 1)] {
        assert_eq!(new(here, there, limits), Err(Invalid::Node));
    }
    let wrong = [
        Limits { renew_after: 0, ..limits },
        Limits { end_after: 130_000_000_000, ..limits },
        Limits { renew_frames: 0, ..limits },
        Limits { end_frames: 7, ..limits },
        Limits { retry_first: 0, ..limits },
        Limits { retry_last: 1, ..limits },
    ];
    for limits in wrong {
        assert_eq!(new(1, 2, limits), Err(Invalid::Limits));
    }
}

#[test]
fn keys_are_not_shown() {
    let peer = Peer::new(&key(0xab), Config::new(1, 2, Mode::Encrypt, 0)).unwrap();
    let shown = format!("{peer:?}");
    assert!(!shown.contains("171") && !shown.contains("Secrets"), "{shown}");
}

/// A gateway with thousands of peers keeps them all in memory.
#[test]
fn a_peer_is_small() {
    assert!(size_of::<Peer>() < 8192, "{} bytes", size_of::<Peer>());
}

/// The thread that runs a gateway is not the one that makes it.
#[test]
fn a_peer_can_be_given_to_another_thread() {
    fn can<T: Send>() {}
    can::<Peer>();
}
