use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use dp_edge::sys::raw;

use super::*;

use crate::life;
use crate::testing::{by_kernel, receive, send, Pair};

fn is_in_ring(c: Channel) -> bool {
    in_ring(c.sending().tx.epoch())
}

#[test]
fn the_first_send_goes_into_the_ring_and_one_with_other_flags_over_tcp() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert!(!is_in_ring(to));
    assert_eq!(send(to, b"one", libc::MSG_NOSIGNAL), Ok(3));
    assert!(is_in_ring(to));
    assert_eq!(send(to, b"two", libc::MSG_DONTROUTE), Ok(3), "what the kernel alone can do");
    assert!(!is_in_ring(to) && to.back.load(Ordering::Relaxed) == 1);
    assert_eq!(send(to, b"three", 0), Ok(5), "the receiver has not followed");
    assert!(!is_in_ring(to));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"onetwothree"[..]));
    assert_eq!(send(to, b"four", 0), Ok(4));
    assert!(is_in_ring(to), "it has");
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"four"[..]));
    assert_eq!(receive(from, 100), Err(libc::EAGAIN));
}

#[test]
fn flags_that_a_channel_serves() {
    for bit in (0..31).map(|n| 1 << n) {
        let served = matches!(bit, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR);
        assert_eq!(Call::Send(bit).is_served(), served, "{bit:#x}");
        assert_eq!(Call::Send(bit).is_urgent(), bit == libc::MSG_OOB);
        assert_eq!(Call::Send(bit | libc::MSG_NOSIGNAL).is_served(), served);
    }
    assert!(Call::Send(0).is_served() && !Call::ByKernel.is_served() && !Call::ByKernel.is_urgent());
}

#[test]
fn a_ring_that_is_full_is_handed_back_and_taken_again_when_all_was_read() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let piece = [7; 1000];
    while to.back.load(Ordering::Relaxed) == 0 {
        assert_eq!(send(to, &piece, 0), Ok(piece.len()));
    }
    let sent = to.tx_bytes.load(Ordering::Relaxed);
    assert!((1024..8 * 1024).contains(&sent), "{sent} bytes in rings of 2 and 4 KiB");
    while receive(from, 100_000).is_ok() {}
    assert_eq!(send(to, &piece, 0), Ok(piece.len()));
    assert!(is_in_ring(to));
}

#[test]
fn nothing_goes_into_a_ring_behind_an_own_end_or_an_urgent_byte() {
    for ends in [true, false] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        send(to, b"x", 0).unwrap();
        if ends {
            to.set(Conn::SHUT_WR);
        } else {
            send(to, b"!", libc::MSG_OOB).unwrap();
        }
        let _ = send(to, b"y", 0);
        assert!(!is_in_ring(to));
        while receive(from, 100).is_ok_and(|bytes| !bytes.is_empty()) {}
        let _ = send(to, b"z", 0);
        assert!(!is_in_ring(to), "nor when the receiver has caught up");
    }
}

#[test]
fn what_a_receiver_had_not_read_when_it_left_comes_by_tcp_before_what_follows() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    send(to, b"read", 0).unwrap();
    assert_eq!(receive(from, 4).as_deref(), Ok(&b"read"[..]));
    send(to, b"unread", 0).unwrap();
    assert_eq!(crate::leave::leave(from.fd, Reason::Passed), crate::leave::Left::Rest);
    assert_eq!(send(to, b"after", 0), Ok(5));
    let mut bytes = [0; 100];
    // SAFETY: the buffer.
    let n = unsafe { raw::recv(from.fd, bytes.as_mut_ptr(), bytes.len(), libc::MSG_DONTWAIT) }.unwrap();
    // The bell that told of them may still lie before them; a stranger waits for that to be drained.
    assert_eq!(&bytes[..n], b"unreadafter");
    assert_eq!(to.reason.load(Ordering::Relaxed), Reason::PeerLeft as u32);
}

