use super::*;

/// A sender and a receiver whose every step is known, looked at every `step` ns from `from` on; `near` as of `look`.
struct World {
    /// When a message of 100 bytes is put in, and taken.
    messages: Vec<(u64, u64)>,
}

impl World {
    fn counted(&self, now: u64) -> (u64, u64) {
        let count =
            |of: &dyn Fn(&(u64, u64)) -> u64| self.messages.iter().filter(|m| of(m) <= now).count() as u64;
        (100 * count(&|m| m.0), 100 * count(&|m| m.1))
    }

    fn look(&self, stay: &mut Stay, times: impl Iterator<Item = u64>, near: bool) {
        for now in times {
            let (sent, taken) = self.counted(now);
            stay.look(now, sent, taken, near);
        }
    }
}

#[test]
fn stays_are_known_within_the_time_between_looks() {
    // Each stays for 3 us, one every 10 us.
    let world = World { messages: (0..100).map(|i| (10_000 * i + 1234, 10_000 * i + 4234)).collect() };
    let mut stay = Stay::default();
    world.look(&mut stay, (0..5000).map(|i| 200 * i), true);
    assert_eq!((stay.histogram.count(), stay.unclear), (100, 0));
    assert_eq!(stay.histogram.octaves(), [(2048, 100)]);
    let below = stay.histogram.below(0.5).unwrap();
    assert!((3000..=3600).contains(&below), "{below}");
    let mean = stay.mean().unwrap();
    assert!((2900.0..3100.0).contains(&mean), "{mean}");
    assert_eq!(stay.resolution(), Some(200));
}

#[test]
fn the_mean_needs_no_piece_to_be_followed() {
    // In and out between most looks: stays of 300 ns, looks every 1.9 us.
    let world = World { messages: (0..10_000).map(|i| (1_000 * i, 1_000 * i + 300)).collect() };
    let mut stay = Stay::default();
    world.look(&mut stay, (0..5_000).map(|i| 1_907 * i), true);
    let mean = stay.mean().unwrap();
    assert!((270.0..330.0).contains(&mean), "{mean}");
}

#[test]
fn a_look_that_came_late_makes_nothing_up() {
    let world = World { messages: vec![(1_000, 1_500), (600_000, 700_000)] };
    let mut stay = Stay::default();
    // Whoever looked was put aside for half a millisecond.
    world.look(&mut stay, [0, 200, 400, 500_000, 500_200].into_iter(), true);
    assert_eq!((stay.histogram.count(), stay.unclear), (0, 1));
    // What stayed long is known well enough by late looks.
    world.look(&mut stay, (500_400..600_200).step_by(200), true);
    world.look(&mut stay, [650_000, 690_000, 701_000].into_iter(), false);
    assert_eq!((stay.histogram.count(), stay.unclear), (1, 1));
    assert_eq!(stay.histogram.octaves(), [(65_536, 1)]);
}

#[test]
fn what_came_while_nobody_looked_is_not_followed() {
    let world = World { messages: vec![(1_000_000, 2_000_500)] };
    let mut stay = Stay::default();
    world.look(&mut stay, (0..1000).step_by(200), true);
    stay.pause();
    world.look(&mut stay, (2_000_000..2_001_000).step_by(200), true);
    assert_eq!((stay.histogram.count(), stay.unclear), (0, 0));
    assert!(!stay.follows());
}

#[test]
fn another_connection_in_its_place_is_not_taken_for_it() {
    let mut stay = Stay::default();
    stay.look(0, 1000, 1000, true);
    stay.look(200, 1100, 1000, true);
    assert!(stay.follows());
    stay.look(400, 50, 0, true);
    stay.look(600, 50, 50, true);
    assert_eq!((stay.histogram.count(), stay.follows()), (0, false));
    // The receiver may have counted what the sender is about to.
    stay.look(800, 50, 150, true);
    stay.look(1000, 150, 150, true);
    assert_eq!(stay.waiting, 0);
}

#[test]
fn parts_of_a_histogram_are_in_order() {
    let mut histogram = Histogram::default();
    assert_eq!((histogram.below(0.5), histogram.octaves()), (None, vec![]));
    for ns in [0, 100, 1_000, 1_000, 1_000_000, u64::MAX] {
        histogram.add(ns);
    }
    assert_eq!(histogram.count(), 6);
    let parts: Vec<u64> =
        [0.0, 0.3, 0.6, 0.8, 1.0].iter().map(|&part| histogram.below(part).unwrap()).collect();
    assert!(parts.is_sorted(), "{parts:?}");
    // A bound is at most a quarter above what it is of.
    assert!((1_000..=1_250).contains(&parts[2]), "{parts:?}");
    assert_eq!(histogram.octaves().iter().map(|octave| octave.1).sum::<u64>(), 6);
}
