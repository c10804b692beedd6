//! What a measurement prints, and how numbers are rounded for it.

use serde::Serialize;

/// A report.
pub trait Printed: Serialize {
    /// Tables for people.
    fn text(&self) -> String;

    /// One object for programs.
    fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data") + "\n"
    }
}

/// To as many places as mean something: 10 are one behind the point.
pub fn round(x: f64, unit: f64) -> f64 {
    (x * unit).round() / unit
}

/// To one place behind the point.
pub fn tenth(x: f64) -> f64 {
    round(x, 10.0)
}

/// How sure a number is, in whole units; of a single turn nobody knows how far others are from it.
pub fn half(half: f64) -> String {
    match half.is_finite() {
        true => format!("{half:.0}"),
        false => "?".to_string(),
    }
}
