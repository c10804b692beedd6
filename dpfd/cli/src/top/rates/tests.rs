use super::*;

fn flow() -> Key {
    Key::Flow("5000".into(), "2/7000".into())
}

/// Bytes sent, and nothing else is known.
fn sent(n: u64) -> Counts {
    let mut counts = [None; COUNTS];
    counts[TX] = Some(n);
    counts
}

/// What the meter says of one thing that is seen at these seconds with these counts; `None`: it is not seen.
fn told(key: &Key, seen: &[(u64, Option<u64>)]) -> Vec<Option<f64>> {
    let mut meter = Meter::default();
    let look = |&(second, count): &(u64, Option<u64>)| {
        let seen = count.map(|n| (key.clone(), sent(n))).into_iter().collect();
        meter.take(seen, Duration::from_secs(second));
        meter.rates(key)[TX]
    };
    seen.iter().map(look).collect()
}

#[test]
fn a_rate_is_what_came_since_the_last_look() {
    let looks = [(10, Some(1000)), (12, Some(1600)), (13, Some(1600)), (17, Some(2000))];
    assert_eq!(told(&flow(), &looks), [None, Some(300.0), Some(0.0), Some(100.0)]);
}

#[test]
fn what_came_since_the_last_look_counted_everything_since() {
    let other = Key::Process(1);
    let mut meter = Meter::default();
    meter.take(vec![(other.clone(), sent(5))], Duration::from_secs(1));
    meter.take(vec![(other, sent(5)), (flow(), sent(80))], Duration::from_secs(3));
    assert_eq!(meter.rates(&flow())[TX], Some(40.0));
    // Nothing at all was there before.
    assert_eq!(told(&flow(), &[(1, None), (3, Some(80))])[1], Some(40.0));
}

#[test]
fn a_count_that_goes_back_is_another_things() {
    assert_eq!(told(&flow(), &[(1, Some(1000)), (2, Some(50))])[1], Some(50.0));
    let connection = Key::Connection(9, "127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
    assert_eq!(
        told(&connection, &[(1, Some(1000)), (3, Some(50)), (4, Some(60))])[1..],
        [Some(25.0), Some(10.0)]
    );
}

#[test]
fn of_one_familys_memory_a_count_that_goes_back_is_nothing() {
    assert_eq!(told(&Key::Family(9), &[(1, Some(1000)), (2, Some(50))])[1], Some(0.0));
}

#[test]
fn what_was_not_seen_once_goes_on_where_it_was() {
    let looks = [(1, Some(1000)), (2, None), (3, Some(1400))];
    assert_eq!(told(&flow(), &looks)[2], Some(200.0));
    // Long gone, it is not the same any more.
    let looks = [(1, Some(1000)), (2, None), (900, None), (902, Some(1400))];
    assert_eq!(told(&flow(), &looks)[3], Some(700.0));
}

#[test]
fn what_is_not_known_has_no_rate() {
    let mut meter = Meter::default();
    for second in 1..4 {
        meter.take(vec![(flow(), [None; COUNTS])], Duration::from_secs(second));
    }
    assert_eq!(meter.rates(&flow()), [None; COUNTS]);
    // A process that did not answer, and does now: what it counted meanwhile is not known.
    meter.take(vec![(flow(), sent(500))], Duration::from_secs(4));
    assert_eq!(meter.rates(&flow())[TX], None);
    meter.take(vec![(flow(), sent(700))], Duration::from_secs(5));
    assert_eq!(meter.rates(&flow())[TX], Some(200.0));
}

#[test]
fn two_looks_in_one_moment_tell_nothing() {
    assert_eq!(told(&flow(), &[(1, Some(10)), (1, Some(20))])[1], None);
}
