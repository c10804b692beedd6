use super::*;

fn parse(number: &Number, value: &str) -> Result<Option<u64>, Fault> {
    number.parse(OsStr::new(value))
}

#[test]
fn a_number_is_decimal_digits_in_its_range() {
    assert_eq!(parse(&AFTER, "0"), Ok(Some(0)));
    assert_eq!(parse(&AFTER, " 17\n"), Ok(Some(17)));
    assert_eq!(parse(&AFTER, "1048577"), Err(Fault::TooLarge));
    assert_eq!(parse(&RING, "4095"), Err(Fault::TooSmall));
    assert_eq!(parse(&RING, "67108864"), Ok(Some(1 << 26)));
    assert_eq!(parse(&RING_LONG, "0"), Ok(Some(0)), "none at all");
    assert_eq!(parse(&SPIN, "99999999999999999999999"), Err(Fault::TooLarge));
    for value in ["x", "-1", "+1", "1e3", "0x10", "4 096", "1.5", "4k", "\u{661}"] {
        assert_eq!(parse(&AFTER, value), Err(Fault::NotANumber), "{value}");
    }
    // As for all other variables.
    assert_eq!((parse(&AFTER, ""), parse(&AFTER, "  ")), (Ok(None), Ok(None)));
}

#[test]
fn defaults_can_be_and_every_number_has_a_known_name() {
    for number in OF_SHIM.into_iter().chain([&NID]) {
        assert!((number.low..=number.high).contains(&number.default), "{number:?}");
        assert!(NAMES.contains(&number.name), "{number:?}");
    }
}

#[test]
fn what_is_wrong_is_told_with_range_and_default() {
    let wrong = |number, value: &str, fault| Wrong { number, value: value.into(), fault }.to_string();
    assert_eq!(
        wrong(&AFTER, "many", Fault::NotANumber),
        "DP_AFTER=many: not a whole number; 0 to 1048576 calls can stand there, the default is 3: correct it, or unset \
         DP_AFTER"
    );
    let small = wrong(&RING, "1\n\x1b", Fault::TooSmall);
    assert!(small.starts_with("DP_RING=1\\n\\u{1b}: too small; 4096 to 67108864 bytes"), "{small}");
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
        // Known, or somebody else's.
        ("DP_RING", ""),
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
