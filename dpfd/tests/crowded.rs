//! A sender for whom the pool has no edge left goes through the descriptor: whole, too.

use std::time::{Duration, Instant};

use dpfd::{Endpoint, Error};

#[test]
fn messages_through_the_descriptor_are_whole_whenever_they_come() {
    std::env::set_var(
        "DP_RUNTIME_DIR",
        std::env::temp_dir().join(format!("dp-crowd-{}", std::process::id())),
    );
    let receiver = Endpoint::open(7001).unwrap();
    receiver.pool(4096).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let to = receiver.addr();
    let next = |end: Instant| loop {
        match receiver.recv() {
            Ok(message) => return message.to_vec(),
            Err(Error::WouldBlock) => assert!(Instant::now() < end, "a message is missing"),
            Err(e) => panic!("{e}"),
        }
    };
    // The first sender has the only edge.
    let first = Endpoint::open(0).unwrap();
    first.send_to(b"first", to).unwrap();
    assert_eq!(next(Instant::now() + Duration::from_secs(10)), b"first");

    let seconds = 3;
    let end = Instant::now() + Duration::from_secs(seconds);
    let length = |i: usize| i * 7919 % 1000;
    std::thread::scope(|s| {
        let sender = s.spawn(move || {
            let second = Endpoint::open(0).unwrap();
            // The receiver may have given up.
            second.set_nonblocking(true).unwrap();
            let send = |message: &[u8]| {
                while let Err(Error::WouldBlock) = second.send_to(message, to) {
                    assert!(Instant::now() < end + Duration::from_secs(10), "no room");
                    std::thread::yield_now();
                }
            };
            let mut sent = 0;
            while Instant::now() < end {
                send(&vec![sent as u8; length(sent)]);
                sent += 1;
                // The receiver is to find nothing, now and then.
                (0..sent % 64).for_each(|_| std::hint::spin_loop());
            }
            send(&[0; 2000]);
            sent
        });
        let mut got = 0;
        loop {
            let message = next(end + Duration::from_secs(10));
            if message.len() == 2000 {
                break;
            }
            assert_eq!(message.len(), length(got), "message {got}");
            assert!(message.iter().all(|b| *b == got as u8), "message {got}");
            got += 1;
        }
        assert_eq!(got, sender.join().unwrap());
    });
}
