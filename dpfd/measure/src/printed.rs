//! What a measurement prints.

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
