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
use crate::program::{self, Interpreter};

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
    let interpreter = program::interpreter(file);
    let mut all_seen = true;
    let mut is_wanted = |path: PathBuf| match fs::metadata(path) {
        Ok(has) => (has.dev(), has.ino()) == (wanted.dev(), wanted.ino()),
        Err(error) => {
            all_seen &= error.kind() != io::ErrorKind::PermissionDenied;
            false
        }
    };
    let pids = others(|pid| match &interpreter {
        None => is_wanted(format!("/proc/{pid}/exe").into()),
        Some(interpreter) => {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|&byte| byte == 0).take(3).collect();
            let scripts = scripts(&words, interpreter);
            scripts.into_iter().any(|word| is_wanted(seen_by(pid, word)))
                && executes(pid, words[0], interpreter)
        }
    })?;
    Ok((pids, all_seen))
}

/// Words of which one is the script's path in a process that executes it: the kernel puts it behind the interpreter's own and the one
/// word that may stand behind that in its first line.
fn scripts<'a>(words: &[&'a [u8]], interpreter: &Interpreter) -> Vec<&'a [u8]> {
    let &[_, first, ref second @ ..] = words else { return Vec::new() };
    // Else that is the script, and what follows is for it.
    let is_before = first.starts_with(b"-")
        || first == interpreter.argument
        || first == interpreter.file.as_os_str().as_bytes();
    let second = second.iter().copied().filter(|_| is_before);
    [first].into_iter().chain(second).filter(|word| !word.is_empty()).collect()
}

/// Whether a process whose command line begins so is one of the interpreter's, and no editor of its scripts.
fn executes(pid: u32, name: &[u8], interpreter: &Interpreter) -> bool {
    let file = interpreter.file.as_os_str().as_bytes();
    if last(file) == b"env" {
        // It has become the program that its words name, if they can be told from its options.
        return interpreter.named().is_none_or(|program| last(program.as_bytes()) == last(name));
    }
    let file_of = |path: PathBuf| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let wanted = seen_by(pid, file);
    // A wrapper may execute the real interpreter by its own name, and one that is a script any program.
    name == file
        || program::interpreter(&wanted).is_some()
        || file_of(format!("/proc/{pid}/exe").into()).is_some_and(|exe| file_of(wanted) == Some(exe))
}

/// The file that a path stands for in a process.
fn seen_by(pid: u32, path: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path));
    match path.strip_prefix("/") {
        Ok(path) => Path::new(&format!("/proc/{pid}/root")).join(path),
        Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
    }
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
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
    let mut names = [first, file].map(last).into_iter();
    names.find(|name| name.starts_with(short.as_bytes())).map(<[u8]>::to_vec)
}
