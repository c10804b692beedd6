//! Differences by design: each with its reason, and where users are told of it.

use super::script::{Line, Script};

struct Known {
    reason: &'static str,
    applies: fn(&Script, &Line, native: &str, other: &str) -> bool,
}

/// As few as possible.
const TABLE: &[Known] = &[];

/// Why this line differs, if that is by design.
pub fn known(script: &Script, line: usize, native: &str, other: &str) -> Option<&'static str> {
    let at = &script.0[line];
    TABLE.iter().find(|known| (known.applies)(script, at, native, other)).map(|known| known.reason)
}
