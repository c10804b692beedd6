//! What can be told about a program before it runs: whether the loader will take the shim into it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{getgid, getuid};

mod filter;

/// Interpreters of interpreters are followed this far, as the kernel does.
const SCRIPT_DEPTH: usize = 5;
/// Program headers that are looked at; ordinary programs have about a dozen.
const MAX_HEADERS: usize = 256;
/// Bytes of a note segment that are looked at.
const MAX_NOTES: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// Bytes of a table of dynamic entries that are looked at; ordinary programs have some thirty entries of 16 bytes.
const MAX_DYNAMIC: usize = 4096;

/// Why the shim will not work in a program, and in which file that shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Obstacle {
    file: PathBuf,
    reason: Reason,
}

#[derive(Debug, PartialEq, Eq)]
enum Reason {
    Static,
    Go,
    OtherMachine,
    OtherLoader(PathBuf),
    SetUser(u32),
    SetGroup(u32),
    Capabilities,
    /// The kernel says so of a process; its file does not show why.
    Secure,
    /// The library of AddressSanitizer that it needs, which must be the first of all.
    Sanitizer(String),
    /// A filter that holds for this process already kills whoever makes this system call, which the shim does.
    Killed(&'static str),
}

/// The user and group that start a program, where they are known. A file that gives its process other rights than its starter
/// has, makes the loader ignore the shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Starter {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl Starter {
    /// Whoever runs this command.
    pub fn this() -> Starter {
        Starter { user: Some(getuid().as_raw()), group: Some(getgid().as_raw()) }
    }
}

impl Obstacle {
    /// Whether the program might not even start with the shim in its environment.
    pub fn refuses_shim(&self) -> bool {
        matches!(
            self.reason,
            Reason::OtherLoader(_) | Reason::OtherMachine | Reason::Sanitizer(_) | Reason::Killed(_)
        )
    }

    /// What would change it, in words; without the shim it works as ever, on TCP.
    pub fn way_out(&self) -> &'static str {
        match &self.reason {
            Reason::Static => "take a build of it that is linked dynamically",
            Reason::Go => "none, whoever starts it",
            Reason::OtherMachine => "take its build for this machine, or dp's for that one",
            Reason::OtherLoader(loader) if is_musl(loader) => {
                "take its build for glibc: in a container, an image of Debian or Ubuntu in place of Alpine"
            }
            Reason::OtherLoader(_) => "take its build for glibc",
            Reason::SetUser(_) | Reason::SetGroup(_) | Reason::Capabilities | Reason::Secure => {
                "let the service manager give it its rights (User=, AmbientCapabilities=) in place of its file"
            }
            Reason::Sanitizer(_) => {
                "take a build of it without the sanitizer, or set ASAN_OPTIONS=verify_asan_link_order=0"
            }
            Reason::Killed(_) => {
                "have the filter allow what dp-preload(7), Filters of system calls, lists, or fail it with an error"
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.file.display())?;
        match &self.reason {
            Reason::Static => f.write_str("is statically linked and loads no shim"),
            Reason::Go => {
                f.write_str("is a Go program, which calls the kernel past the C library and the shim")
            }
            Reason::OtherMachine => f.write_str("is built for another kind of machine than the shim"),
            Reason::OtherLoader(loader) => {
                let library = if is_musl(loader) { " of musl" } else { "" };
                write!(f, "uses the loader {}{library}, and the shim is for glibc's", loader.display())
            }
            Reason::SetUser(user) => write!(f, "is setuid (user {user}), so the loader ignores the shim"),
            Reason::SetGroup(group) => write!(f, "is setgid (group {group}), so the loader ignores the shim"),
            Reason::Capabilities => f.write_str("has file capabilities, so the loader ignores the shim"),
            Reason::Secure => {
                f.write_str("was started with other rights than its caller's, so the loader ignores the shim")
            }
            Reason::Sanitizer(library) => {
                write!(
                    f,
                    "needs {library}, which ends a program with another library before it, as the shim is"
                )
            }
            Reason::Killed(call) => {
                write!(f, "would be killed with the shim: a filter of system calls that holds here kills who calls {call}")
            }
        }
    }
}

