//! Numbers in the environment, and names that look like a mistake.
//!
//! The shim and the library have to go on with what they find, and say nothing: they are loaded into every child. They take
//! the nearest number that can be, or the default. `dp` tells its user of what they would not have taken.

use std::ffi::{OsStr, OsString};
use std::fmt;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// A variable whose value is a whole number.
#[derive(Debug, PartialEq, Eq)]
pub struct Number {
    /// Its name.
    pub name: &'static str,
    /// The least number.
    pub low: u64,
    /// The greatest.
    pub high: u64,
    /// What holds where it is not set.
    pub default: u64,
    /// What it counts.
    pub unit: &'static str,
}

/// Calls on a connection before it is offered a channel.
pub const AFTER: Number = Number { name: "DP_AFTER", low: 0, high: 1 << 20, default: 3, unit: "calls" };
/// Bytes of each of a channel's rings.
pub const RING: Number =
    Number { name: "DP_RING", low: 4096, high: 1 << 26, default: 128 << 10, unit: "bytes" };
/// Bytes of the ring for streams; not above [`RING`]: none.
pub const RING_LONG: Number =
    Number { name: "DP_RING_LONG", low: 0, high: 1 << 26, default: 4 << 20, unit: "bytes" };
/// How long a wait looks before it sleeps, at most.
pub const SPIN: Number =
    Number { name: "DP_SPIN", low: 0, high: 1_000_000, default: 50_000, unit: "nanoseconds" };
/// The seed of switches that tests force; 0: none.
pub const CHAOS: Number =
    Number { name: "DP_CHAOS", low: 0, high: u32::MAX as u64, default: 0, unit: "(a seed)" };
/// This node's own number.
pub const NID: Number =
    Number { name: "DP_NID", low: 1, high: u16::MAX as u64, default: 1, unit: "(a node)" };

/// What the shim reads.
pub const OF_SHIM: [&Number; 5] = [&AFTER, &RING, &RING_LONG, &SPIN, &CHAOS];

/// All variables that the product reads.
pub const NAMES: [&str; 13] = [
    "DP_AFTER",
    "DP_CHAOS",
    "DP_CONFIG",
    "DP_DISABLE",
    "DP_DRIVER",
    "DP_LOST",
    "DP_NID",
    "DP_RING",
    "DP_RING_LONG",
    "DP_RULES",
    "DP_RUNTIME_DIR",
    "DP_SHIM",
    "DP_SPIN",
];

/// A value that is not taken as it stands.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "{name}={value}: {fault}; {low} to {high} {unit} can stand there, the default is {default}: correct it, or unset {name}",
    value = .value.to_string_lossy().escape_debug(), name = .number.name, low = .number.low, high = .number.high,
    unit = .number.unit, default = .number.default
)]
pub struct Wrong {
    /// Of which variable.
    pub number: &'static Number,
    /// Its value.
    pub value: OsString,
    /// Its fault.
    pub fault: Fault,
}

/// Why a value is not taken as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The default holds in its place.
    NotANumber,
    /// The least number holds in its place.
    TooSmall,
    /// The greatest one does.
    TooLarge,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::NotANumber => "not a whole number",
            Fault::TooSmall => "too small",
            Fault::TooLarge => "too large",
        })
    }
}

impl Number {
    /// What this value says; `None` of an empty one, which counts as unset. Space around it does not matter.
    ///
    /// # Errors
    /// It is not a whole number in decimal digits, or out of range.
    pub fn parse(&self, value: &OsStr) -> Result<Option<u64>, Fault> {
        let text = value.to_str().ok_or(Fault::NotANumber)?.trim();
        if text.is_empty() {
            return Ok(None);
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Fault::NotANumber);
        }
        // Too many digits for any number of 64 bits are too many for this one, too.
        match text.parse::<u64>().unwrap_or(u64::MAX) {
            n if n < self.low => Err(Fault::TooSmall),
            n if n > self.high => Err(Fault::TooLarge),
            n => Ok(Some(n)),
        }
    }

    /// What the variable says, without a word about what is wrong with it: out of range, the nearest number; `None` where it
    /// is not set, or is no number.
    pub fn told(&self) -> Option<u64> {
        match self.parse(&std::env::var_os(self.name)?) {
            Ok(said) => said,
            Err(Fault::NotANumber) => None,
            Err(Fault::TooSmall) => Some(self.low),
            Err(Fault::TooLarge) => Some(self.high),
        }
    }

    /// Says what is wrong with the variable.
    ///
    /// # Errors
    /// Its value is not taken as it stands.
    pub fn check(&'static self) -> Result<(), Wrong> {
        let Some(value) = std::env::var_os(self.name) else { return Ok(()) };
        self.parse(&value).map(drop).map_err(|fault| Wrong { number: self, value, fault })
    }
}

/// The known name that was probably meant, if this one starts with `DP_`, is not known, and is near one: a letter in five
/// wrong, missing, too many, or two of them exchanged. Others may be a program's own.
pub fn meant(name: &OsStr) -> Option<&'static str> {
    let name = name.to_str()?.strip_prefix("DP_")?;
    let known = NAMES.map(|known| &known[3..]);
    if known.contains(&name) {
        return None;
    }
    let near = |known: &&str| steps(name, known) <= known.len().div_ceil(5).min(2);
    let (at, _) = known.iter().enumerate().filter(|(_, k)| near(k)).min_by_key(|(_, k)| steps(name, k))?;
    Some(NAMES[at])
}

/// Letters to change, add, take away or exchange with the next, from the one to the other.
fn steps(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    // Row i: from the first i letters of `from` to each beginning of `to`.
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let same = usize::from(from[i - 1] != to[j - 1]);
            let mut least = (rows[i - 1][j - 1] + same).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}
