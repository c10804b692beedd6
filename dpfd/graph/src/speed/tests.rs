use proptest::prelude::*;

use super::*;

#[test]
fn units_are_those_of_tc_in_any_case() {
    let bits = |text: &str| text.parse::<Speed>().unwrap().bits();
    let all = ["100Mbit", "100mbit", "100000kbit", "100000000bit", "0.1Gbit", "100.000MBIT"];
    assert_eq!(all.map(bits), [100_000_000; 6]);
    assert_eq!((bits("1Mbit"), bits("400Gbit")), (*SPEEDS.start(), *SPEEDS.end()));
}

#[test]
fn texts_that_are_no_speeds_are_told() {
    let bad = |text: &str| text.parse::<Speed>().unwrap_err();
    let forms = [
        "",
        "100",
        "Mbit",
        ".5Gbit",
        "5.Gbit",
        "1.2.3Gbit",
        "-1Gbit",
        "+1Gbit",
        "1 Gbit",
        "1Gb",
        "1Gbps",
        "1Gbit/s",
        "1e9bit",
        "1000000000000000bit",
        "1Gibit",
        "quick",
    ];
    for text in forms {
        assert_eq!(bad(text), BadSpeed::Form(text.into()));
    }
    for text in ["0bit", "999999bit", "0.5Mbit", "401Gbit", "999999999999Gbit"] {
        assert_eq!(bad(text), BadSpeed::Range(text.into()));
    }
    assert!(bad("0bit").to_string().ends_with("; speeds go from 1Mbit to 400Gbit"));
}

proptest! {
    #[test]
    fn what_is_written_is_read(bits in SPEEDS) {
        let speed = Speed::of_bits(bits).unwrap();
        prop_assert_eq!(speed.to_string().parse::<Speed>(), Ok(speed));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9.]{0,14}[ a-zA-Z]{0,4}") {
        let _ = text.parse::<Speed>();
    }
}