/// The file that execvp(3) will take for this name.
pub fn find(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let default = OsString::from("/bin:/usr/bin");
    std::env::split_paths(path.unwrap_or(&default))
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// Whether somebody may execute it.
pub fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// What keeps the shim out of this program; None also when the file cannot be looked at, because then
/// executing it says more.
pub fn obstacle(program: &Path) -> Option<Obstacle> {
    // The program inherits this command's PATH, and env(1) searches that.
    let path = std::env::var_os("PATH");
    let named = |interpreter: &Interpreter| find(interpreter.named()?, path.as_deref());
    obstacle_with(program, named, |path, meta| raised_rights(path, meta, Starter::this()))
}

/// The same where this process is about to become it: also what holds for whatever it starts. `ASAN_OPTIONS` is the environment's.
pub fn obstacle_here(program: &Path, asan_options: Option<&OsStr>) -> Option<Obstacle> {
    let may_be_second = asan_options.is_some_and(|o| contains(o.as_bytes(), b"verify_asan_link_order=0"));
    let found = obstacle(program).filter(|o| !(may_be_second && matches!(o.reason, Reason::Sanitizer(_))));
    let killed = |call| Obstacle { file: program.to_owned(), reason: Reason::Killed(call) };
    found.or_else(|| filter::killing().map(killed))
}

/// The same for somebody who starts it.
pub fn obstacle_for(program: &Path, starter: Starter) -> Option<Obstacle> {
    obstacle_with(program, |_| None, |path, meta| raised_rights(path, meta, starter))
}

/// The same of the program of a process that `starter` started. `distrusted`: whether the loader ignored the environment, where
/// the kernel tells.
pub fn obstacle_of_process(program: &Path, starter: Starter, distrusted: Option<bool>) -> Option<Obstacle> {
    let raised = |path: &Path, meta: &Metadata| match distrusted {
        Some(false) => None,
        Some(true) => Some(raised_rights(path, meta, starter).unwrap_or(Reason::Secure)),
        None => raised_rights(path, meta, starter),
    };
    obstacle_with(program, |_| None, raised)
}

/// `named`: the program that an interpreter becomes in place of itself, as env(1) does.
fn obstacle_with(
    program: &Path,
    named: impl Fn(&Interpreter) -> Option<PathBuf>,
    raised: impl Fn(&Path, &Metadata) -> Option<Reason>,
) -> Option<Obstacle> {
    let mut path = program.to_owned();
    for _ in 0..SCRIPT_DEPTH {
        let file = File::open(&path).ok()?;
        let Some(interpreter) = first_line(&file) else {
            let reason = raised(&path, &file.metadata().ok()?).or_else(|| unfit(&path, &file))?;
            return Some(Obstacle { file: path, reason });
        };
        path = named(&interpreter).unwrap_or(interpreter.file);
    }
    None
}

/// What a script names after `#!`.
pub struct Interpreter {
    pub file: PathBuf,
    /// The rest of the line, which the kernel gives it as one word; often nothing.
    pub argument: Vec<u8>,
}

impl Interpreter {
    /// Of env(1), the program that it is to find, if that can be told from its options.
    pub fn named(&self) -> Option<&OsStr> {
        if self.file.file_name()? != "env" {
            return None;
        }
        let words = self.argument.split(|byte| byte.is_ascii_whitespace());
        let mut words = words.filter(|w| !w.is_empty() && !w.starts_with(b"-") && !w.contains(&b'='));
        words.next().map(OsStr::from_bytes)
    }
}

/// The program that reads a file in place of the processor.
pub fn interpreter(script: &Path) -> Option<Interpreter> {
    first_line(&File::open(script).ok()?)
}

fn first_line(file: &File) -> Option<Interpreter> {
    let mut head = [0; 256];
    let len = file.read_at(&mut head, 0).ok()?;
    let line = head[..len].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = &line[line.iter().position(|byte| !is_blank(byte))?..];
    let (name, argument) = line.split_at(line.iter().position(is_blank).unwrap_or(line.len()));
    let file = PathBuf::from(OsStr::from_bytes(name));
    Some(Interpreter { file, argument: argument.trim_ascii().to_vec() })
}

/// Rights that make the loader distrust the environment.
fn raised_rights(path: &Path, meta: &Metadata, starter: Starter) -> Option<Reason> {
    let mode = meta.permissions().mode();
    if mode & 0o4000 != 0 && starter.user != Some(meta.uid()) {
        return Some(Reason::SetUser(meta.uid()));
    }
    // Without group execution the bit means mandatory locking instead.
    if mode & 0o2010 == 0o2010 && starter.group != Some(meta.gid()) {
        return Some(Reason::SetGroup(meta.gid()));
    }
    let has_capabilities = || dp_edge::sys::xattr::has(path, c"security.capability").unwrap_or(false);
    (starter.user != Some(0) && has_capabilities()).then_some(Reason::Capabilities)
}

/// What the program's ELF headers say against the shim.
fn unfit(path: &Path, file: &File) -> Option<Reason> {
    let elf = Elf::read(file)?;
    let own = File::open("/proc/self/exe").ok().and_then(|exe| Elf::read(&exe).map(|own| own.machine));
    if own.is_some_and(|machine| machine != elf.machine) {
        return Some(Reason::OtherMachine);
    }
    if elf.go {
        return Some(Reason::Go);
    }
    let sanitizer = |name: &&String| name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
    match elf.loader {
        Some(loader) if is_glibc(&loader) => {
            elf.needed.iter().find(sanitizer).map(|name| Reason::Sanitizer(name.clone()))
        }
        Some(loader) => Some(Reason::OtherLoader(loader)),
        // The loader can be run as a program; it has no loader of its own and takes the shim all the same.
        None if is_glibc(path) => None,
        None => Some(Reason::Static),
    }
}

fn is_glibc(loader: &Path) -> bool {
    let is = |prefix: &[u8]| loader.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix));
    is(b"ld-linux") || is(b"ld64.so") || is(b"ld.so")
}

