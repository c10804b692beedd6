use super::*;

const AFTER: Number = Number { name: "DP_AFTER", low: 0, high: 1 << 20, default: 3, unit: "calls" };
const RING: Number = Number { name: "DP_RING", low: 4096, high: 1 << 26, default: 128 << 10, unit: "bytes" };

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
    assert_eq!(parse(&RING, "99999999999999999999999"), Err(Fault::TooLarge));
    for value in ["x", "-1", "+1", "1e3", "0x10", "4 096", "1.5", "4k", "\u{661}"] {
        assert_eq!(parse(&AFTER, value), Err(Fault::NotANumber), "{value}");
    }
    // As for all other variables.
    assert_eq!((parse(&AFTER, ""), parse(&AFTER, "  ")), (Ok(None), Ok(None)));
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
