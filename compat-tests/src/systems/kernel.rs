//! The kernel driver, in its guest: what `.ci/kernel figures` prints. Its machine is an emulated one, so its figures are a
//! table of their own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::measure::kit::Kit;
use crate::measure::Error;

/// The guest is built for it, and boots twice.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Whether the guest's system has been made already: gigabytes that nobody should get by surprise.
pub fn prepared(script: &Path) -> bool {
    let cache = script.with_file_name("kernel-root");
    let said = Command::new(cache).arg("--cache").stdin(Stdio::null()).output();
    let folder =
        said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_string()).unwrap_or_default();
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().join("complete").exists())
}

/// Builds and boots the guest; its figures, a line each.
///
/// # Errors
/// It cannot be built or booted here, or has no figures to tell; an interrupt.
pub fn figures(kit: &Kit, script: &Path) -> Result<Vec<String>, Error> {
    let mut command = Command::new(script);
    command.arg("figures");
    let finished = kit.start(command, "the kernel driver's guest", None)?.finish(PATIENCE)?;
    let lines = parse(&finished.out);
    match lines.is_empty() {
        true => Err(Error::words("the kernel driver's guest", &finished.out)),
        false => Ok(lines),
    }
}

/// What the guest says of itself and of what it measured begins with a number sign.
pub(super) fn parse(console: &str) -> Vec<String> {
    let figure = |line: &str| line.strip_prefix("# ").map(|line| line.trim().to_string());
    let lines: Vec<String> = console.lines().filter_map(figure).collect();
    // Of a guest that only started there is nothing to tell.
    if lines.iter().any(|line| line.contains(" us") || line.contains(" ns")) {
        lines
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
