use super::*;

fn range(oldest: u32, newest: u32) -> Range {
    Range { oldest, newest }
}

#[test]
fn two_speak_the_newest_version_that_both_know() {
    for (a, b, common) in [
        (range(5, 5), range(5, 5), Some(5)),
        (range(5, 6), range(5, 5), Some(5)),
        (range(5, 7), range(6, 9), Some(7)),
        (range(5, 9), range(6, 7), Some(7)),
        (range(6, 6), range(5, 5), None),
        (range(1, 4), range(5, 9), None),
    ] {
        assert_eq!((a.common(b), b.common(a)), (common, common), "{a:?} {b:?}");
    }
}

#[test]
fn who_tells_no_newest_version_knows_the_one_it_tells() {
    assert_eq!(Range::told(5, 0), range(5, 5));
    assert_eq!(Range::told(5, 4), range(5, 5));
    assert_eq!(Range::told(5, 7), range(5, 7));
}
