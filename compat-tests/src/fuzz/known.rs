//! Differences by design: each with its reason, and where users are told of it.

use super::script::{Line, Script};

struct Known {
    reason: &'static str,
    applies: fn(&Script, &Line, native: &str, other: &str) -> bool,
}

/// As few as possible.
const TABLE: &[Known] = &[Known {
    reason: "Linux' recvmmsg leaves ERESTARTSYS (512) of an interrupted wait for the next call, a number that programs never see",
    applies: |_, _, native, _| native.contains("E512"),
}];

/// Why this line differs, if that is by design.
pub fn known(script: &Script, line: usize, native: &str, other: &str) -> Option<&'static str> {
    let at = &script.0[line];
    TABLE.iter().find(|known| (known.applies)(script, at, native, other)).map(|known| known.reason)
}
