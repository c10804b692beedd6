use super::*;

#[test]
fn gaps_divide_distances() {
    let states = of([260.0, 64.0, 251.0, 31.0, 255.0, 70.0].into_iter());
    assert_eq!(states[0], State { low: 251.0, high: 260.0, turns: 3 });
    assert_eq!(states[1], State { low: 64.0, high: 70.0, turns: 2 });
    assert_eq!(states[2], State { low: 31.0, high: 31.0, turns: 1 });
    assert!(states[0].has(255.0) && !states[0].has(70.0));
}

#[test]
fn what_differs_a_little_is_one_state() {
    assert_eq!(of([60.0, 75.0, 61.0].into_iter()), [State { low: 60.0, high: 75.0, turns: 3 }]);
    assert_eq!(of([0.0, 0.0].into_iter()), [State { low: 0.0, high: 0.0, turns: 2 }]);
    assert!(of([].into_iter()).is_empty());
}

#[test]
fn unknown_distances_are_alike() {
    assert!(alike(0.0, 0.0) && alike(60.0, 75.0));
    assert!(!alike(60.0, 0.0) && !alike(60.0, 240.0));
}
