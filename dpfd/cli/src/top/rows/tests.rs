use super::*;

fn row(kind: Kind, program: &str, tx: Option<f64>, messages: Option<f64>) -> Row {
    let mut rates = Rates::default();
    (rates[TX], rates[OUT]) = (tx, messages);
    Row { program: Some(program.into()), ..Row::new(kind, "open", rates) }
}

fn ordered(by: Sort, reverse: bool) -> String {
    let mut rows = vec![
        row(Kind::Flow, "f", None, Some(9.0)),
        row(Kind::Flow, "g", None, Some(90.0)),
        row(Kind::Program, "a", Some(5.0), None),
        row(Kind::Program, "b", None, None),
        row(Kind::Program, "c", Some(50.0), None),
        row(Kind::Program, "d", Some(5.0), None),
    ];
    sort(&mut rows, by, reverse);
    rows.iter().map(|row| row.program.clone().unwrap()).collect()
}

#[test]
fn the_fastest_come_first_and_the_unknown_last_kind_by_kind() {
    assert_eq!(ordered(Sort::Rate, false), "cadbgf");
    assert_eq!(ordered(Sort::Rate, true), "badcfg");
    assert_eq!(ordered(Sort::Messages, false), "abcdgf");
    assert_eq!(ordered(Sort::Program, false), "abcdfg");
}

#[test]
fn keys_go_through_all_values_and_back() {
    let mut by = Sort::Rate;
    for _ in Sort::value_variants() {
        by = by.next(false).next(true).next(false);
    }
    assert_eq!((by, Sort::Rate.next(true), Sort::Tx.word().as_str()), (Sort::Rate, Sort::State, "tx"));
}
