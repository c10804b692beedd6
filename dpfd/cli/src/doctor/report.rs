//! What a report has beside what was found: the rules in force, and the end of what shims have written down.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use dp_rules::config::{self, log};
use dp_rules::Rules;
use serde::Serialize;

use super::process;
use crate::ls::families::Family;
use crate::rules::Line;

/// Of each file, bytes at its end.
const MOST: u64 = 16 << 10;

/// As above.
#[derive(Serialize)]
pub struct Report {
    rules: InForce,
    logs: Vec<Log>,
}

/// The rules that a program would go by that this user started now.
#[derive(Serialize)]
struct InForce {
    source: Option<String>,
    /// Why there are none that could be used.
    error: Option<String>,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Log {
    pid: u32,
    /// As `DP_LOG` has it.
    place: String,
    /// The end of the file; null: it is none, or not to be read here.
    text: Option<String>,
}

impl Report {
    pub fn look(families: &[Family]) -> Report {
        let programs = families.iter().filter_map(|family| family.processes.first());
        Report { rules: InForce::look(), logs: programs.filter_map(|p| Log::of(p.pid)).collect() }
    }
}

impl InForce {
    fn look() -> InForce {
        let mut rules = Rules::DEFAULT;
        match config::load(&mut rules) {
            Ok(found) => InForce {
                source: Some(found.source.to_string()),
                error: None,
                lines: (0..rules.iter().len())
                    .filter_map(|i| Line::of(&rules, i, Some(&found.source)))
                    .collect(),
            },
            Err(error) => InForce { source: None, error: Some(error.to_string()), lines: Vec::new() },
        }
    }
}

impl Log {
    /// Of a process; none: its shim writes nothing down.
    fn of(pid: u32) -> Option<Log> {
        let environ = process::read(pid, "environ")?;
        let value = super::neighbours::variable(&environ, log::NAME)?;
        let said = log::parse(&value).ok().flatten()?;
        let text = match &said.place {
            log::Place::File(path) if process::has_our_files(pid) => {
                let [user, _] = process::effective(pid)?;
                end_of(Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())), user)
            }
            _ => None,
        };
        Some(Log { pid, place: said.to_string(), text })
    }
}

/// The end of a file of that user's. Whoever names another one is not helped to read it, nor does a pipe make us wait.
fn end_of(path: &Path, user: u32) -> Option<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.uid() != user {
        return None;
    }
    file.seek(SeekFrom::Start(meta.len().saturating_sub(MOST))).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_read_and_nothing_of_another_user() {
        let path = std::env::temp_dir().join(format!("dp-report-{}", std::process::id()));
        std::fs::write(&path, "x".repeat(20_000) + "end").unwrap();
        let me = nix::unistd::geteuid().as_raw();
        let text = end_of(&path, me).unwrap();
        assert!(text.len() as u64 == MOST && text.ends_with("xend"));
        assert_eq!(end_of(&path, me + 1), None);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(end_of(&path, me), None, "a link");
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(end_of(&path, me), None, "a pipe");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(end_of(&path, me), None);
    }
}
