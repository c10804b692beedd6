use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn each_counter_is_taken_once() {
    let mut replay = Replay::new();
    for counter in [0, 1, 5, 3, 2, 4, 70, 64] {
        assert_eq!(replay.check(counter), Ok(()), "{counter}");
        replay.mark(counter);
        assert_eq!(replay.check(counter), Err(Refused::Again), "{counter}");
    }
    assert_eq!(replay.check(6), Ok(()));
}

#[test]
fn the_window_ends_where_it_says() {
    let mut replay = Replay::new();
    replay.mark(10_000);
    assert_eq!(replay.check(10_000 - WINDOW + 1), Ok(()));
    assert_eq!(replay.check(10_000 - WINDOW), Err(Refused::Late));
    replay.mark(u64::MAX);
    assert_eq!(replay.check(u64::MAX), Err(Refused::Again));
    assert_eq!(replay.check(u64::MAX - WINDOW + 1), Ok(()));
}

/// Steps ahead that come near the ends of words and of the ring.
fn step() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -70i64..70,
        1 => -5000i64..5000,
        1 => prop::sample::select(vec![64i64, 63, 65, 4095, 4096, 4097, 4032, 4031, 1 << 40]),
    ]
}

proptest! {
    #[test]
    fn it_is_a_set_with_a_lower_end(start in prop_oneof![Just(0u64), any::<u64>()], steps in prop::collection::vec(step(), 1..400)) {
        let (mut replay, mut model) = (Replay::new(), BTreeSet::new());
        let mut at = start;
        for step in steps {
            at = at.saturating_add_signed(step);
            let greatest = model.last().copied().unwrap_or(0);
            let expected = if at <= greatest && greatest - at >= WINDOW {
                Err(Refused::Late)
            } else if model.contains(&at) {
                Err(Refused::Again)
            } else {
                Ok(())
            };
            prop_assert_eq!(replay.check(at), expected);
            if expected.is_ok() {
                replay.mark(at);
                model.insert(at);
            }
        }
    }
}