/// The loader of Alpine's C library, among others.
fn is_musl(loader: &Path) -> bool {
    loader.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl-"))
}

/// The few things of interest in an ELF file.
struct Elf {
    /// Word size, byte order, instruction set: equal for files that can share a process.
    machine: [u8; 4],
    loader: Option<PathBuf>,
    go: bool,
    /// The libraries that it names itself, as far as they could be read.
    needed: Vec<String>,
}

impl Elf {
    /// None: no ELF file, a broken one, or one of another word size or byte order whose rest was not read.
    fn read(file: &File) -> Option<Elf> {
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0).ok()?;
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let machine = [head[4], head[5], head[18], head[19]];
        let mut elf = Elf { machine, loader: None, go: false, needed: Vec::new() };
        let native_order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if head[4] != 2 || head[5] != native_order {
            return Some(elf);
        }
        let offset = u64::from_ne_bytes(bytes(&head, 32)?);
        let size = usize::from(u16::from_ne_bytes(bytes(&head, 54)?)).max(56);
        let count = usize::from(u16::from_ne_bytes(bytes(&head, 56)?)).min(MAX_HEADERS);
        let (mut loads, mut dynamic) = (Vec::new(), None);
        for i in 0..count {
            let mut header = [0; 56];
            file.read_exact_at(&mut header, offset.checked_add((i * size) as u64)?).ok()?;
            let at = u64::from_ne_bytes(bytes(&header, 8)?);
            let size = u64::from_ne_bytes(bytes(&header, 32)?);
            let len = size.min(MAX_NOTES as u64) as usize;
            match u32::from_ne_bytes(bytes(&header, 0)?) {
                PT_INTERP => elf.loader = Some(read_name(file, at, len)?),
                PT_NOTE => elf.go |= has_go_note(&read_some(file, at, len)?),
                PT_LOAD => loads.push((u64::from_ne_bytes(bytes(&header, 16)?), at, size)),
                PT_DYNAMIC => dynamic = Some((at, size.min(MAX_DYNAMIC as u64) as usize)),
                _ => {}
            }
        }
        elf.needed = dynamic.and_then(|(at, len)| needed(file, at, len, &loads)).unwrap_or_default();
        Some(elf)
    }
}

/// The names of the libraries in the table of dynamic entries. `loads`: address, place in the file and size of what is loaded.
fn needed(file: &File, at: u64, len: usize, loads: &[(u64, u64, u64)]) -> Option<Vec<String>> {
    let table = read_some(file, at, len)?;
    let words =
        |entry: &[u8]| Some((u64::from_ne_bytes(bytes(entry, 0)?), u64::from_ne_bytes(bytes(entry, 8)?)));
    let entries: Vec<(u64, u64)> = table.chunks_exact(16).filter_map(words).collect();
    let names = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?.1;
    let in_file = |address: u64| {
        let (start, at, _) = loads.iter().find(|(start, _, size)| address.wrapping_sub(*start) < *size)?;
        at.checked_add(address - start)
    };
    let name = |offset: u64| {
        let mut name = [0; 64];
        let got = file.read_at(&mut name, in_file(names.checked_add(offset)?)?).ok()?;
        let name = name[..got].split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    Some(entries.iter().filter(|(tag, _)| *tag == DT_NEEDED).filter_map(|(_, at)| name(*at)).collect())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn read_some(file: &File, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut data = vec![0; len];
    file.read_exact_at(&mut data, at).ok()?;
    Some(data)
}

fn read_name(file: &File, at: u64, len: usize) -> Option<PathBuf> {
    let data = read_some(file, at, len)?;
    let name = data.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Whether one of the notes is the build identification that Go's linker leaves.
fn has_go_note(mut notes: &[u8]) -> bool {
    let word = |notes: &[u8], at| bytes(notes, at).map(|b| u32::from_ne_bytes(b) as usize);
    while let (Some(name), Some(data)) = (word(notes, 0), word(notes, 4)) {
        if name == 4 && notes.get(12..16) == Some(b"Go\0\0") {
            return true;
        }
        let len =
            [name, data].iter().try_fold(12usize, |sum, n| sum.checked_add(n.checked_next_multiple_of(4)?));
        match len.and_then(|len| notes.get(len..)) {
            Some(rest) => notes = rest,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
