use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

use crate::testing::{receive, send, Pair};

/// What a hook does first; `None`: the long way.
fn quick(c: Channel, n: usize) -> Option<usize> {
    let mut bytes = vec![0; n];
    let mut w = Walk::one(bytes.as_mut_ptr(), n);
    c.quick_receive(fdtable::settled(c.fd), &mut w)
}

/// W16: a short receive means that nothing is left. An epoll set asks at the same time what is ready, and follows the sender
/// as soon as the ring is empty; the receive has to find out all the same that the stream goes on over TCP. A program on
/// tokio stood still otherwise: it was told of those bytes before, and of each edge once.
#[test]
fn a_receive_is_short_only_where_nothing_is_left_whoever_else_follows_the_sender() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                from.has_news(&from.receiving());
            }
        });
        let mut short = Vec::new();
        for round in 0..ROUNDS {
            // Every other time without a bell, which would have the receive look again.
            if round / 2 % 2 == 0 {
                from.receiving().word.make_hot();
            } else {
                from.receiving().word.make_cold();
            }
            assert_eq!(send(to, b"ring", 0), Ok(4));
            assert_eq!(send(to, b"tcp", libc::MSG_DONTROUTE), Ok(3), "what the kernel alone can do");
            let got = if round % 2 == 0 { quick(from, 100) } else { None };
            let got = got.or_else(|| receive(from, 100).ok().map(|bytes| bytes.len()));
            if got != Some(7) {
                short.push(got);
                let _ = receive(from, 100);
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(short.is_empty(), "{} of {ROUNDS} are short: {:?}", short.len(), short[0]);
    });
}

const ROUNDS: u32 = 100_000;
