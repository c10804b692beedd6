use proptest::prelude::*;

use super::*;

#[test]
fn routes_are_authenticated_unless_they_go_nowhere() {
    let of = ["udp", "eth", "sim", "ib"].map(Security::by_default);
    assert_eq!(of, [Security::Authenticate, Security::None, Security::None, Security::Authenticate]);
    for word in Security::words() {
        assert_eq!(Security::of_word(word).unwrap().word(), word);
    }
    assert_eq!(Security::of_word("Encrypt"), None);
}

#[test]
fn texts_that_map_nobody_are_told() {
    let bad = |text: &str| text.parse::<Mapped>().unwrap_err();
    for text in ["", "5", ":", "5:", ":5", "a:5", "5-:6", "-5:6", "5:6:7", "+5:6", " 5:6", "1-2-3:4"] {
        assert_eq!(bad(text), BadMapped::Form(text.into()));
    }
    for text in ["4294967295:1", "1:4294967295", "7-6:1", "0-4294967294:1", "99999999999:1"] {
        assert_eq!(bad(text), BadMapped::Range(text.into()));
    }
    assert_eq!("0-4294967294:0".parse::<Mapped>().unwrap().to_string(), "0-4294967294:0");
}

#[test]
fn no_number_stands_for_no_user() {
    let all = Users::Map(vec!["0-4294967294:0".parse().unwrap()]);
    assert_eq!([0, 7, u32::MAX - 1, u32::MAX].map(|user| all.here(user)), [0, 7, u32::MAX - 1, NOBODY]);
    // Ranges that no text was.
    let wrong = Users::Map(vec![Mapped { there: 0..=u32::MAX, here: 10 }]);
    assert_eq!(wrong.here(u32::MAX - 5), NOBODY);
}

proptest! {
    #[test]
    fn who_is_mapped_is_where_the_range_says(first: u32, n in 0..1000u32, here: u32, user: u32) {
        let Some(last) = first.checked_add(n) else { return Ok(()) };
        let text = format!("{first}-{last}:{here}");
        let Ok(mapped) = text.parse::<Mapped>() else { return Ok(()) };
        prop_assert_eq!(mapped.to_string().parse::<Mapped>().unwrap(), mapped.clone());
        let users = Users::Map(vec![mapped]);
        for there in [first, last, first + n / 2] {
            prop_assert_eq!(users.here(there), here + (there - first));
        }
        if !(first..=last).contains(&user) {
            prop_assert_eq!(users.here(user), NOBODY);
        }
    }
}
