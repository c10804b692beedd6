//! Variables that look like a mistake, which the shim and the library pass over.

use std::ffi::OsStr;

#[cfg(test)]
mod tests;

/// All variables that the product reads.
pub const NAMES: [&str; 15] = [
    "DP_AFTER",
    "DP_CHAOS",
    "DP_CONFIG",
    "DP_DISABLE",
    "DP_DRIVER",
    "DP_GRAPH",
    "DP_LOG",
    "DP_LOST",
    "DP_NID",
    "DP_RING",
    "DP_RING_LONG",
    "DP_RULES",
    "DP_RUNTIME_DIR",
    "DP_SHIM",
    "DP_SPIN",
];

/// What this project's tests read, one letter off a name of [`NAMES`].
const OF_TESTS: [&str; 1] = ["DP_LONG"];

/// The known name that was probably meant, if this one starts with `DP_`, is not known, and is near one: a letter in five
/// wrong, missing, too many, or two of them exchanged. Others may be a program's own.
pub fn meant(name: &OsStr) -> Option<&'static str> {
    let name = name.to_str()?;
    if NAMES.contains(&name) || OF_TESTS.contains(&name) {
        return None;
    }
    let name = name.strip_prefix("DP_")?;
    let known = NAMES.map(|known| &known[3..]);
    let near = |known: &&str| steps(name, known) <= known.len().div_ceil(5).min(2);
    let (at, _) = known.iter().enumerate().filter(|(_, k)| near(k)).min_by_key(|(_, k)| steps(name, k))?;
    Some(NAMES[at])
}

/// The same in words.
pub fn told(name: &OsStr, meant: &str) -> String {
    format!("{} is not known, and does nothing; is it {meant}?", name.to_string_lossy().escape_debug())
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