#[test]
fn errors_that_are_the_calls_alone_are_not_kept_for_the_next() {
    let pair = Pair::new();
    let c = pair.client;
    for e in [libc::EAGAIN, libc::EINTR, libc::EPIPE, libc::EFAULT, libc::ENOMEM] {
        c.keep_error_of_send(e);
        assert_eq!(c.error.load(Ordering::Relaxed), 0, "errno {e}");
    }
    for e in [libc::ECONNRESET, libc::ETIMEDOUT] {
        c.keep_error_of_send(e);
        assert_eq!(c.error.swap(0, Ordering::Relaxed), e as u32);
    }
}

/// I3: what a peer scribbles where the next token goes costs that peer its connection: the send that meets it is no send of nothing,
/// for which a program would try again and again.
#[test]
fn a_send_that_meets_what_its_peer_has_scribbled_is_reset() {
    let pair = Pair::live();
    let to = pair.client;
    assert_eq!(send(to, b"first", 0), Ok(5));
    let tx = to.sending();
    tx.ring().header(to.tail().pos).store(1, Ordering::Relaxed);
    let bytes = *b"second";
    let mut w = Walk::one(bytes.as_ptr().cast_mut(), bytes.len());
    assert_eq!(to.quick_send(fdtable::settled(to.fd), &mut w), None);
    assert_eq!(w.left(), bytes.len(), "what was not sent is still to be sent");
    let frame = 0u8;
    let inside = Inside::enter(to.fd, &frame).expect("a connection");
    let sent = to.send(&inside, &mut w, 0, |_, _| panic!("the kernel gets nothing of it"));
    inside.leave();
    assert_eq!(sent, Err(libc::ECONNRESET));
    assert_eq!(to.stage(), Stage::Plain);
}

/// L8: a send keeps others out but where it waits for room. One whose receiver takes a little again and again waits for room all the
/// time, and the lock is not its own for so long: a shutdown in another thread waits for it.
#[test]
fn a_send_that_waits_for_room_again_and_again_gives_the_lock_to_others() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let message = vec![7u8; 4 << 20];
    let (begun, hurry) = (AtomicBool::new(false), AtomicBool::new(false));
    let waited = std::thread::scope(|s| {
        s.spawn(|| {
            let frame = 0u8;
            let inside = Inside::enter(to.fd, &frame).expect("a connection");
            let mut w = Walk::one(message.as_ptr().cast_mut(), message.len());
            begun.store(true, Ordering::SeqCst);
            assert_eq!(to.send(&inside, &mut w, 0, |w, flags| by_kernel(to, w, flags)), Ok(message.len()));
            inside.leave();
        });
        s.spawn(|| {
            let mut sum = 0;
            while sum < message.len() {
                let hurry = hurry.load(Ordering::SeqCst);
                sum += receive(from, if hurry { 1 << 20 } else { 100 }).map_or(0, |bytes| bytes.len());
                if !hurry {
                    raw::nap(100_000);
                }
            }
        });
        while !begun.load(Ordering::SeqCst) {
            raw::nap(1_000_000);
        }
        raw::nap(20_000_000);
        let (tell, told) = mpsc::channel();
        s.spawn(move || {
            let _ = to.as_sender(|| ());
            tell.send(())
        });
        // All of it would take four seconds at least.
        let waited = told.recv_timeout(Duration::from_secs(2));
        hurry.store(true, Ordering::SeqCst);
        waited
    });
    assert_eq!(waited, Ok(()));
}

