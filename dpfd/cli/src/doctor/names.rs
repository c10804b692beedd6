//! Which processes somebody means by a name, or by a program's file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dp_rules::Pattern;

use super::process;
use crate::ls::{filter, processes};
use crate::program;

/// Processes of that name, in which `*` and `?` stand for others.
///
/// # Errors
///
/// When /proc cannot be listed.
pub fn called(name: &str) -> io::Result<Vec<u32>> {
    let Some(pattern) = Pattern::new(name) else { return Ok(Vec::new()) };
    let is_called = |pid| {
        let Some(short) = process::comm(pid) else { return false };
        match whole(pid, &short) {
            Some(whole) => pattern.matches(&whole) || pattern.matches(short.as_bytes()),
            None => filter::is_called(&pattern, &short),
        }
    };
    others(is_called)
}

/// The processes that execute this file, which may be a script; false: there may be others, of users whose processes may not be
/// seen.
///
/// # Errors
///
/// When /proc cannot be listed.
pub fn executing(file: &Path) -> io::Result<(Vec<u32>, bool)> {
    let Ok(wanted) = fs::metadata(file) else { return Ok((Vec::new(), true)) };
    let is_script = program::is_script(file);
    let mut all_seen = true;
    let mut is_wanted = |path: PathBuf| match fs::metadata(path) {
        Ok(has) => (has.dev(), has.ino()) == (wanted.dev(), wanted.ino()),
        Err(error) => {
            all_seen &= error.kind() != io::ErrorKind::PermissionDenied;
            false
        }
    };
    let pids = others(|pid| match is_script {
        false => is_wanted(format!("/proc/{pid}/exe").into()),
        true => scripts(pid).into_iter().any(&mut is_wanted),
    })?;
    Ok((pids, all_seen))
}

/// Files of which one is the script that a process executes, if it does: the kernel puts its path behind the interpreter's own
/// and the one word that may stand behind that in its first line.
fn scripts(pid: u32) -> Vec<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).skip(1).take(2).filter(|word| !word.is_empty());
    let file = |word: &[u8]| {
        let path = Path::new(OsStr::from_bytes(word));
        match path.strip_prefix("/") {
            Ok(path) => Path::new(&format!("/proc/{pid}/root")).join(path),
            Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
        }
    };
    words.map(file).collect()
}

fn others(is_meant: impl FnMut(u32) -> bool) -> io::Result<Vec<u32>> {
    let me = std::process::id();
    let mut is_meant = is_meant;
    Ok(processes::numbers()?.into_iter().filter(|&pid| pid != me && is_meant(pid)).collect())
}

/// The whole of a name that the kernel has cut: of the words with which it was started, else of its file.
fn whole(pid: u32, short: &str) -> Option<Vec<u8>> {
    if short.len() < filter::CUT {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let file = file.as_os_str().as_bytes();
    let file = file.strip_suffix(b" (deleted)").unwrap_or(file);
    let last = |path: &[u8]| path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
    [first, file].map(last).into_iter().find(|name| name.starts_with(short.as_bytes()))
}
