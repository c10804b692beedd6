//! The processes that have the shim, as /proc tells: those too that have no connection, and so no family yet.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use dp_channel::family;

/// What the shim's file is called; one that somebody renamed is known by its family's memory only.
const LIBRARY: &str = "libdp_preload";

/// One process that this user may look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number in /proc, and in its own pid namespace.
    pub pid: u32,
    pub inner: u32,
    /// Its parent's, in /proc.
    pub parent: u32,
    /// Inode of that namespace.
    pub space: u32,
    /// Effective user.
    pub uid: u32,
    /// Name up to 15 bytes, and the file that it executes.
    pub name: String,
    pub file: PathBuf,
    /// Inode of its family's memory.
    pub family: Option<u64>,
    /// Version of the library's file, if it can be read.
    pub shim: Option<String>,
    /// The library's file is not the one at its path any more.
    pub replaced: bool,
    /// It was started with `DP_DISABLE`.
    pub disabled: bool,
}

/// All of them, by number.
///
/// # Errors
///
/// When /proc cannot be listed. Processes that vanish or are not ours to see are passed over.
pub fn all() -> io::Result<Vec<Process>> {
    let mut versions = HashMap::new();
    let me = std::process::id();
    let mut pids = numbers()?;
    pids.retain(|&pid| pid != me);
    Ok(pids.into_iter().filter_map(|pid| Process::look(pid, &mut versions)).collect())
}

/// The processes that /proc has.
pub fn numbers() -> io::Result<Vec<u32>> {
    let mut pids: Vec<u32> =
        fs::read_dir("/proc")?.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Whether this user may look into process `pid`.
pub fn may_see(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).is_ok()
}

/// Whether this user may read what process `pid` has mapped; one that is gone hides nothing.
pub fn may_see_maps(pid: u32) -> bool {
    let opened = File::open(format!("/proc/{pid}/maps"));
    opened.is_ok_and(|mut maps| maps.read(&mut [0]).is_ok()) || fs::metadata(format!("/proc/{pid}")).is_err()
}

impl Process {
    /// Whether `parent` forked it, and it executed nothing since.
    pub fn is_fork_of(&self, parent: &Process) -> bool {
        self.parent == parent.pid && self.file == parent.file && self.disabled == parent.disabled
    }

    /// Process `pid`, if it has the shim and may be looked into; `versions` keeps those of files that were read.
    pub fn look(pid: u32, versions: &mut HashMap<u64, Option<String>>) -> Option<Process> {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
        let maps = read("maps")?;
        let maps = Maps::of(&String::from_utf8_lossy(&maps));
        if maps.family.is_none() && maps.library.is_none() {
            return None;
        }
        let status = read("status")?;
        let (inner, parent, uid) = numbers_in(&String::from_utf8_lossy(&status))?;
        let name = String::from_utf8_lossy(&read("comm")?).trim_end_matches('\n').to_string();
        let space = fs::metadata(format!("/proc/{pid}/ns/pid")).map_or(0, |data| data.ino() as u32);
        let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let disabled = maps.family.is_none() && read("environ").is_some_and(|e| is_disabled(&e));
        let replaced = maps.library.as_ref().is_some_and(Library::is_replaced);
        let shim = maps.library.and_then(|library| {
            versions.entry(library.inode).or_insert_with(|| library.version(pid)).clone()
        });
        Some(Process {
            pid,
            inner,
            parent,
            space,
            uid,
            name,
            file,
            family: maps.family,
            shim,
            replaced,
            disabled,
        })
    }
}

/// The innermost number, the parent and the effective user of /proc/PID/status.
fn numbers_in(status: &str) -> Option<(u32, u32, u32)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // Before Linux 4.1 there is no NSpid.
    let inner = field("NSpid:").or_else(|| field("Pid:"))?.split_whitespace().last()?.parse().ok()?;
    let parent = field("PPid:")?.trim().parse().ok()?;
    let uid = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    Some((inner, parent, uid))
}

/// As the shim reads its environment.
fn is_disabled(environ: &[u8]) -> bool {
    let values = environ.split(|&b| b == 0).filter_map(|v| v.strip_prefix(b"DP_DISABLE="));
    values.take(1).any(|value| !value.is_empty() && value != b"0")
}

/// What a process has mapped of Directed Point.
#[derive(Debug, Default, PartialEq, Eq)]
struct Maps {
    family: Option<u64>,
    library: Option<Library>,
}

#[derive(Debug, PartialEq, Eq)]
struct Library {
    path: String,
    inode: u64,
    /// Where it is mapped, as /proc/PID/map_files names it.
    range: String,
}

impl Maps {
    fn of(text: &str) -> Maps {
        let memory = format!("/memfd:{} (deleted)", family::NAME.to_string_lossy());
        let mut found = Maps::default();
        for line in text.lines() {
            let Some((fields, path)) = line.find('/').map(|at| line.split_at(at)) else { continue };
            let fields: Vec<&str> = fields.split_whitespace().collect();
            let (Some(range), Some(Ok(inode))) = (fields.first(), fields.get(4).map(|n| n.parse())) else {
                continue;
            };
            if path == memory {
                found.family = found.family.or(Some(inode));
            } else if path.rsplit('/').next().is_some_and(|name| name.starts_with(LIBRARY)) {
                let (path, range) = (path.to_string(), range.to_string());
                found.library = found.library.or(Some(Library { path, inode, range }));
            }
        }
        found
    }
}

