//! A script: who does what, one operation a line.

use std::fmt;

use thiserror::Error;

/// The side that does a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The process that listens.
    Server,
    /// The process that connects.
    Client,
    /// Both at the same time (`open`, `warm`).
    Both,
    /// Nobody: the runner waits (`settle`).
    Nobody,
}

impl Who {
    const LETTERS: [(Self, &'static str); 4] =
        [(Self::Server, "S"), (Self::Client, "C"), (Self::Both, "B"), (Self::Nobody, "-")];

    /// The other process.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Server => Self::Client,
            Self::Client => Self::Server,
            both => both,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The side that does it.
    pub who: Who,
    /// The operation and its arguments.
    pub words: Vec<String>,
}

impl Line {
    /// A line from its text without the letter.
    pub fn new(who: Who, text: &str) -> Self {
        Self { who, words: text.split_whitespace().map(str::to_owned).collect() }
    }

    /// The word at a place, or nothing.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The words without the letter, as the interpreter reads them.
    pub fn text(&self) -> String {
        self.words.join(" ")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = Who::LETTERS.iter().find(|(who, _)| *who == self.who).map_or("?", |(_, letter)| letter);
        write!(out, "{letter} {}", self.text())
    }
}

/// A line that is none.
#[derive(Debug, Error)]
#[error("line {number}: {text:?} does not begin with S, C, B or - and an operation")]
pub struct BadLine {
    number: usize,
    text: String,
}

/// All operations, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Script(pub Vec<Line>);

impl Script {
    /// Reads a script: comments begin with `#`, empty lines count for nothing.
    ///
    /// # Errors
    /// If a line begins with no known letter, or has no operation.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut lines = Vec::new();
        for (index, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let bad = || BadLine { number: index + 1, text: whole.to_owned() };
            let (letter, rest) = line.split_once(' ').ok_or_else(bad)?;
            let who = Who::LETTERS.iter().find(|(_, known)| *known == letter).ok_or_else(bad)?.0;
            if rest.trim().is_empty() {
                return Err(bad());
            }
            lines.push(Line::new(who, rest));
        }
        Ok(Self(lines))
    }

    /// Adds a line.
    pub fn add(&mut self, who: Who, text: impl AsRef<str>) {
        self.0.push(Line::new(who, text.as_ref()));
    }
}

impl fmt::Display for Script {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}
