//! What is learned of a program's waits, and how soon it is unlearned.

use super::*;

fn believed(habit: &mut Habit, messages: usize) -> Vec<bool> {
    (0..messages).map(|_| habit.believes()).collect()
}

#[test]
fn a_brief_sleep_is_believed_at_once_and_a_long_one_after_a_burst() {
    let mut habit = Habit::default();
    assert_eq!(believed(&mut habit, 3), [false; 3], "nobody slept");
    habit.slept(BRIEF - 1);
    assert_eq!((habit.brief, believed(&mut habit, 2)), (true, vec![true, false]));
    habit.slept(BRIEF);
    let mut burst = vec![false; usize::from(BURST) - 1];
    burst.extend([true, false]);
    assert_eq!((habit.brief, believed(&mut habit, burst.len())), (false, burst));
    habit.waits_here();
    habit.stays_away();
    assert_eq!(believed(&mut habit, 1), [false]);
}

#[test]
fn who_is_told_late_has_bells_for_twice_as_long_and_being_back_makes_up_for_it() {
    let mut habit = Habit::default();
    for messages in [16, 32, 64] {
        habit.count_silence(true);
        habit.waits_here();
        assert!(!habit.may_be_silent());
        assert_eq!(believed(&mut habit, messages), vec![false; messages]);
        assert!(habit.may_be_silent() && habit.believes());
    }
    habit.count_silence(false);
    assert!(habit.may_be_silent());
    habit.count_silence(true);
    assert_eq!(habit.abstains, [64; 2]);
    (0..100).for_each(|_| habit.count_silence(true));
    assert_eq!(habit.abstains, [ABSTAIN[1]; 2]);
}

#[test]
fn wake_ups_for_nothing_end_the_belief_in_brief_sleeps() {
    let mut habit = Habit { brief: true, ..Habit::default() };
    for taken in [1, 1, 1, 2] {
        habit.dozes(taken);
        assert!(habit.brief);
    }
    (0..PATIENCE).for_each(|_| habit.dozes(2));
    assert!(!habit.brief);
}
