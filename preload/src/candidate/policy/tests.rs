use proptest::prelude::*;

use super::*;

fn searches(turns: core::ops::RangeInclusive<u32>, which: Search) -> Vec<u32> {
    turns.filter(|&turn| search_at(turn) == Some(which)).collect()
}

#[test]
fn a_candidate_looks_at_every_turn_at_first_and_then_more_and_more_seldom() {
    assert_eq!(searches(1..=48, Search::Everywhere), [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40, 48]);
    assert_eq!(searches(56..=300, Search::Everywhere), [56, 64, 128, 192, 256]);
    // What is mapped costs no system call: as often as before.
    assert_eq!(searches(60..=130, Search::Mapped), [72, 80, 88, 96, 104, 112, 120]);
}

#[test]
fn a_client_makes_offers_and_searches_nothing() {
    let due = |_: u32| true;
    assert!(tries(Some(Search::Everywhere), true, || due(1)));
    assert!(!tries(Some(Search::Everywhere), true, || false), "where channels do not pay, later");
    assert!(!tries(Some(Search::Mapped), true, || panic!("asked in vain")));
    assert!(tries(Some(Search::Mapped), false, || panic!("a server has nothing to offer")));
    assert!(!tries(None, true, || true) && !tries(None, false, || true));
}

#[test]
fn patience_of_an_offer_that_came_late_begins_with_it() {
    assert_eq!([0, 1, 32].map(|first| turns_since_due(32, first)), [32, 32, 1]);
    assert_eq!(turns_since_due(5, 32), 0);
}

#[test]
fn a_client_moves_on_from_a_wrong_answer_at_once_and_from_none_after_a_while() {
    let moves = |answer, turn, shows, another| moves_on(answer, turn, shows, || another);
    assert!(moves(Answer::Wrong, 1, false, false));
    assert!(!moves(Answer::Proven, 1024, false, true));
    let silent =
        |shows, another| (1..=40).filter(|&t| moves(Answer::Nothing, t, shows, another)).collect::<Vec<_>>();
    assert_eq!(silent(false, true), [4, 8, 16, 24, 32, 40], "another family may serve the address");
    assert_eq!(silent(false, false), [16, 24, 32, 40], "another hello to the same");
    assert_eq!(silent(true, true), [], "our proof is there, and the server about to look");
}

#[test]
fn a_server_does_not_doubt_an_offer_before_its_client_had_time_to_answer() {
    assert_eq!((0..=200).filter(|&turn| doubts(turn)).collect::<Vec<_>>(), [16, 32, 64, 128]);
}

#[test]
fn a_wrong_answer_is_the_reason_also_when_silence_follows() {
    assert_eq!(why_given_up(0, Reason::Owner, Reason::Silent), Reason::Silent);
    assert_eq!(why_given_up(0, Reason::Owner, Reason::NoOffer), Reason::NoOffer);
    assert_eq!(why_given_up(1, Reason::NoUnix, Reason::Silent), Reason::NoUnix);
}

proptest! {
    /// Calls come at any pace, for as long as they like.
    #[test]
    fn nobody_is_given_up_before_many_calls_and_some_time_and_not_long_after_either(
        pauses in prop::collection::vec(0u64..40_000_000, 1500..3000), required in any::<bool>(),
    ) {
        let patience = patience(required);
        let (mut now, mut began) = (1u64, 0u64);
        for (turn, pause) in (1u32..).zip(pauses) {
            now += pause;
            let clock = || {
                assert!(turn > patience && turn % 64 == 0, "the clock is asked in a call that is none's last");
                now
            };
            let patient = is_patient(turn, patience, began, clock);
            if turn > patience && began == 0 {
                began = now;
            }
            let waited = if began == 0 { 0 } else { now - began };
            if !patient {
                prop_assert!(turn > patience && waited >= PATIENCE_NS, "turn {turn}, after {waited} ns");
                return Ok(());
            }
            // At a turn at which the clock is asked.
            prop_assert!(turn % 64 != 0 || waited < PATIENCE_NS, "turn {turn}, after {waited} ns");
        }
    }

    #[test]
    fn a_turn_at_which_all_is_tried_is_never_far(turn in 1u32..1 << 30) {
        let within = if turn <= 56 { 8 } else { 64 };
        prop_assert!((turn..turn + within).any(|turn| search_at(turn) == Some(Search::Everywhere)));
    }
}
