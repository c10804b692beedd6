//! kill -9 on either side.

use dpfd::driver::Driver;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;

use crate::kit::*;

pub fn a_killed_sender_leaves_what_it_sent(d: Driver) {
    for round in 0..10u64 {
        let first = numbers(2);
        let b = open(d, first);
        b.pool(256 << 10).expect("a pool");
        let c = child(move || {
            let a = open(d, first + 1);
            a.target(local(first)).expect("a target");
            for i in 0.. {
                a.send(&numbered(i, 8 + (i % 100) as usize)).expect("room");
            }
            true
        });
        let n = 50 + round * 37;
        (0..n).for_each(|i| assert_eq!(recv(&b), numbered(i, 8 + (i % 100) as usize)));
        kill(c.0, Signal::SIGKILL).expect("the sender");
        let _ = waitpid(c.0, None);
        b.set_nonblocking(true).expect("a flag");
        // What it had sent is there, whole and in order; then nothing.
        let mut next = n;
        while let Ok(m) = b.recv() {
            assert_eq!(m.to_vec(), numbered(next, 8 + (next % 100) as usize));
            next += 1;
        }
        until("its edge ends", || b.recv().is_err() && b.stat().edges == 0);
        assert_eq!(b.stat().pool_left, 256 << 10);
        // Its number is free for the next.
        drop(open(d, first + 1));
    }
}

pub fn a_killed_receiver_is_a_missing_target(d: Driver) {
    let first = numbers(2);
    let a = open(d, first);
    a.target(local(first + 1)).expect("a target");
    for round in 0..10u64 {
        let c = child(move || {
            let b = open(d, first + 1);
            let back = b.recv().expect("a message").to_vec();
            b.send_to(&back, local(first)).expect("room");
            loop {
                drop(b.recv());
            }
        });
        // Sent again and again: one that was on its way to the killed one died with it.
        a.set_nonblocking(true).expect("a flag");
        until("an answer", || {
            let _ = a.send(&numbered(round, 64));
            std::thread::sleep(std::time::Duration::from_millis(1));
            a.recv().is_ok_and(|m| number_of(&m.to_vec()) == round)
        });
        kill(c.0, Signal::SIGKILL).expect("the receiver");
        let _ = waitpid(c.0, None);
    }
}
