//! What the unit's environment has of LD_PRELOAD already, and whether ours can be joined to it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::{find, order, text, Home, Unit};
use crate::shim;

const NAME: &str = "LD_PRELOAD";

/// The value with the shim first.
///
/// # Errors
///
/// A sentence why that cannot be done safely.
pub fn joined(home: &Home, unit: &Unit, shim: &Path) -> Result<String, String> {
    for (key, why) in [
        ("UnsetEnvironment", "takes LD_PRELOAD out of the environment again"),
        ("PassEnvironment", "hands on LD_PRELOAD of systemd's own, whose value is not known here"),
    ] {
        if let Some(found) = unit.list(key).iter().find(|a| a.value.split_whitespace().any(is_preload)) {
            return Err(format!("{key}= in {} {why}; change that first", found.file.display()));
        }
    }
    for found in unit.list("EnvironmentFile") {
        in_file(home, &found.value)?;
    }
    if shim.as_os_str().as_encoded_bytes().iter().any(|byte| b"%\"'\\\n".contains(byte)) {
        return Err(shim::ShimError::Specifier(shim.to_owned()).to_string());
    }
    let present = present(unit)?;
    let joined = shim::preload(shim, present.map(OsString::from)).map_err(|error| error.to_string())?;
    joined.into_string().map_err(|_| "the shim's path is no text".to_owned())
}

fn is_preload(word: &str) -> bool {
    word.split('=').next() == Some(NAME)
}

/// The last value that `Environment=` gives.
fn present(unit: &Unit) -> Result<Option<String>, String> {
    let mut present = None;
    for a in unit.assignments.iter().filter(|a| a.section == "Service" && a.key == "Environment") {
        let file = a.file.display();
        let later = order::is_later(&a.file);
        if a.value.is_empty() {
            if later {
                return Err(format!(
                    "{file} is read after {} and empties the environment; give it a lower number than 50",
                    find::FILE
                ));
            }
            present = None;
            continue;
        }
        if !a.value.contains(NAME) {
            continue;
        }
        let words =
            text::words(&a.value).map_err(|why| format!("{file}: Environment= has LD_PRELOAD, and {why}"))?;
        for value in words.iter().filter_map(|word| word.strip_prefix(NAME)?.strip_prefix('=')) {
            if later {
                return Err(format!(
                    "{file} is read after {} and sets LD_PRELOAD; give it a lower number than 50",
                    find::FILE
                ));
            }
            if value.contains(['%', '"', '\'', '\\', '\n']) {
                return Err(format!(
                    "{file} sets LD_PRELOAD={value}, which cannot be joined as it is: it has a specifier or a quote; write the paths out"
                ));
            }
            present = Some(value.to_owned());
        }
    }
    Ok(present)
}

/// A file of variables counts before `Environment=`.
fn in_file(home: &Home, value: &str) -> Result<(), String> {
    let path = value.trim_start_matches('-');
    if path.contains(['%', '*', '?', '[']) {
        // Which files that will be is decided when the service starts.
        return Ok(());
    }
    let path = home.path(Path::new(path));
    let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    match text.lines().any(|line| is_preload(line.trim_start())) {
        true => Err(format!(
            "{} sets LD_PRELOAD, and counts before all else; take it out there, or add the shim there by hand",
            path.display()
        )),
        false => Ok(()),
    }
}