/// A sender ends, with its thread or its process, between a bell and its count: whoever inherits its lock counts that one, also where
/// the other end has shut down by then, as one that has sent its request does.
#[test]
fn a_bell_that_a_sender_had_sent_when_it_ended_is_counted() {
    for is_shut in [false, true] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        assert_eq!(send(to, b"first", 0), Ok(5));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN), "and its bell is taken");
        if is_shut {
            // SAFETY: a number.
            assert_eq!(unsafe { libc::shutdown(from.fd, libc::SHUT_WR) }, 0);
        }
        let ends = || {
            assert!(to.tx_lock.try_lock(state::me()));
            assert!(to.sending().word.count_bell());
            // SAFETY: a byte.
            assert_eq!(unsafe { raw::send(to.fd, &b'!', 1, libc::MSG_DONTWAIT) }, Ok(1));
        };
        std::thread::scope(|scope| scope.spawn(ends).join().expect("a bell"));
        assert_eq!(send(to, b"by TCP", libc::MSG_DONTROUTE), Ok(6));
        assert_eq!(receive(from, 100), Ok(b"by TCP".to_vec()), "{is_shut}");
    }
}

/// A sender ends with a token published whose place it has not kept, while another thread closes one of the connection's two numbers: who
/// finds that out by this number leaves it to the next one, whose own token would be put over the other.
#[test]
fn what_a_sender_left_half_done_is_mended_by_whoever_may_go_on() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    let copy = copy_of(to);
    let ends = || {
        assert!(to.tx_lock.try_lock(state::me()));
        let (tx, mut tail) = (to.sending(), to.tail());
        let mut w = Walk::one(b"half done".as_ptr().cast_mut(), 9);
        assert_eq!(stream::push(&tx.ring(), &mut tail, &tx.rx.cursor, &mut w).ok(), Some(9));
    };
    std::thread::scope(|scope| scope.spawn(ends).join().expect("room"));
    let word = fdtable::change(to.fd).expect("a connection");
    assert_eq!(to.as_sender(|| ()), None, "by a number that is being closed");
    assert!(!fdtable::drop_ref(fdtable::conn_of(word).expect("a connection")));
    fdtable::changed(to.fd, word);
    assert_eq!(send(to.by(copy), b", and more", 0), Ok(10));
    let mut got = Vec::new();
    while let Ok(bytes) = receive(from, 100) {
        got.extend(bytes);
    }
    assert_eq!(got, b"half done, and more");
    fdtable::clear(copy);
    raw::close(copy);
}

/// A further number for a connection.
fn copy_of(c: Channel) -> i32 {
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(c.fd, libc::F_DUPFD_CLOEXEC, 3) };
    life::copied(c.fd, copy, life::copying(c.fd));
    copy
}

/// What must end loudly does so also where the call's own number is being closed by another thread, and there is another one.
#[test]
fn a_connection_is_reset_by_another_number_where_its_own_is_another_file_by_now() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let copy = copy_of(to);
    let [near, far] = raw::socket_pair().expect("a pair");
    // SAFETY: numbers.
    assert_eq!(life::in_one_step(to.fd, None, || unsafe { libc::dup2(near, to.fd) }), to.fd);
    to.reset_by(Reason::Corrupt);
    assert!(tcp::peer(copy).is_none(), "it goes on without what is missing");
    assert_eq!(receive(from, 100), Err(libc::ECONNRESET));
    fdtable::clear(copy);
    [copy, near, far].into_iter().for_each(raw::close);
}

/// A tail that the kernel holds back for what comes behind it (MSG_MORE, splice) goes before that comes in the ring: no byte of TCP's
/// would push it there.
#[test]
fn what_the_kernel_holds_back_for_more_goes_before_the_ring() {
    let waits = || {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        // Nobody is to be rung for.
        assert!(from.receiving().word.make_hot());
        assert_eq!(send(to, b"over TCP, ", libc::MSG_DONTROUTE | libc::MSG_MORE), Ok(10));
        assert_eq!(send(to, b"in the ring", 0), Ok(11));
        assert!(is_in_ring(to));
        let (mut got, began) = (Vec::new(), Instant::now());
        while got.len() < 21 && began.elapsed() < Duration::from_secs(10) {
            got.extend(receive(from, 100).unwrap_or_default());
        }
        assert_eq!(got, b"over TCP, in the ring");
        began.elapsed()
    };
    // The kernel's own time is 40 ms at least; a busy machine may take as long once.
    let waited = (0..10).map(|_| waits()).min();
    assert!(waited < Some(Duration::from_millis(30)), "{waited:?}");
}

