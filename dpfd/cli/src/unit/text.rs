//! The text of a unit file: sections, assignments, lines that go on, quoted words (systemd.syntax(7)).

use std::path::{Path, PathBuf};

/// `Key=value` in a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub section: String,
    pub key: String,
    pub value: String,
    pub file: PathBuf,
}

/// All that a file assigns. What is no assignment is passed over, as systemd does.
pub fn assignments(text: &str, file: &Path) -> Vec<Assignment> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in lines(text) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            found.push(Assignment { section: section.clone(), key, value, file: file.to_owned() });
        }
    }
    found
}

/// Lines without comments; one that ends in a backslash goes on in the next that is no comment.
fn lines(text: &str) -> Vec<String> {
    let mut whole = Vec::new();
    let mut begun = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(part) => begun = begun + part + " ",
            None => whole.push((std::mem::take(&mut begun) + line).trim().to_owned()),
        }
    }
    whole.push(begun.trim().to_owned());
    whole.retain(|line| !line.is_empty());
    whole
}

/// The words of a value. An error: a quote that is not closed, or an escape that nobody needs in a path.
pub fn words(value: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut chars = value.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(words);
        }
        let (mut word, mut quote) = (String::new(), None);
        loop {
            match chars.next() {
                None if quote.is_some() => return Err("a quote is not closed"),
                None => break,
                Some('\\') => match chars.next() {
                    Some(c @ ('\\' | '"' | '\'')) => word.push(c),
                    Some('s') => word.push(' '),
                    _ => return Err("an escape that dp does not read"),
                },
                Some(c) if quote == Some(c) => quote = None,
                Some(c @ ('"' | '\'')) if quote.is_none() => quote = Some(c),
                Some(c) if quote.is_none() && c.is_whitespace() => break,
                Some(c) => word.push(c),
            }
        }
        words.push(word);
    }
}
