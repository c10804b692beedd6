//! Where our drop-in stands among the files of a unit. systemd reads drop-ins by name, whichever folder they are in, so a file with
//! a later name than ours has the last word over our lines.

use std::path::Path;

use super::{find, Assignment, Unit};

/// Whether a file is read after our drop-in.
pub fn is_later(file: &Path) -> bool {
    file.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.ends_with(".conf") && name > find::FILE)
}

impl Unit {
    /// What files before our drop-in assign to a setting of [Service], and what those after it do; empty assignments as well.
    pub(super) fn around(&self, key: &str) -> (Vec<&Assignment>, Vec<&Assignment>) {
        let all = self.assignments.iter().filter(|a| a.section == "Service" && a.key == key);
        all.partition(|a| !is_later(&a.file))
    }
}

/// Why no line of ours holds against those that are read later, and the way out.
pub fn too_late(key: &str, later: &[&Assignment]) -> String {
    let mut files: Vec<&Path> = later.iter().map(|a| a.file.as_path()).collect();
    files.dedup();
    let name = files.first().and_then(|file| file.file_name()).unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    format!(
        "{key}= is begun, emptied or narrowed in {}, which is read after {}, so no line there opens what the shim needs; \
         give it a lower number than 50, as 40-{name}",
        files.join(" and "),
        find::FILE
    )
}
