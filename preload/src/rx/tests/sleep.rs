//! Receives that sleep: over what they were not told of, and for how long.

use super::*;

/// Its sender ended between its token and the bell, or has not seen that it sleeps.
#[test]
fn a_receive_that_sleeps_over_what_it_was_not_told_of_finds_it() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    let lost = || state::family().expect("started").header().lost.load(Ordering::Relaxed);
    let (before, mut room) = (lost(), [1; 10]);
    let began = Instant::now();
    thread::scope(|s| {
        s.spawn(|| {
            while !from.receiving().word.has_sleepers() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            ring::commit(&to.sending().ring(), to.tail().pos, 4, ring::Kind::Data).expect("room");
        });
        assert_eq!(blocking(from, &mut room), Ok(4));
    });
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(lost() > before);
}

/// One that the connection has from its listener, or from before it was known, is the call's as well.
#[test]
fn a_receive_sleeps_for_no_longer_than_its_limit() {
    for ms in [50, 1200] {
        let pair = Pair::live();
        limit(pair.server, ms);
        in_time(ms, 700, || assert_eq!(blocking(pair.server, &mut [0; 10]), Err(libc::EAGAIN)));
    }
}

fn limit(c: Channel, ms: u64) {
    let limit = libc::timeval { tv_sec: (ms / 1000) as i64, tv_usec: (ms % 1000 * 1000) as i64 };
    raw::setsockopt(c.fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit, size_of_val(&limit))
        .expect("a socket");
    c.note_options();
}

/// `f` takes so long, and one time of a few less than `more` longer: a machine that has other work may wake it late.
fn in_time(ms: u64, more: u64, f: impl Fn()) {
    let took = || {
        let began = Instant::now();
        f();
        let took = began.elapsed().as_millis() as u64;
        assert!(took >= ms, "{took} of {ms} ms");
        took
    };
    let mut least = u64::MAX;
    assert!(
        (0..6).any(|_| {
            least = least.min(took());
            least < ms + more
        }),
        "{least} ms, not {ms}"
    );
}

/// On a busy machine the thread runs again when its limit is over and a handler has run as well. The kernel's recv tells of the limit.
#[test]
fn a_receive_whose_limit_is_over_is_told_of_that_whatever_else_has_ended_it() {
    let pair = Pair::live();
    let c = pair.server;
    limit(c, 100);
    // SAFETY: plain data, a handler that does nothing, and a signal to this thread.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = does_nothing as *const () as usize;
        assert_eq!(signals::set(libc::SIGWINCH, &action, core::ptr::null_mut()), 0);
        signals::begin();
        libc::raise(libc::SIGWINCH);
    }
    assert!(signals::came());
    let slept = |ms: u64| {
        let mut sleeps = Sleeps::since(crate::state::now() - ms * 1_000_000);
        sleeps.one_more(&c, false, || panic!("it has slept before"))
    };
    assert_eq!((slept(1000), slept(0)), (Err(libc::EAGAIN), Err(libc::EINTR)));
}

extern "C" fn does_nothing(_: i32) {}

/// Time stamps of what was sent, say, which the program does not take: poll(2) tells of them at once, again and again.
#[test]
fn a_receive_beside_something_in_the_error_queue_sleeps_for_no_longer_than_its_limit() {
    let stamped = |fd| {
        let of = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &of, size_of_val(&of))
            .expect("a socket");
        // SAFETY: a byte.
        assert_eq!(unsafe { raw::send(fd, [1u8].as_ptr(), 1, libc::MSG_NOSIGNAL) }, Ok(1));
    };
    // It comes while the call sleeps: a limit that began anew then would be over 400 ms late.
    in_time(800, 300, || {
        let pair = Pair::live();
        let from = pair.server;
        limit(from, 800);
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(Duration::from_millis(400));
                stamped(from.fd);
            });
            assert_eq!(blocking(from, &mut [0; 10]), Err(libc::EAGAIN));
        });
    });
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    limit(from, 800);
    stamped(from.fd);
    let mut list = [libc::pollfd { fd: from.fd, events: libc::POLLIN, revents: 0 }];
    assert_eq!((raw::poll_now(&mut list), list[0].revents), (Ok(1), libc::POLLERR));
    // It is there before, and what comes is received all the same.
    in_time(800, 700, || assert_eq!(blocking(from, &mut [0; 10]), Err(libc::EAGAIN)));
    limit(from, 20_000);
    thread::scope(|s| {
        s.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(send(to, b"later", 0), Ok(5));
        });
        assert_eq!(blocking(from, &mut [0; 10]), Ok(5));
    });
}