/// W14, where another thread has made it a channel between the look at the stage and the kernel's call.
#[test]
fn what_holds_bells_back_is_put_back() {
    let pair = Pair::live();
    let c = pair.client;
    let get = |name| raw::getsockopt_int(c.fd, libc::IPPROTO_TCP, name);
    for (name, flag, ours) in [(libc::TCP_NODELAY, Conn::NODELAY, 1), (libc::TCP_CORK, Conn::CORK, 0)] {
        for theirs in [1, 0, 1] {
            let _ = raw::setsockopt_int(c.fd, libc::IPPROTO_TCP, name, theirs);
            c.holds_nothing_back(name, theirs != 0);
            assert_eq!((get(name), c.has(flag)), (Ok(ours), theirs != 0));
        }
    }
}

/// A ring that is full in the middle of a message is no place to cut it: TCP has room, and others wait until the rest is there.
#[test]
fn the_rest_of_a_message_that_the_ring_took_in_part_comes_before_what_others_send() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let message: Vec<u8> = (0..6000).map(|n| n as u8).collect();
    let (frame, calls) = (0u8, Cell::new(0));
    std::thread::scope(|s| {
        let (tell, told) = mpsc::channel();
        let kernel = |w: &Walk, flags: i32| {
            calls.set(calls.get() + 1);
            if calls.get() == 1 {
                let tell = tell.clone();
                s.spawn(move || tell.send(send(to, b"another's", 0)));
                // As long as that may take; it is not over where it waits for this one.
                let _ = told.recv_timeout(Duration::from_millis(100));
            }
            by_kernel(to, w, flags)
        };
        let inside = Inside::enter(to.fd, &frame).expect("a connection");
        let mut w = Walk::one(message.as_ptr().cast_mut(), message.len());
        assert_eq!(to.send(&inside, &mut w, 0, kernel), Ok(message.len()));
        inside.leave();
    });
    assert!((1..message.len() as u64).contains(&to.tx_bytes.load(Ordering::Relaxed)), "the ring took a part");
    let all = [&message[..], b"another's"].concat();
    let mut got = Vec::new();
    while got.len() < all.len() {
        got.extend(receive(from, 10_000).unwrap_or_default());
    }
    assert!(
        got == all,
        "{} of its bytes came first",
        got.iter().zip(&all).take_while(|(a, b)| a == b).count()
    );
    assert_eq!(calls.get(), 1, "nothing had to wait");
}

/// EPIPE comes with SIGPIPE, which only the kernel's own call brings: it is not kept where what a receiver had not read goes onto TCP, and
/// the kernel says it again.
#[test]
fn a_broken_pipe_is_told_by_the_kernel() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"unread", 0), Ok(6));
    from.receiving().word.leave_raw(false);
    // SAFETY: a number.
    assert_eq!(unsafe { libc::shutdown(to.fd, libc::SHUT_WR) }, 0);
    assert!(is_in_ring(to) && !to.has(Conn::SHUT_WR), "past the shim");
    let asked = Cell::new(false);
    let frame = 0u8;
    let inside = Inside::enter(to.fd, &frame).expect("a connection");
    let mut w = Walk::one(b"more".as_ptr().cast_mut(), 4);
    let sent = to.send(&inside, &mut w, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, |w, flags| {
        asked.set(true);
        by_kernel(to, w, flags)
    });
    inside.leave();
    assert_eq!((sent, asked.get()), (Err(libc::EPIPE), true));
}

extern "C" fn does_nothing(_: i32) {}

