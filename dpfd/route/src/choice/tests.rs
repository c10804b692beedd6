use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::{Counters, Received};

const NAMES: [&str; 3] = ["eth", "udp", "udp"];

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn of(want: Want<'_>) -> Choice {
    Choice::new(&NAMES, want).unwrap()
}

#[test]
fn the_order_is_the_narts_or_begins_with_a_name() {
    assert_eq!(of(Want::Order).current(), Some(0));
    assert_eq!(of(Want::First("udp")).current(), Some(1));
    assert_eq!(of(Want::Only("udp")).current(), Some(1));
    assert_eq!(Choice::new(&[], Want::Order).unwrap().current(), None);
    let error = Choice::new(&NAMES, Want::Only("shm")).unwrap_err();
    assert_eq!(error.to_string(), "no route \"shm\" leads to this peer; the graph lists eth, udp, udp");
}

#[test]
fn the_next_comes_in_and_the_first_is_taken_back() {
    let mut choice = of(Want::Order);
    assert!(choice.failed(at(0), 0, Reason::Unreachable));
    assert_eq!((choice.current(), choice.turn()), (Some(1), 1));
    choice.silent(at(10), 1);
    assert_eq!(choice.current(), Some(2));
    choice.answered(at(110), 0);
    assert_eq!(choice.current(), Some(2), "one answer is not enough");
    choice.answered(at(120), 0);
    assert_eq!((choice.current(), choice.turn()), (Some(0), 3));
}

#[test]
fn only_one_route_means_none_when_it_is_dead() {
    let mut choice = of(Want::Only("eth"));
    choice.silent(at(0), 0);
    assert_eq!(choice.current(), None);
    choice.silent(at(0), 1);
    assert_eq!(choice.probe(at(100)), Some(0));
    choice.answered(at(101), 0);
    assert_eq!(choice.current(), Some(0), "one answer is enough where nothing lives");
}

#[test]
fn what_passes_does_not_kill() {
    let mut choice = of(Want::Order);
    for reason in [Reason::Full, Reason::TooLong] {
        assert!(!choice.failed(at(0), 0, reason));
    }
    assert_eq!(choice.current(), Some(0));
}

#[test]
fn probes_become_rarer_and_quick_again_after_an_answer() {
    let mut choice = of(Want::Order);
    choice.silent(at(0), 0);
    let mut times = Vec::new();
    for now in (0..20_000).map(at) {
        while choice.probe(now).is_some() {
            times.push(now.as_millis());
        }
    }
    assert_eq!(times, [100, 300, 700, 1500, 3100, 6300, 11_300, 16_300]);
    choice.answered(at(20_000), 0);
    assert_eq!(choice.next_probe(), Some(at(20_100)));
}

#[test]
fn one_that_dies_again_and_again_must_answer_more_often() {
    let mut choice = of(Want::Order);
    let mut now = at(0);
    let mut needed = Vec::new();
    for _ in 0..6 {
        choice.silent(now, 0);
        let mut answers = 0;
        while choice.current() != Some(0) {
            answers += 1;
            now += at(10);
            choice.answered(now, 0);
        }
        needed.push(answers);
    }
    assert_eq!(needed, [2, 4, 8, 16, 32, 32]);
    // It has been well for long enough.
    choice.silent(now + STABLE, 0);
    choice.answered(now + STABLE, 0);
    choice.answered(now + STABLE, 0);
    assert_eq!(choice.current(), Some(0));
}

