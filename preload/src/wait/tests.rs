use core::sync::atomic::Ordering;

use super::slept::Slept;
use super::*;
use crate::channel::Channel;
use crate::testing::{moved_and_back, Pair};

fn list(fd: i32) -> [pollfd; 1] {
    [pollfd { fd, events: libc::POLLIN, revents: 0 }]
}

type Kernel = fn(&mut [pollfd], i64) -> Result<i32, i32>;

/// A poll of this list has said that it sleeps; and whether there is something new.
fn arm<'a>(c: Channel, fds: &[pollfd], flight: Option<&'a Flight>) -> (Ground<'a, Kernel>, bool) {
    const NEVER: Kernel = |_, _| panic!("it is not to sleep");
    let mut w = Ground::new(c.family, flight, &NEVER);
    w.slept.begin(None, fds.len());
    let news = poll::arm(fds, &mut w);
    (w, news)
}

/// Another thread looks whether the connection can become a channel, and finds that it cannot.
#[test]
fn a_poll_beside_a_receive_that_keeps_a_connection_from_becoming_a_channel_is_counted() {
    let pair = Pair::new();
    let c = pair.server;
    let fds = list(c.fd);
    let (flight, moved) = moved_and_back(c, || Flight::begin(&fds));
    assert!(!moved && c.rx_flight.load(Ordering::SeqCst) == 1);
    // Looked at once more, it is moved again; its word is not asked, which is no channel's.
    c.set_stage(Stage::Accepted);
    let (w, news) = arm(c, &fds, Some(&flight));
    assert!(!news && w.slept.count() == 0);
    c.set_stage(Stage::Candidate);
    flight.end();
    assert_eq!(c.rx_flight.load(Ordering::SeqCst), 0);
}

#[test]
fn a_poll_counts_no_channel() {
    let pair = Pair::live();
    let (flight, moved) = Flight::begin(&list(pair.server.fd));
    assert!(!moved && !flight.has(0, fdtable::word(pair.server.fd)));
    let accepted = Pair::new();
    accepted.server.set_stage(Stage::Accepted);
    let (flight, moved) = Flight::begin(&list(accepted.server.fd));
    assert!(moved && !flight.has(0, fdtable::word(accepted.server.fd)));
    assert_eq!(accepted.server.rx_flight.load(Ordering::SeqCst), 0);
}

/// Another thread closes the connection, and a relative has another one in its entry.
#[test]
fn a_poll_that_is_over_counts_nothing_off_a_relatives_connection() {
    let pair = Pair::new();
    let c = pair.server;
    let (flight, _) = Flight::begin(&list(c.fd));
    let relative = 200;
    c.family.holders(c.conn).begin(relative);
    c.rx_flight.store(1, Ordering::SeqCst);
    flight.end();
    assert_eq!(c.rx_flight.load(Ordering::SeqCst), 1, "its own receive is under way");
}

/// The same of a channel.
#[test]
fn a_poll_that_is_over_wakes_nobody_who_sleeps_on_a_relatives_channel() {
    let pair = Pair::live();
    let c = pair.server;
    let fds = list(c.fd);
    let (mut w, news) = arm(c, &fds, None);
    assert!(!news && c.receiving().word.has_sleepers());
    let another = Pair::live();
    let theirs = another.server;
    for (to, from) in c.edges.iter().zip(&theirs.edges) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let former = c.offer.swap(theirs.offer.load(Ordering::Relaxed), Ordering::SeqCst);
    theirs.receiving().word.sleep();
    w.slept.awake(c.family);
    assert!(theirs.receiving().word.has_sleepers(), "a relative sleeps");
    // Whatever became of the number here, the same connection hears of it.
    let pair = Pair::live();
    let c = pair.server;
    let fds = list(c.fd);
    let (mut w, _) = arm(c, &fds, None);
    c.family.holders(c.conn).begin(200);
    w.slept.awake(c.family);
    assert!(!c.receiving().word.has_sleepers() && former != 0);
}

/// The same in a long list: each channel is remembered, wherever it stands.
#[test]
fn a_poll_of_many_that_is_over_wakes_nobody_who_sleeps_on_a_channel_that_came_since() {
    let pair = Pair::live();
    let c = pair.server;
    let fds = [list(c.fd)[0]; 40];
    let another = Pair::live();
    let theirs = another.server;
    let (mut w, news) = arm(c, &fds, None);
    assert!(!news && w.slept.count() == fds.len());
    for (to, from) in c.edges.iter().zip(&theirs.edges) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    c.offer.store(theirs.offer.load(Ordering::Relaxed), Ordering::SeqCst);
    theirs.receiving().word.sleep();
    w.slept.awake(c.family);
    w.end();
    assert!(theirs.receiving().word.has_sleepers(), "a relative sleeps");
}

/// Beyond the room nothing is counted that somebody would have to take off: the sender rings for good.
#[test]
fn a_poll_of_more_than_there_is_room_for_has_senders_ring() {
    let pair = Pair::live();
    let c = pair.server;
    c.receiving().word.make_hot();
    let mut slept = Slept::nowhere();
    slept.begin(None, 0);
    (0..25).for_each(|_| slept.falls_asleep(&c, None));
    assert_eq!(slept.count(), 24);
    slept.awake(c.family);
    slept.end();
    assert!(!c.receiving().word.has_sleepers());
    assert!(!c.receiving().word.is_hot() && c.armed_by.load(Ordering::SeqCst) != 0);
}

/// The connection is closed while the poll falls asleep on it, and its slot is another's, which a set watches: nobody looks at the
/// ring of that one, and the event is none of its.
#[test]
fn a_slot_that_is_anothers_is_cold_again() {
    let pair = Pair::live();
    let c = pair.server;
    c.link.store(1 << 32 | 1, Ordering::Relaxed);
    let event = event::take().expect("an event");
    let word = c.receiving().word;
    for goes_on in [true, false] {
        word.reset();
        c.fall_asleep(Some(event), || goes_on);
        assert_eq!(word.is_hot(), goes_on);
        c.receiving().rx.event.store(0, Ordering::Relaxed);
    }
    word.reset();
    event.give_back();
}

/// Of a list of any length all that is counted is counted off: none has to be armed for good.
#[test]
fn a_long_list_of_what_is_no_channel_is_counted_off() {
    let pair = Pair::new();
    let c = pair.server;
    for n in [1, 32, 33, 500, 20_000] {
        let fds = vec![list(c.fd)[0]; n];
        let (flight, moved) = Flight::begin(&fds);
        assert!(!moved && c.rx_flight.load(Ordering::SeqCst) == n as u32);
        let entry = fdtable::word(c.fd);
        assert!(flight.has(n - 1, entry) && !flight.has(n, entry) && !flight.has(0, entry + 1));
        flight.end();
        assert_eq!(c.rx_flight.load(Ordering::SeqCst), 0);
    }
    assert_eq!(c.armed_by.load(Ordering::SeqCst), 0, "for good");
}

/// The same of channels: more than fit into what is kept.
#[test]
fn a_poll_of_very_many_channels_arms_none_for_good() {
    let pair = Pair::live();
    let c = pair.server;
    let fds = vec![list(c.fd)[0]; 5000];
    let (mut w, _) = arm(c, &fds, None);
    assert_eq!(w.slept.count(), fds.len());
    w.slept.awake(c.family);
    w.end();
    assert_eq!(c.armed_by.load(Ordering::SeqCst), 0, "for good");
}
