//! Numbers in the environment.
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
    /// is not set, is no number, or is not to be believed.
    pub fn told(&self) -> Option<u64> {
        if crate::sys::process::is_privileged() {
            return None;
        }
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
