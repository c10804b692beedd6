//! Bells: whom they tell, who takes them, and how they are counted.

use super::*;

/// A receiver's thread takes a bell off the socket, and ends before it has counted that.
fn takes_a_bell(from: Channel) {
    assert!(from.rx_lock.try_lock(state::me()));
    from.begin_drain();
    let mut bell = 0u8;
    // SAFETY: a byte.
    assert_eq!(unsafe { raw::recv(from.fd, &mut bell, 1, libc::MSG_DONTWAIT) }, Ok(1));
}

/// A sleeper on a connection that is hot is told of each message that another thread does not take: who takes one asks for a new
/// bell.
#[test]
fn a_sleeper_is_told_again_when_another_thread_took_the_bell() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let word = from.receiving().word;
    assert!(word.make_hot());
    word.sleep();
    for _ in 0..3 {
        assert_eq!(send(to, b"message", 0), Ok(7));
        assert_eq!(raw::queued(from.fd), Ok(1), "a bell");
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
    }
    word.awake();
}

/// A bell that tells a set which sleeps stays until the set is awake, whoever takes the message.
#[test]
fn the_bell_of_a_set_that_sleeps_is_left_to_it() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let group = &from.my_groups()[0];
    assert!(from.receiving().word.heat_group(1));
    for _ in 0..3 {
        group.doze(dp_channel::bell::BY_BELL);
        assert_eq!(send(to, b"message", 0), Ok(7));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
        assert_eq!(raw::queued(from.fd), Ok(1), "it is still there");
        group.wake();
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
        assert_eq!(raw::queued(from.fd), Ok(0));
    }
}

/// A peer that says for ever that a set of ours sleeps, with one bell left there, costs no processor.
#[test]
fn a_receive_beside_a_bell_that_nobody_takes_rests() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert!(from.receiving().word.heat_group(1));
    from.my_groups()[0].doze(dp_channel::bell::BY_BELL);
    assert_eq!(send(to, b"message", 0), Ok(7));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
    let (me, mut room) = (state::tid(), [0; 10]);
    let (before, began) = (rests(me), Instant::now());
    thread::scope(|s| {
        s.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            // A machine that has other work lets it rest less often.
            while rests(me) - before < 20 && began.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(send(to, b"another", 0), Ok(7));
        });
        assert_eq!(blocking(from, &mut room), Ok(7));
    });
    let (rests, ms) = (rests(me) - before, began.elapsed().as_millis());
    assert!((20..2 * ms).contains(&rests), "{rests} rests in {ms} ms");
}

/// How often that thread has slept.
fn rests(tid: u32) -> u128 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).expect("a thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a kernel that counts").trim().parse().expect("a number")
}

/// A receiver ends, with its thread or its process, between a bell's arrival and its count: whoever comes next takes that bell for
/// drained, and no byte of what comes on TCP afterwards for one.
#[test]
fn a_bell_that_a_receiver_took_before_it_ended_is_counted() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    // Both are in the ring afterwards.
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    for turn in 0..3 {
        assert!(!from.bells_out(&from.receiving()));
        assert_eq!(send(to, b"message", 0), Ok(7));
        let ends = || {
            takes_a_bell(from);
            // The position may have been counted already.
            if turn == 1 {
                from.rx_kernel.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| scope.spawn(ends).join().expect("a bell"));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        assert!(!from.bells_out(&from.receiving()), "{} drained", from.drained.load(Ordering::Relaxed));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
    }
    assert_eq!(send(to, b"by TCP", libc::MSG_DONTROUTE), Ok(6));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"by TCP"[..]));
}

/// The same where one of the two has shut down, as after a request.
#[test]
fn a_bell_that_a_receiver_took_before_it_ended_is_counted_after_a_half_close() {
    for sender in [true, false] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        assert_eq!(send(to, b"first", 0), Ok(5));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
        assert_eq!(send(to, b"message", 0), Ok(7));
        // SAFETY: a number.
        assert_eq!(unsafe { libc::shutdown(if sender { to.fd } else { from.fd }, libc::SHUT_WR) }, 0);
        thread::scope(|scope| scope.spawn(|| takes_a_bell(from)).join().expect("a bell"));
        assert_eq!(from.as_receiver(|| from.bells_out(&from.receiving())), Some(false), "{sender}");
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        if sender {
            assert_eq!(receive(from, 100), Ok(vec![]));
        } else {
            assert_eq!(send(to, b"by TCP", libc::MSG_DONTROUTE), Ok(6));
            assert_eq!(receive(from, 100).as_deref(), Ok(&b"by TCP"[..]));
        }
    }
}

/// The same where somebody finds that out by a number which another thread is about to close: it is the next one's to count.
#[test]
fn a_bell_that_a_receiver_took_before_it_ended_is_counted_by_whoever_may() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(from.fd, libc::F_DUPFD_CLOEXEC, 3) };
    life::copied(from.fd, copy, life::copying(from.fd));
    assert_eq!(send(to, b"message", 0), Ok(7));
    thread::scope(|scope| scope.spawn(|| takes_a_bell(from)).join().expect("a bell"));
    let word = fdtable::change(from.fd).expect("a connection");
    assert_eq!(from.as_receiver(|| ()), None, "by a number that is being closed");
    assert!(!fdtable::drop_ref(fdtable::conn_of(word).expect("a connection")));
    fdtable::changed(from.fd, word);
    let from = from.by(copy);
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
    assert_eq!(send(to, b"by TCP", libc::MSG_DONTROUTE), Ok(6));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"by TCP"[..]), "and no byte of it for a bell");
    fdtable::clear(copy);
    raw::close(copy);
}

/// A number that a poll has looked up is closed by another thread, and stands for something else: the bells that were counted are none
/// of the bytes that lie there.
#[test]
fn bells_are_not_taken_from_what_has_the_number_by_now() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    assert_eq!(from.settle(true), Settled::Quiet);
    assert!(to.sending().word.count_bell());
    // Another number keeps the connection what it is.
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(from.fd, libc::F_DUPFD_CLOEXEC, 3) };
    life::copied(from.fd, copy, life::copying(from.fd));
    let [near, far] = raw::socket_pair().expect("a pair");
    let byte = b'x';
    // SAFETY: a byte.
    assert_eq!(unsafe { raw::send(far, &byte, 1, 0) }, Ok(1));
    let put = || {
        // SAFETY: numbers.
        unsafe { libc::dup2(near, from.fd) }
    };
    assert_eq!(life::in_one_step(from.fd, None, put), from.fd);
    assert_eq!(from.settle(true), Settled::Busy);
    assert_eq!(raw::queued(near), Ok(1));
    fdtable::clear(copy);
    [copy, near, far].into_iter().for_each(raw::close);
}
