//! Pieces that are sent as one message: what they are together, and no more than that.

use std::io::IoSlice;
use std::thread;

use dpfd::driver::Driver;
use dpfd::{Endpoint, Parts};

use crate::kit::*;

/// Cuts a message into pieces: of lengths that change from one to the next, some of them empty.
fn cut(message: &[u8]) -> Vec<IoSlice<'_>> {
    let (mut rest, mut pieces) = (message, vec![IoSlice::new(&[])]);
    for i in 0.. {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at((message.len() / 7 + i % 3).clamp(1, rest.len()));
        pieces.extend([IoSlice::new(piece), IoSlice::new(&[])]);
        rest = behind;
    }
    pieces
}

fn send(e: &Endpoint, message: &[u8]) {
    e.send_vectored(&cut(message)).unwrap_or_else(|error| panic!("{} bytes: {error}", message.len()));
}

pub fn pieces_are_one_message(d: Driver) {
    let (a, b) = pair(d);
    for i in 0..200u64 {
        let message = numbered(i, 8 + (i * 13 % 900) as usize);
        send(&a, &message);
        a.send(b"between").expect("room");
        assert_eq!((recv(&b), recv(&b)), (message, b"between".to_vec()), "message {i}");
    }
    a.send_vectored(&[]).expect("room");
    a.send_vectored(&[IoSlice::new(&[]), IoSlice::new(&[])]).expect("room");
    assert_eq!((recv(&b).len(), recv(&b).len()), (0, 0));
    a.send_parts_to(Parts::new(&[IoSlice::new(b"to "), IoSlice::new(b"oneself")]), a.addr()).expect("room");
    assert_eq!(recv(&a), b"to oneself");
}

pub fn pieces_around_the_limits(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    for limit in [56, 64, 4088, 32_704, 32_768, 65_536, 131_072, 212_944, 212_960, 300_000] {
        for len in limit - 2..=limit + 2 {
            send(&a, &numbered(len as u64, len));
            assert!(recv(&b) == numbered(len as u64, len), "{len} bytes");
        }
    }
    let most = numbered(1, 16 << 20);
    let sender = thread::spawn(move || {
        send(&a, &most);
        a
    });
    assert!(recv(&b) == numbered(1, 16 << 20));
    drop(sender.join().expect("the sender"));
}

pub fn pieces_for_whoever_reads_plainly(d: Driver) {
    let (a, b) = pair(d);
    for i in 0..100u64 {
        let message = numbered(i, 8 + (i * 613 % 60_000) as usize);
        send(&a, &message);
        assert!(read(&b) == message, "message {i}");
    }
}

pub fn pieces_for_nobody_yet(d: Driver) {
    let first = numbers(2);
    let a = open(d, first);
    let long = numbered(2, 1 << 20);
    for message in [&numbered(1, 100), &long] {
        a.send_parts_to(Parts::new(&cut(message)), local(first + 1)).expect("it waits elsewhere");
    }
    let b = open(d, first + 1);
    assert!(recv(&b) == numbered(1, 100) && recv(&b) == long);
}

pub fn pieces_wait_for_room(d: Driver) {
    let (a, b) = pooled(d, 16 << 10);
    a.set_nonblocking(true).expect("a flag");
    let mut sent = 0;
    while a.send_vectored(&cut(&numbered(sent, 900))).map_err(|e| assert!(is_would_block(&e), "{e}")).is_ok()
    {
        sent += 1;
    }
    a.set_nonblocking(false).expect("a flag");
    let sender = thread::spawn(move || {
        (sent..sent + 500).for_each(|i| send(&a, &numbered(i, 900)));
        a
    });
    (0..sent + 500).for_each(|i| assert_eq!(recv(&b), numbered(i, 900), "message {i} after {sent}"));
    drop(sender.join().expect("the sender"));
}

pub fn too_many_pieces_and_too_many_bytes(d: Driver) {
    let (a, b) = pair(d);
    let byte = [IoSlice::new(b"x"); 1025];
    a.send_vectored(&byte[..1024]).expect("as many as writev(2) takes");
    let error = a.send_vectored(&byte).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("1025") && error.to_string().contains("1024"), "{error}");
    let much = vec![0; 6 << 20];
    let error = a.send_vectored(&[IoSlice::new(&much); 3]).unwrap_err();
    assert_eq!(error.errno(), libc::EMSGSIZE);
    assert!(error.to_string().contains("18874368"), "{error}");
    a.send(b"nothing of these").expect("room");
    assert_eq!((recv(&b), recv(&b)), (vec![b'x'; 1024], b"nothing of these".to_vec()));
}

pub fn a_plain_writev_is_one_message(d: Driver) {
    use std::io::Write;
    let (a, b) = pair(d);
    for i in 0..50u64 {
        let message = numbered(i, 8 + (i * 97 % 5000) as usize);
        assert_eq!(file(&a).write_vectored(&cut(&message)).expect("room"), message.len());
        assert_eq!(if i < 25 { read(&b) } else { recv(&b) }, message);
    }
}
