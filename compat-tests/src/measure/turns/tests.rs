use super::*;

#[test]
fn every_other_round_goes_the_other_way_round_and_samples_stay_sorted() {
    let mut seen = Vec::new();
    let turns = Turns::take(&[Setup::Tcp, Setup::Unix, Setup::Dp], 2, |setup, round| {
        seen.push(setup);
        Ok(if setup == Setup::Dp { 10.0 + round as f64 } else { 2.0 })
    })
    .unwrap();
    assert_eq!(seen, [Setup::Tcp, Setup::Unix, Setup::Dp, Setup::Dp, Setup::Unix, Setup::Tcp]);
    assert_eq!(turns.each(Setup::Dp, |value| *value), [10.0, 11.0]);
    assert_eq!(turns.each(Setup::LeftAlone, |value| *value), [] as [f64; 0]);
}

#[test]
fn a_ratio_is_the_median_of_the_pairs_not_of_the_medians() {
    let tcp = [1.0, 10.0, 100.0];
    let dp = [3.0, 20.0, 100.0];
    let turns = Turns::take(&[Setup::Tcp, Setup::Dp], 3, |setup, i| {
        Ok(if setup == Setup::Tcp { tcp[i] } else { dp[i] })
    });
    let ratio = turns.unwrap().ratio(Setup::Dp, Setup::Tcp, |value| *value).unwrap();
    assert_eq!((ratio.low, ratio.median, ratio.high), (1.0, 2.0, 3.0));
}

#[test]
fn an_error_ends_the_turns() {
    let result = Turns::<f64>::take(&[Setup::Tcp], 3, |_, round| match round {
        0 => Ok(1.0),
        _ => Err(Error::Interrupted),
    });
    assert!(matches!(result, Err(Error::Interrupted)));
}

#[test]
fn the_next_run_is_as_long_as_it_should_be() {
    let mut pace = Pace::starting_with(500);
    let second = Duration::from_secs(1);
    assert_eq!(pace.requests(second), 500);
    pace.learn(20_000.0);
    assert_eq!(pace.requests(second / 2), 10_000);
    pace.learn(1.0);
    assert_eq!(pace.requests(second), 500);
}
