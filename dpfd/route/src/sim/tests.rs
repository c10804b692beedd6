use super::*;

const MS: Duration = Duration::from_millis(1);

/// Sends numbered frames of four bytes, a millisecond apart; what arrived, and when.
fn run(seed: u64, link: Link, frames: u32) -> Vec<(Duration, Vec<u8>)> {
    let network = Network::new(seed);
    network.set_usual(link);
    let (mut a, mut b) = (network.attach("a").unwrap(), network.attach("b").unwrap());
    let to = b.local();
    let mut room = Received::new(4, b.slot());
    let mut got = Vec::new();
    for number in 0..frames + 1000 {
        if number < frames {
            let bytes = number.to_be_bytes();
            assert_eq!(a.send(&to, Frames::new(&bytes, &[4]).unwrap()).unwrap(), 1);
        }
        while b.recv(&mut room).unwrap() > 0 {
            got.extend(room.iter().map(|(_, frame)| (network.now(), frame.to_vec())));
        }
        network.advance(MS);
    }
    assert_eq!(network.next_arrival(), None);
    got
}

fn wild() -> Link {
    Link {
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.2,
        hold: 20 * MS,
        corrupt: 0.1,
        delay: 3 * MS,
        rate: Some(1_000_000),
        ..Link::default()
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(run(7, wild(), 2000), run(7, wild(), 2000));
    assert_ne!(run(7, wild(), 2000), run(8, wild(), 2000));
}

#[test]
fn without_chances_all_arrive_in_order_and_in_time() {
    let link = Link { delay: 5 * MS, ..Link::default() };
    let got = run(1, link, 100);
    let wanted: Vec<_> = (0..100u32).map(|n| (MS * (n + 5), n.to_be_bytes().to_vec())).collect();
    assert_eq!(got, wanted);
}

/// Of 10 000 frames; five deviations of a binomial distribution are 150 at most.
#[test]
fn chances_are_what_was_asked_for() {
    let near = |n: usize, wanted: usize| assert!(n.abs_diff(wanted) < 150, "{n} instead of {wanted}");
    let count = |link| run(3, link, 10_000);
    near(count(Link { loss: 0.1, ..Link::default() }).len(), 9_000);
    near(count(Link { duplicate: 0.1, ..Link::default() }).len(), 11_000);
    let numbers = |got: Vec<(Duration, Vec<u8>)>| -> Vec<u32> {
        got.into_iter().map(|(_, frame)| u32::from_be_bytes(frame.try_into().unwrap())).collect()
    };
    let corrupt = numbers(count(Link { corrupt: 0.1, ..Link::default() }));
    near(corrupt.iter().zip(0..).filter(|(got, sent)| **got != *sent).count(), 1_000);
    let mut reordered = numbers(count(Link { reorder: 0.1, hold: 50 * MS, ..Link::default() }));
    let overtaken = reordered.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!((800..1_100).contains(&overtaken), "{overtaken}");
    reordered.sort_unstable();
    assert_eq!(reordered, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn a_rate_spaces_frames_and_a_full_queue_takes_no_more() {
    let network = Network::new(1);
    // 1000 bytes take 1 ms.
    network.set_usual(Link { rate: Some(8_000_000), queue: 3_000, ..Link::default() });
    let (mut a, mut b) = (network.attach("a").unwrap(), network.attach("b").unwrap());
    let bytes = [0; 5_000];
    let frames = Frames::new(&bytes, &[1_000; 5]).unwrap();
    assert_eq!(a.send(&b.local(), frames).unwrap(), 3);
    assert_eq!(a.counters().refused(Reason::Full), 1);
    let mut room = Received::new(8, b.slot());
    for arrived in [0, 1, 1, 1, 0] {
        assert_eq!(b.recv(&mut room).unwrap(), arrived);
        network.advance(MS);
    }
}

#[test]
fn a_link_that_is_down_says_so_and_a_silent_one_does_not() {
    let network = Network::new(1);
    let (mut a, mut b) = (network.attach("a").unwrap(), network.attach("b").unwrap());
    let (one, to) = (Frames::new(&[1], &[1]).unwrap(), b.local());
    let mut room = Received::new(1, b.slot());
    network.set_link("a", "b", Link { state: State::Silent, ..Link::default() }).unwrap();
    assert_eq!(a.send(&to, one).unwrap(), 1);
    assert_eq!(b.recv(&mut room).unwrap(), 0);
    network.set_link("a", "b", Link { state: State::Down, ..Link::default() }).unwrap();
    assert_eq!(Reason::of(&a.send(&to, one).unwrap_err()), Reason::Unreachable);
    let back = a.local();
    assert_eq!(b.send(&back, one).unwrap(), 1, "the other direction");
    assert_eq!(a.recv(&mut room).unwrap(), 1);
    network.set_link("a", "b", Link::default()).unwrap();
    assert_eq!(a.send(&to, one).unwrap(), 1);
    assert_eq!(b.recv(&mut room).unwrap(), 1);
}
