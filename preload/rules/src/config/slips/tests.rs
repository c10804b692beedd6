use super::*;
use crate::config::environment::OF_SHIM;
use crate::config::log;

#[test]
fn defaults_can_be_and_every_variable_has_a_known_name() {
    assert!(NAMES.contains(&log::NAME));
    for number in OF_SHIM {
        assert!((number.low..=number.high).contains(&number.default), "{number:?}");
        assert!(NAMES.contains(&number.name), "{number:?}");
    }
}

#[test]
fn a_name_with_a_slip_is_told_from_others() {
    for (slip, name) in [
        ("DP_AFTR", "DP_AFTER"),
        ("DP_AFETR", "DP_AFTER"),
        ("DP_RINGS", "DP_RING"),
        ("DP_RINGLONG", "DP_RING_LONG"),
        ("DP_LONG_RING", ""),
        ("DP_DISABLED", "DP_DISABLE"),
        ("DP_RUN_TIME_DIR", "DP_RUNTIME_DIR"),
        ("DP_SPINS", "DP_SPIN"),
        ("DP_LGO", "DP_LOG"),
        ("DP_LOGS", "DP_LOG"),
        ("DP_LOSTS", "DP_LOST"),
        // Known, or somebody else's.
        ("DP_RING", ""),
        ("DP_LOG", ""),
        ("DP_LONG", ""),
        ("DP_SKIPS", ""),
        ("DP_SEED", ""),
        ("DP_", ""),
        ("AFTR", ""),
        ("dp_aftr", ""),
    ] {
        assert_eq!(meant(OsStr::new(slip)), Some(name).filter(|name| !name.is_empty()), "{slip}");
    }
    // No known name passes for a slip of another.
    assert!(NAMES.iter().all(|name| meant(OsStr::new(name)).is_none()));
}

#[test]
fn steps_are_counted_as_hands_slip() {
    assert_eq!([steps("ring", "ring"), steps("rnig", "ring"), steps("rig", "ring")], [0, 1, 1]);
    assert_eq!([steps("", "abc"), steps("abc", ""), steps("kitten", "sitting")], [3, 3, 3]);
}
