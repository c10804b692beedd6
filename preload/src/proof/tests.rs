use proptest::prelude::*;

use super::*;
use crate::testing::Pair;

#[derive(Debug, Clone)]
enum Step {
    Show(u64),
    PutBack,
    /// The program sets a rate, and is noticed or not: another process may have the socket.
    Sets(u64, bool),
    GoesToTcp,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Rates of programs are below the numbers that are shown.
    let rate = prop_oneof![1000u64..1 << 40, Just(NO_LIMIT)];
    let step = prop_oneof![
        (1u64 << 50..1 << 61).prop_map(Step::Show),
        Just(Step::PutBack),
        (rate, any::<bool>()).prop_map(|(rate, seen)| Step::Sets(rate, seen)),
        Just(Step::GoesToTcp),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The program believes what it has set last, whatever its socket shows meanwhile.
    #[test]
    fn a_program_is_told_its_own_rate_and_has_it_again_afterwards(steps in steps()) {
        let pair = Pair::new();
        let c = pair.client;
        let mut own = tcp::pacing(c.fd).unwrap();
        prop_assert_eq!(own, NO_LIMIT);
        for step in steps {
            match step {
                Step::Show(number) => {
                    prop_assert!(c.show_proof(number));
                    prop_assert_eq!(tcp::pacing(c.fd), Some(number));
                }
                Step::PutBack => c.put_proof_back(),
                Step::Sets(rate, seen) => {
                    prop_assert!(tcp::set_pacing(c.fd, rate));
                    if seen {
                        c.rate_is_set_by_program();
                    }
                    own = rate;
                }
                Step::GoesToTcp => c.sends_at_once(),
            }
            let now = tcp::pacing(c.fd).unwrap();
            prop_assert_eq!(c.hidden_rate().unwrap_or(now), own);
            if !c.shows_proof() {
                prop_assert!(now == own || (own == NO_LIMIT && now == AT_ONCE), "{} instead of {}", now, own);
            }
        }
        c.put_proof_back();
        prop_assert!(!c.shows_proof());
    }
}

#[test]
fn a_socket_that_never_showed_a_number_is_left_alone() {
    let pair = Pair::new();
    pair.client.sends_at_once();
    pair.client.put_proof_back();
    assert_eq!((tcp::pacing(pair.client.fd), pair.client.hidden_rate()), (Some(NO_LIMIT), None));
}

#[test]
fn the_other_end_is_seen_to_show_what_it_shows() {
    let pair = Pair::new();
    let netns = tcp::netns(pair.server.fd);
    assert!(pair.client.show_proof(4711));
    assert!(pair.server.other_end_shows(netns, 4711));
    assert!(!pair.server.other_end_shows(netns, 4712) && !pair.client.other_end_shows(netns, 4711));
    pair.client.put_proof_back();
    assert!(!pair.server.other_end_shows(netns, 4711));
}
