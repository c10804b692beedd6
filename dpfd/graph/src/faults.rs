//! What is wrong with a file: the line, the words in it, what is wrong with them, and the way out.

use std::fmt::{self, Write};
use std::ops::Range;

use crate::rules::Broken;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    at: Range<usize>,
    first: Option<Range<usize>>,
    /// A short name for it, for programs; it does not change.
    pub word: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do; empty if the fault says it.
    pub way_out: String,
    /// Where: from 1, characters.
    pub line: usize,
    /// As above.
    pub column: usize,
}

impl Fault {
    pub(crate) fn new(at: Range<usize>, word: &'static str, what: String, way_out: String) -> Fault {
        // Names in them are those of the file.
        let (what, way_out) = (shown(&what), shown(&way_out));
        Fault { at, first: None, word, what, way_out, line: 1, column: 1 }
    }

    pub(crate) fn of_toml(error: &toml::de::Error) -> Fault {
        let what = format!("this is no TOML: {}", error.message().lines().collect::<Vec<_>>().join(", "));
        let way = "dp-graph.toml(5) shows what a file looks like";
        Fault::new(error.span().unwrap_or(0..0), "syntax", what, way.into())
    }

    pub(crate) fn of_rule(broken: &Broken, at: Range<usize>, first: Option<Range<usize>>) -> Fault {
        let rule = &broken.rule;
        Fault { first, ..Fault::new(at, rule.word(), rule.to_string(), rule.way_out()) }
    }
}

/// All that is wrong with a text, with its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    text: String,
    /// In the order of the text.
    pub list: Vec<Fault>,
}

impl Faults {
    pub(crate) fn new(text: &str, mut list: Vec<Fault>) -> Faults {
        for fault in &mut list {
            (fault.line, fault.column) = position(text, fault.at.start);
        }
        list.sort_by_key(|fault| (fault.at.start, fault.at.end));
        Faults { text: text.to_string(), list }
    }

    /// All of it for a person, of a file of this name.
    pub fn told(&self, file: &str) -> String {
        let mut told = String::new();
        for fault in &self.list {
            let Fault { line, column, what, way_out, .. } = fault;
            let _ = writeln!(told, "{file}:{line}:{column}: {what}");
            let number = fault.first.as_ref().map(|first| position(&self.text, first.start).0);
            let width = line.max(&number.unwrap_or(0)).to_string().len().max(4);
            if let (Some(first), Some(number)) = (&fault.first, number) {
                self.quote(&mut told, number, first, '-', " first here", width);
            }
            self.quote(&mut told, *line, &fault.at, '^', "", width);
            if !way_out.is_empty() {
                let _ = writeln!(told, "{:width$} = {way_out}", "");
            }
            told.push('\n');
        }
        told
    }

    /// A line of the text, and a mark below the words.
    fn quote(&self, told: &mut String, line: usize, at: &Range<usize>, mark: char, note: &str, width: usize) {
        let begin = self.text[..at.start.min(self.text.len())].rfind('\n').map_or(0, |n| n + 1);
        let source = self.text[begin..].lines().next().unwrap_or("");
        let before = self.text[begin..at.start.min(self.text.len())].chars().count();
        let marked =
            self.text.get(at.clone()).map_or(1, |words| words.lines().next().unwrap_or("").chars().count());
        // Nothing that a terminal would obey.
        let plain = |c: char| if c == '\t' || c.is_control() { ' ' } else { c };
        let source: String = source.chars().map(plain).collect();
        let _ = writeln!(told, "{line:width$} | {}", source.trim_end());
        let marks = mark.to_string().repeat(marked.max(1));
        let _ = writeln!(told, "{:width$} | {}{marks}{note}", "", " ".repeat(before));
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told("graph"))
    }
}

impl std::error::Error for Faults {}

/// A text with nothing in it that a terminal would obey.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Line and column of a byte, from 1, in characters.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}
