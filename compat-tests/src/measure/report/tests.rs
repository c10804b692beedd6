use super::*;

#[test]
fn columns_are_aligned_with_and_without_colours() {
    let titles = [Title::Left("WHAT"), Title::Right("RATE")];
    let rows = vec![
        vec!["a".into(), Cell::styled("12", Style::Good)],
        vec![],
        vec!["longer".into(), "12345".into()],
    ];
    assert_eq!(table(&titles, &rows, false), "WHAT     RATE\na          12\n\nlonger  12345\n");
    assert_eq!(table(&titles, &rows, true), "WHAT     RATE\na          \x1b[32m12\x1b[0m\n\nlonger  12345\n");
}

#[test]
fn numbers_keep_three_digits() {
    let shown = [0.0, 0.0311, 2.567, 99.5, 940.26, 93512.4, 1234567.0, -2000.0].map(number);
    assert_eq!(shown, ["0", "0.031", "2.57", "99.50", "940.3", "93 512", "1 234 567", "-2 000"]);
    assert_eq!(number(f64::NAN), "?");
}

#[test]
fn almost_all_is_not_all() {
    assert_eq!([1.0, 0.9996, 0.5, 0.0].map(percent), ["100.0 %", "99.9 %", "50.0 %", "0.0 %"]);
}

#[test]
fn the_farther_end_is_the_deviation() {
    assert_eq!(deviation(&Spread { median: 100.0, low: 92.0, high: 103.0 }), "±8%");
    assert_eq!(deviation(&Spread { median: 0.0, low: 0.0, high: 0.0 }), "");
}
