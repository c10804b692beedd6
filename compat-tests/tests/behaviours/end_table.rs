//! Every pair of ends (`programs/end_pairs.c`): the same under the shim as natively; and the table of docs/ENDS.md, which is
//! made of what Linux says.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use compat_tests::{Combo, Pair};

/// Exchanges on each connection before; enough that it is a channel.
const WARM: u32 = 64;

/// A line of the program for each pair.
fn pairs(combo: &Combo) -> String {
    let combo = Combo { warm: combo.warm.min(WARM), ..combo.clone() };
    let pair = Pair::c("end_pairs").env("COMPAT_WARM", &combo.warm.to_string());
    let sides = pair.run(&combo);
    for side in &sides {
        assert!(side.ok(), "{}: {}", combo.name, side.text());
    }
    sides[usize::from(combo.swap)].transcript.clone()
}

fn differences(expected: &str, got: &str) -> String {
    let mut text = String::new();
    for (expected, got) in expected.lines().zip(got.lines()).filter(|(expected, got)| expected != got) {
        let _ = writeln!(text, "  natively {expected}\n  here     {got}");
    }
    if expected.lines().count() != got.lines().count() {
        text += "  not as many lines\n";
    }
    text
}

#[test]
fn every_pair_of_ends_is_as_on_linux() {
    let native = pairs(&Combo::native());
    let mut failures = String::new();
    let each_way = |combo: Combo| [false, true].map(|swap| Combo { swap, ..combo.clone() });
    let sides = Combo::sides().into_iter().flat_map(each_way);
    for combo in
        sides.chain(Combo::all(true).into_iter().filter(|combo| combo.warm < WARM || combo.chaos.is_some()))
    {
        let differ = differences(&native, &pairs(&combo));
        if !differ.is_empty() {
            let _ = writeln!(failures, "{}, swapped: {}\n{differ}", combo.name, combo.swap);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// What the program says of a pair, but for the calls that came first.
#[derive(Default)]
struct Said<'a> {
    edge: &'a str,
    level: &'a str,
    poll: &'a str,
    /// What calls of each kind returned, and poll behind them.
    calls: [(String, &'a str); 3],
}

impl Said<'_> {
    fn cells(&self) -> String {
        let Said { edge, level, poll, calls } = self;
        let calls: Vec<_> = calls.iter().map(|(results, poll)| format!("{results}; {poll}")).collect();
        let epoll = if level == poll { String::new() } else { format!("; epoll {level}") };
        format!("{edge} | {poll}{epoll} | {}", calls.join(" | "))
    }
}

/// The results of calls, one after the other, without repeating the last; of all that was unread it says so.
fn shortened(results: &str) -> String {
    let mut results: Vec<_> = results
        .split(", ")
        .map(|result| if result == "5" || result == "40000" { "all" } else { result })
        .collect();
    while results.len() > 1 && results[results.len() - 1] == results[results.len() - 2] {
        results.pop();
    }
    results.join(", ")
}

/// The table: rows of which all cells are the same are one.
fn table(native: &str) -> String {
    let mut text = String::from(
        "| this end | the other's | unread | news | poll | send first; poll then | receive first; poll then | SO_ERROR first; poll then |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let lines: Vec<Vec<&str>> = native.lines().map(|line| line.split('|').collect()).collect();
    // Of one pair of ends the lines stand together: a group for each payload, of one line for each kind of calls.
    for of_ends in lines.chunk_by(|one, other| one[..3] == other[..3]) {
        let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
        for of_payload in of_ends.chunk_by(|one, other| one[3] == other[3]) {
            let mut said = Said { poll: of_payload[0][7], ..Said::default() };
            for line in of_payload {
                let kind =
                    ["send", "receive", "SO_ERROR"].iter().position(|kind| *kind == line[4]).expect("a kind");
                said.calls[kind] = (shortened(line[8]), line[9]);
                match kind {
                    0 => said.edge = line[5],
                    1 => said.level = line[6],
                    _ => {}
                }
            }
            let (cells, payload) = (said.cells(), of_payload[0][3]);
            match rows.iter_mut().find(|row| row.0 == cells) {
                Some(row) => row.1.push(payload),
                None => rows.push((cells, vec![payload])),
            }
        }
        let [own, order, other] = [0, 1, 2].map(|k| of_ends[0][k]);
        let order = if order.is_empty() { String::new() } else { format!(", {order}") };
        for (cells, payloads) in &rows {
            let unread = match payloads.len() {
                5 => "any".to_owned(),
                _ => payloads
                    .join(", ")
                    .replace("few here, many here", "here")
                    .replace("few there, many there", "there"),
            };
            let _ = writeln!(text, "| {own}{order} | {other} | {unread} | {cells} |");
        }
    }
    text
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ENDS.md")
}

const BEGINS: &str = "<!-- made by behaviours::end_table -->\n";
const IS_OVER: &str = "<!-- end of what is made -->\n";

/// `DP_COMPAT_WRITE=1` makes the page's table anew.
#[test]
fn the_table_of_ends_is_what_linux_says() {
    let made = table(&pairs(&Combo::native()));
    let page = fs::read_to_string(document()).expect("docs/ENDS.md");
    let (before, rest) = page.split_once(BEGINS).expect("the table begins");
    let (table, behind) = rest.split_once(IS_OVER).expect("the table is over");
    if std::env::var("DP_COMPAT_WRITE").is_ok_and(|value| value == "1") {
        fs::write(document(), format!("{before}{BEGINS}{made}{IS_OVER}{behind}"))
            .expect("docs/ENDS.md is written");
        return;
    }
    assert!(table == made, "docs/ENDS.md is not what Linux says:\n{}", differences(table, &made));
}