/// A handler that runs while a blocking send looks for room in its ring is none that came before the call: where the kernel has no room
/// for all of it either, it ends the wait, as does one with SA_RESTART where there is a time limit.
#[test]
fn a_handler_that_runs_while_a_send_looks_for_room_ends_it() {
    for (flags, limit) in [(0, 0), (libc::SA_RESTART, 10)] {
        // A thread that does not come to run while the send looks has nothing to say.
        let interrupted = (0..50).any(|_| interrupts_a_look(flags, limit));
        assert!(interrupted, "{flags:#x}: no signal came while a send looked");
    }
}

/// Whether the signal came while the send looked for room, which it then ended.
fn interrupts_a_look(flags: i32, limit: i64) -> bool {
    let message = vec![7u8; 16 << 20];
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let limit = libc::timeval { tv_sec: limit, tv_usec: 0 };
    // SAFETY: plain data, and a handler that does nothing.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (does_nothing as *const () as usize, flags);
        assert_eq!(signals::set(libc::SIGUSR1, &action, core::ptr::null_mut()), 0);
    }
    raw::setsockopt(to.fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &limit, size_of_val(&limit)).unwrap();
    assert_eq!(send(to, b"into the ring", 0), Ok(13));
    let quick = || to.quick_send(fdtable::settled(to.fd), &mut Walk::one(message.as_ptr().cast_mut(), 100));
    while quick().is_some() {}
    let (asks_kernel, came, over) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    // SAFETY: no arguments.
    let sender = unsafe { libc::pthread_self() };
    let (sent, hung) = std::thread::scope(|s| {
        let other = s.spawn(|| {
            // It has the lock while it looks.
            while to.tx_lock.try_lock(state::me()) {
                to.tx_lock.unlock();
                if asks_kernel.load(Ordering::SeqCst) {
                    break;
                }
                core::hint::spin_loop();
            }
            // SAFETY: a thread that waits for this one.
            assert_eq!(unsafe { libc::pthread_kill(sender, libc::SIGUSR1) }, 0);
            came.store(!asks_kernel.load(Ordering::SeqCst), Ordering::SeqCst);
            let began = Instant::now();
            while !over.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(5) {
                raw::nap(1_000_000);
            }
            // Against a wait without end.
            let hung = !over.load(Ordering::SeqCst);
            while !over.load(Ordering::SeqCst) {
                let _ = receive(from, 1 << 20);
            }
            hung
        });
        let frame = 0u8;
        let inside = Inside::enter(to.fd, &frame).expect("a connection");
        let mut w = Walk::one(message.as_ptr().cast_mut(), message.len());
        let sent = to.send(&inside, &mut w, 0, |w, flags| {
            asks_kernel.store(true, Ordering::SeqCst);
            by_kernel(to, w, flags)
        });
        inside.leave();
        over.store(true, Ordering::SeqCst);
        (sent, other.join().expect("the other thread"))
    });
    if !came.load(Ordering::SeqCst) {
        return false;
    }
    assert!(!hung, "{flags:#x}: {sent:?}, and the handler was slept through");
    assert!(sent == Err(libc::EINTR) || sent.is_ok_and(|n| n < message.len()), "{sent:?}");
    true
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize, bool),
    Receive(usize),
    Settle(bool),
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let step = prop_oneof![
        5 => (1usize..3000, prop::bool::weighted(0.2)).prop_map(|(n, unserved)| Step::Send(n, unserved)),
        5 => (1usize..5000).prop_map(Step::Receive),
        1 => any::<bool>().prop_map(Step::Settle),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec((any::<bool>(), step), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever sends by ring and by TCP, full rings, switches and receives of any length come in between.
    #[test]
    fn bytes_arrive_once_and_in_order(steps in steps()) {
        let pair = Pair::live();
        let ends = [pair.client, pair.server];
        // On their way to each end; the next byte of each stream.
        let mut way = [VecDeque::new(), VecDeque::new()];
        let mut next = [0u8; 2];
        let check = |way: &mut VecDeque<u8>, got: Vec<u8>| -> Result<(), TestCaseError> {
            let sent: Vec<u8> = way.drain(..got.len().min(way.len())).collect();
            prop_assert_eq!(got, sent);
            Ok(())
        };
        for (side, step) in steps {
            let (here, there) = (usize::from(side), usize::from(!side));
            match step {
                Step::Send(n, unserved) => {
                    let bytes: Vec<u8> = (0..n).map(|k| next[here].wrapping_add(k as u8)).collect();
                    let flags = if unserved { libc::MSG_DONTROUTE } else { 0 };
                    match send(ends[here], &bytes, flags) {
                        Ok(sent) => {
                            next[here] = next[here].wrapping_add(sent as u8);
                            way[there].extend(&bytes[..sent]);
                        }
                        Err(e) => {
                            prop_assert_eq!(e, libc::EAGAIN);
                        }
                    }
                }
                Step::Receive(n) => match receive(ends[here], n) {
                    Ok(got) => check(&mut way[here], got)?,
                    Err(e) => {
                        prop_assert_eq!(e, libc::EAGAIN);
                    }
                },
                Step::Settle(arm) => {
                    ends[here].settle(arm);
                }
                // A thread that looked for long, and then sleeps.
                Step::Forget => {
                    ends[here].receiving().word.make_cold();
                }
            }
        }
        for here in 0..2 {
            // TCP may take a moment.
            for _ in 0..1000 {
                match receive(ends[here], 10_000) {
                    Ok(got) => check(&mut way[here], got)?,
                    Err(_) if way[here].is_empty() => break,
                    Err(_) => raw::nap(100_000),
                }
            }
            prop_assert!(way[here].is_empty(), "{} bytes did not come", way[here].len());
            prop_assert_eq!(ends[here].stage(), Stage::Live);
        }
    }
}

/// A late server asked for a longer ring, and its slot is another connection's: the client has given that ring back, and somebody else
/// has it.
#[test]
fn a_ring_that_was_asked_for_in_a_slot_of_anothers_is_not_given_back_twice() {
    for has_left in [false, true] {
        let pair = Pair::live_with(256);
        let late = pair.server;
        let (tx, slot) = (late.sending(), late.slot().expect("a slot"));
        let spares = tx.spares().expect("some");
        let ring = spares.claim().expect("one");
        late.claimed.store(ring, Ordering::SeqCst);
        late.set(Conn::OUTGROWN);
        tx.tx.ask(ring);
        if has_left {
            // The slot's next connection.
            spares.give_back(tx.tx.wants());
            tx.tx.reset();
            let generation = slot.offer(&dp_channel::slot::Tuple::default(), 1, 1, 1);
            assert!(slot.accept(generation) && slot.confirm(generation));
            assert_eq!(spares.claim(), Some(ring));
        }
        assert!(late.as_sender(|| late.drop_claim(&late.sending())).is_some());
        assert_eq!(spares.claim() == Some(ring), !has_left);
        assert!(!late.has(Conn::OUTGROWN) && late.claimed.load(Ordering::SeqCst) == 0);
    }
}

/// A hostile client says that the slot is another connection's, and then that it is not.
#[test]
fn what_stands_in_for_a_slot_of_anothers_never_becomes_a_ring() {
    let pair = Pair::live();
    let c = pair.server;
    let generation = c.generation.load(Ordering::Relaxed);
    c.generation.store(generation + 1, Ordering::Relaxed);
    let nobodys = c.sending();
    c.generation.store(generation, Ordering::Relaxed);
    assert!(nobodys.is_nobodys() && !c.sending().is_nobodys());
    assert!(!c.goes_to_ring(&nobodys) && !in_ring(nobodys.tx.epoch()));
    assert!(c.goes_to_ring(&c.sending()) && is_in_ring(c));
}