impl Library {
    /// Whether another file has taken its path, or none has it.
    fn is_replaced(&self) -> bool {
        self.path.ends_with(" (deleted)")
    }

    /// The version that the file itself tells; not that of one that took its name meanwhile.
    fn version(&self, pid: u32) -> Option<String> {
        let named = format!("/proc/{pid}/root{}", self.path.trim_end_matches(" (deleted)"));
        let mapped = format!("/proc/{pid}/map_files/{}", self.range);
        [named, mapped].into_iter().map(PathBuf::from).find_map(|path| {
            let file = File::open(path).ok()?;
            (file.metadata().ok()?.ino() == self.inode).then(|| note(file)).flatten()
        })
    }
}

/// The version in the library's ELF note (preload/src/note.rs), if there is one.
fn note(mut file: impl Read + Seek) -> Option<String> {
    let mut at = |from: u64, len: usize| {
        let mut bytes = vec![0; len];
        file.seek(SeekFrom::Start(from)).ok()?;
        file.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let number = |bytes: &[u8], from: usize, len: usize| {
        bytes.get(from..from + len).map(|b| b.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b)))
    };
    let head = at(0, 64)?;
    // ELF of 64 bits, least significant byte first: where the shim runs.
    if head[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(&head, 32, 8)?, number(&head, 54, 2)?, number(&head, 56, 2)?);
    for i in 0..count.min(64) {
        let segment = at(table.checked_add(i * size)?, 56)?;
        const PT_NOTE: u64 = 4;
        if number(&segment, 0, 4)? != PT_NOTE {
            continue;
        }
        let notes = at(number(&segment, 8, 8)?, number(&segment, 32, 8)?.min(65_536) as usize)?;
        let mut rest = &notes[..];
        while let (Some(name), Some(text)) = (number(rest, 0, 4), number(rest, 4, 4)) {
            let padded = |n: u64| (n as usize).checked_next_multiple_of(4);
            let from = padded(name)?.checked_add(12)?;
            let to = from.checked_add(padded(text)?)?;
            let Some(note) = rest.get(..to) else { break };
            if note.get(12..12 + family::NOTE.len()) == Some(family::NOTE) {
                let text = note[from..].split(|&b| b == 0).next().unwrap_or_default();
                return Some(String::from_utf8_lossy(text).into_owned());
            }
            rest = &rest[to..];
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_tell_the_family_and_the_library() {
        let text = "\
55d0-55d1 r--p 00000000 08:01 77   /usr/bin/cat
7f00-7f10 rw-s 00000000 00:01 1033                       /memfd:dp-family (deleted)
7f10-7f20 rw-s 00000000 00:01 1034                       /memfd:dp-arena (deleted)
7f20-7f30 r--p 00000000 08:01 99                         /opt/a b/libdp_preload.so (deleted)
7f30-7f40 r-xp 00001000 08:01 99                         /opt/a b/libdp_preload.so (deleted)
7ffe-7fff rw-p 00000000 00:00 0                          [stack]
";
        let library = Library {
            path: "/opt/a b/libdp_preload.so (deleted)".into(),
            inode: 99,
            range: "7f20-7f30".into(),
        };
        assert_eq!(Maps::of(text), Maps { family: Some(1033), library: Some(library) });
        assert_eq!(Maps::of("nonsense /\n/\n"), Maps::default());
    }

    #[test]
    fn a_process_in_a_namespace_has_two_numbers() {
        let status = "Name:\tx\nPid:\t4711\nPPid:\t7\nUid:\t1000\t1001\t0\t0\nNSpid:\t4711\t12\t1\n";
        assert_eq!(numbers_in(status), Some((1, 7, 1001)));
        assert_eq!(numbers_in("Pid:\t4711\nPPid:\t0\nUid:\t0\t0\t0\t0\n"), Some((4711, 0, 0)));
        assert_eq!(numbers_in("Pid:\tx\n"), None);
    }

    #[test]
    fn only_a_value_that_the_shim_heeds_disables() {
        assert!(is_disabled(b"A=1\0DP_DISABLE=1\0"));
        assert!(
            !is_disabled(b"DP_DISABLE=0\0")
                && !is_disabled(b"DP_DISABLE=\0")
                && !is_disabled(b"XDP_DISABLE=1")
        );
    }

    #[test]
    fn a_note_that_is_cut_off_or_absent_is_none() {
        use std::io::Cursor;
        let mut file = vec![0u8; 200];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64] = 4;
        file[64 + 8] = 128;
        file[64 + 32] = 40;
        file[128] = family::NOTE.len() as u8;
        file[132] = 6;
        file[140..140 + family::NOTE.len()].copy_from_slice(family::NOTE);
        let text = 140 + family::NOTE.len().next_multiple_of(4);
        file[text..text + 6].copy_from_slice(b"1.2.3\0");
        assert_eq!(note(Cursor::new(file.clone())).as_deref(), Some("1.2.3"));
        file[132] = 255;
        assert_eq!(note(Cursor::new(file.clone())), None);
        file[64 + 32] = 0;
        assert_eq!(note(Cursor::new(file.clone())), None);
        assert_eq!(note(Cursor::new(&file[..40])), None);
        assert_eq!(note(Cursor::new(b"\x7fELF\x01\x01")), None);
    }
}