#[derive(Debug, Clone)]
enum Event {
    Failed(usize, Reason),
    Silent(usize),
    Answered(usize),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let place = 0..NAMES.len();
    prop_oneof![
        (place.clone(), proptest::sample::select(&Reason::ALL[..])).prop_map(|(p, r)| Event::Failed(p, r)),
        place.clone().prop_map(Event::Silent),
        place.prop_map(Event::Answered),
        (0..12_000u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #[test]
    fn whatever_happens(events in proptest::collection::vec(event(), 0..200), which in 0..5usize) {
        let wants = [Want::Order, Want::First("udp"), Want::First("eth"), Want::Only("udp"), Want::Only("eth")];
        let orders: [&[usize]; 5] = [&[0, 1, 2], &[1, 2, 0], &[0, 1, 2], &[1, 2], &[0]];
        let (mut choice, order) = (of(wants[which]), orders[which]);
        let mut now = Duration::ZERO;
        // Answers since it died; none for one that lives.
        let mut dead: [Option<u32>; 3] = [None; 3];
        for event in events {
            let before = (choice.current(), choice.turn());
            match event {
                Event::Failed(place, reason) => {
                    choice.failed(now, place, reason);
                    if reason.is_fatal() {
                        dead[place] = Some(0);
                    }
                }
                Event::Silent(place) => {
                    choice.silent(now, place);
                    dead[place] = Some(0);
                }
                Event::Answered(place) => {
                    choice.answered(now, place);
                    dead[place] = dead[place].map(|answers| answers + 1);
                }
                Event::Pass(ms) => {
                    now += at(ms);
                    while let Some(place) = choice.probe(now) {
                        prop_assert!(dead[place].is_some(), "a probe by one that lives");
                    }
                }
            }
            for &place in order {
                let alive = choice.is_alive(place);
                match dead[place] {
                    None => prop_assert!(alive, "killed by nothing"),
                    Some(0) => prop_assert!(!alive, "came back without an answer"),
                    Some(1) if alive => prop_assert!(before.0.is_none(), "came back too soon"),
                    Some(answers) => prop_assert!(alive || answers < ANSWERS[1], "did not come back"),
                }
                if alive {
                    dead[place] = None;
                }
            }
            let first = order.iter().copied().find(|&place| choice.is_alive(place));
            prop_assert_eq!(choice.current(), first);
            prop_assert_eq!(choice.turn() - before.1, u32::from(choice.current() != before.0));
            let due = order.iter().any(|&place| !choice.is_alive(place));
            prop_assert_eq!(choice.next_probe().is_some(), due);
            prop_assert!(choice.next_probe().is_none_or(|next| next <= now + PROBE_LAST));
        }
    }

    /// Routes that take a part of what they get, fail or are full, as it comes.
    #[test]
    fn no_frame_goes_by_two_routes(
        outcomes in proptest::collection::vec((0..6usize, 0..9u16), 0..60),
        calls in 1..20usize,
    ) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(outcomes.into_iter()));
        let mut routes: Vec<Box<dyn Route>> = (0..NAMES.len())
            .map(|place| Box::new(Scripted { place, log: log.clone(), script: script.clone() }) as Box<dyn Route>)
            .collect();
        let peer = ["sim:a".parse().unwrap(); 3];
        let mut choice = of(Want::Order);
        let mut next = 0u8;
        for call in 0..calls {
            // Those that were not taken come again.
            let bytes: Vec<u8> = (next..).take(8).collect();
            let frames = Frames::new(&bytes, &[1; 8]).unwrap();
            let now = at(call as u64 * 1000);
            if let Some(place) = choice.probe(now) {
                choice.answered(now, place);
            }
            match send(&mut choice, now, &mut routes, &peer, frames) {
                Ok(n) => next += n as u8,
                Err(_) => prop_assert!(log.lock().unwrap().len() == usize::from(next)),
            }
        }
        let sent: Vec<u8> = log.lock().unwrap().iter().map(|&(_, frame)| frame).collect();
        prop_assert_eq!(sent, (0..next).collect::<Vec<u8>>());
    }
}

struct Scripted {
    place: usize,
    log: Arc<Mutex<Vec<(usize, u8)>>>,
    script: Arc<Mutex<std::vec::IntoIter<(usize, u16)>>>,
}

impl Route for Scripted {
    fn name(&self) -> &str {
        NAMES[self.place]
    }
    fn local(&self) -> PeerAddr {
        "sim:b".parse().unwrap()
    }
    fn mtu(&mut self, _: &PeerAddr) -> io::Result<usize> {
        Ok(1)
    }
    fn send(&mut self, _: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        let (outcome, part) = self.script.lock().unwrap().next().unwrap_or((0, 8));
        let error = |errno| Err(io::Error::from_raw_os_error(errno));
        match outcome {
            0 => return error(libc::ENETDOWN),
            1 => return error(libc::EMSGSIZE),
            2 => return Ok(0),
            _ => {}
        }
        let n = usize::from(part).min(frames.len());
        let sent = frames.iter().take(n).map(|frame| (self.place, frame[0]));
        self.log.lock().unwrap().extend(sent);
        Ok(n)
    }
    fn slot(&self) -> usize {
        1
    }
    fn recv(&mut self, _: &mut Received) -> io::Result<usize> {
        Ok(0)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn refresh(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn counters(&self) -> &Counters {
        unreachable!("nobody asks")
    }
}
