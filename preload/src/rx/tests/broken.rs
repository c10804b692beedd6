//! Connections that end by an error, of the peer's making or not.

use super::*;

/// On TCP whatever call comes next is told of it; a ring with room knows of no error.
#[test]
fn an_error_behind_bytes_is_told_to_a_send_that_comes_next() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let quick = || from.quick_send(fdtable::settled(from.fd), &mut Walk::one(b"more".as_ptr().cast_mut(), 4));
    assert_eq!(send(from, b"unread", 0), Ok(6));
    assert_eq!(send(to, b"a part", 0), Ok(6));
    assert_eq!(quick(), Some(4));
    tcp::disconnect(to.fd);
    let (frame, mut room) = (0u8, [0; 10]);
    let inside = Inside::enter(from.fd, &frame).expect("a connection");
    let got = from
        .receive(&inside, &mut Walk::one(room.as_mut_ptr(), 10), libc::MSG_WAITALL, &|_, _| panic!("a part"));
    inside.leave();
    assert_eq!(got, Ok(6));
    assert_eq!(quick(), None);
    assert_eq!(send(from, b"more", 0), Err(libc::ECONNRESET));
}

/// W11: where the end took bytes with it before which the ring does not begin, that is a reset, which is told once.
#[test]
fn bytes_that_the_end_took_with_it_are_a_reset_that_is_told_once() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"here", libc::MSG_DONTROUTE), Ok(4));
    let out = to.sending();
    assert!(out.tx.to_ring(out.rx, 4 + 10), "ten bytes that never come");
    // SAFETY: a number.
    assert_eq!(unsafe { libc::shutdown(to.fd, libc::SHUT_WR) }, 0);
    assert_eq!(receive(from, 100), Ok(b"here".to_vec()));
    assert_eq!(receive(from, 100), Err(libc::ECONNRESET));
    assert_eq!(from.stage(), Stage::Plain, "what it says from now on, the kernel says");
}

/// I3: what no honest peer leaves where the cursor is, a token of no bytes or a cursor behind a token's last one, ends the connection
/// and not the time of whoever looks there: each look that takes nothing would find it again.
#[test]
fn a_peek_at_a_token_of_no_bytes_ends() {
    for (at_end, n, flags) in [
        (false, 1, libc::MSG_PEEK),
        (true, 1, libc::MSG_PEEK),
        (false, 0, 0),
        (true, 0, 0),
        (false, 100, libc::MSG_PEEK | libc::MSG_TRUNC),
    ] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        assert_eq!(send(to, b"four", 0), Ok(4));
        let out = to.sending();
        if at_end {
            let at = Cursor { off: 4, ..Cursor::unpack(out.rx.cursor.load(Ordering::Relaxed)) };
            out.rx.cursor.store(at.pack(), Ordering::Relaxed);
        } else {
            assert_eq!(receive(from, 100).as_deref(), Ok(&b"four"[..]));
            ring::commit(&out.ring(), to.tail().pos, 0, ring::Kind::Data).expect("nothing is there");
        }
        let (tell, told) = mpsc::channel();
        // It would outlive a test that has failed.
        thread::spawn(move || {
            let (frame, mut room) = (0u8, [0u8; 100]);
            let inside = Inside::enter(from.fd, &frame).expect("a connection");
            let mut w = Walk::one(room.as_mut_ptr(), n);
            let got = from
                .receive(&inside, &mut w, flags | libc::MSG_DONTWAIT, &|_, _| panic!("it is not to sleep"));
            inside.leave();
            tell.send(got)
        });
        let got = told.recv_timeout(Duration::from_secs(1));
        assert_eq!(got, Ok(Err(libc::ECONNRESET)), "{at_end} {n} {flags:#x}");
        assert_eq!(from.stage(), Stage::Plain);
    }
}
