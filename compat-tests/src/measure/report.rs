//! What was measured, as a table for people: aligned columns, numbers that can be read, colour where it is wanted.

mod row;

use std::env;
use std::io::{stdout, IsTerminal};

use dp_measure::stats::Spread;

pub use self::row::{Column, Row, Target};

/// One cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Option<Style>,
}

/// How a cell stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Worth looking at.
    Strong,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
}

impl Cell {
    /// What it says.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A cell that stands out.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style: Some(style) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), style: None }
    }
}

/// Titles, and how a column is aligned.
#[derive(Clone, Copy, Debug)]
pub enum Title {
    /// Words begin at the same place.
    Left(&'static str),
    /// Numbers end at the same place.
    Right(&'static str),
}

impl Title {
    /// Without its alignment.
    pub fn text(self) -> &'static str {
        match self {
            Title::Left(text) | Title::Right(text) => text,
        }
    }
}

/// Whether standard output takes colours: a terminal, and nobody has asked for none (<https://no-color.org>).
pub fn colours() -> bool {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    stdout().is_terminal() && !unwanted && !dumb
}

/// The rows below their titles; an empty row is a blank line.
pub fn table(titles: &[Title], rows: &[Vec<Cell>], colours: bool) -> String {
    let head: Vec<Cell> = titles.iter().map(|title| title.text().into()).collect();
    let width = |i: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(i));
        cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let mut text = String::new();
    for row in [&head].into_iter().chain(rows) {
        let mut line = String::new();
        for ((cell, title), width) in row.iter().zip(titles).zip(&widths) {
            let space = " ".repeat(width - cell.text.chars().count());
            let shown = paint(cell, colours);
            match title {
                Title::Left(_) => line.extend([shown.as_str(), &space]),
                Title::Right(_) => line.extend([space.as_str(), &shown]),
            }
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn paint(cell: &Cell, colours: bool) -> String {
    let code = match cell.style.filter(|_| colours) {
        None => return cell.text.clone(),
        Some(Style::Strong) => 1,
        Some(Style::Good) => 32,
        Some(Style::Bad) => 31,
    };
    format!("\x1b[{code}m{}\x1b[0m", cell.text)
}

/// Three digits where there are few, thousands set apart where there are many: `0.031`, `2.57`, `93 512`.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "?".to_string(),
        0.0 => "0".to_string(),
        size if size < 1.0 => format!("{value:.3}"),
        size if size < 100.0 => format!("{value:.2}"),
        size if size < 1000.0 => format!("{value:.1}"),
        _ => grouped(value.round() as i64),
    }
}

/// A count, with thousands set apart.
pub fn count(value: u64) -> String {
    grouped(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The farther end of the spread, in percent of the median: `±3%`.
pub fn deviation(spread: &Spread) -> String {
    if spread.median == 0.0 {
        return String::new();
    }
    let farthest = (spread.high - spread.median).max(spread.median - spread.low);
    format!("±{:.0}%", 100.0 * farthest / spread.median)
}

/// A part of a whole: `99.8 %`, and 100 only if nothing at all is missing.
pub fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    match percent {
        p if (99.9..100.0).contains(&p) => "99.9 %".to_string(),
        p => format!("{p:.1} %"),
    }
}

fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    if value < 0 {
        text.insert(0, '-');
    }
    text
}

#[cfg(test)]
mod tests;
