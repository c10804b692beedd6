//! The right to see what a process sends and receives: that to attach to it as a debugger (ptrace(2)).
//!
//! The kernel says so: /proc/PID/mem opens for nobody else (PTRACE_MODE_ATTACH_FSCREDS; user, capabilities, dumpable, and
//! the policy of Yama or another security module). Everything that is looked at afterwards is found through the same
//! directory, which stays that of the same process when its number is given to another one.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{open, openat, OFlag};
use nix::sys::stat::Mode;

/// A process that may be looked into.
#[derive(Debug)]
pub struct Opened {
    pub pid: u32,
    folder: OwnedFd,
    /// Where its program and its stack begin. The kernel chooses other addresses with each execve(2), mostly (ASLR).
    program: Option<[u64; 2]>,
}

/// What a process has of such memory.
#[derive(Debug, Default)]
pub struct Memories {
    /// Inodes and files.
    pub found: Vec<(u64, File)>,
    /// There may be more, for which there was no descriptor.
    pub exhausted: bool,
}

/// Why a process may not be looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// It is not there any more.
    Gone,
    /// In words, with the right that is missing.
    Why(String),
}

const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_CLOEXEC);

impl Opened {
    /// Asks the kernel for the right to look into process `pid`.
    ///
    /// # Errors
    ///
    /// See [`Denied`].
    pub fn new(pid: u32) -> Result<Opened, Denied> {
        let path = PathBuf::from(format!("/proc/{pid}"));
        let folder = open(&path, OFlag::O_DIRECTORY | READ, Mode::empty()).map_err(|_| Denied::Gone)?;
        let mut opened = Opened { pid, folder, program: None };
        opened.program = opened.program().ok().flatten();
        match opened.open("mem") {
            Ok(_) => Ok(opened),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                Err(Denied::Why(why(&path)))
            }
            Err(_) => Err(Denied::Gone),
        }
    }

    /// A file of its folder in /proc.
    ///
    /// # Errors
    ///
    /// Those of open(2).
    pub fn open(&self, name: impl AsRef<Path>) -> io::Result<File> {
        Ok(File::from(openat(self.folder.as_fd(), name.as_ref(), READ, Mode::empty())?))
    }

    /// Whether it lives, and has executed nothing since it was opened; as far as it can be told.
    pub fn is_the_same(&self) -> bool {
        match self.program() {
            Err(error) => is_exhausted(&error),
            Ok(program) => program.is_some() && program == self.program,
        }
    }

    /// `None`: it has ended.
    fn program(&self) -> io::Result<Option<[u64; 2]>> {
        let mut text = String::new();
        // Reaped, it has no file; a zombie has one, and says so.
        self.open("stat")?.read_to_string(&mut text)?;
        Ok(program_in(&text))
    }

    /// The memories with that name that it has, as descriptors or else mapped, each once. Those of `known` are not opened
    /// again. It ends when it has `most`: a program may have very many descriptors.
    pub fn memories(&self, name: &str, most: usize, known: &dyn Fn(u64) -> bool) -> Memories {
        let wanted = format!("/memfd:{name} (deleted)");
        let Memories { mut found, mut exhausted } = Memories::default();
        for list in ["fd", "map_files"] {
            // Only the superuser can open a mapping; everybody else needs a descriptor.
            if !found.is_empty() {
                break;
            }
            let entries = std::fs::read_dir(format!("/proc/{}/{list}", self.pid));
            exhausted |= entries.as_ref().is_err_and(is_exhausted);
            for entry in entries.into_iter().flatten().flatten() {
                if found.len() >= most {
                    break;
                }
                if !std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()) {
                    continue;
                }
                let Ok(inode) = std::fs::metadata(entry.path()).map(|data| data.ino()) else { continue };
                if known(inode) || found.iter().any(|(other, _)| *other == inode) {
                    continue;
                }
                let name = Path::new(list).join(entry.file_name());
                match self.open(name) {
                    Ok(file) => found.extend(
                        file.metadata().is_ok_and(|data| data.ino() == inode).then_some((inode, file)),
                    ),
                    Err(error) => exhausted |= is_exhausted(&error),
                }
            }
        }
        Memories { found, exhausted }
    }
}

/// Whether this program has as many descriptors as it may have, or the host has.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The addresses in /proc/PID/stat (proc_pid_stat(5), startcode and startstack). `None`: it has ended.
fn program_in(stat: &str) -> Option<[u64; 2]> {
    // The name, which is before the last bracket, may have anything in it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let lives = fields.first().is_some_and(|state| !state.starts_with(['Z', 'X']));
    let number = |at: usize| fields.get(at)?.parse().ok();
    if lives {
        Some([number(23)?, number(25)?])
    } else {
        None
    }
}

/// Which right is missing, as far as it can be told.
fn why(path: &Path) -> String {
    let number = |name: &str| {
        let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u32>().ok())
    };
    let (theirs, ours) = (number("Uid:"), nix::unistd::geteuid().as_raw());
    let owner = std::fs::metadata(path).map(|data| data.uid()).ok();
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let name = |uid: u32| {
        let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
        user.map_or_else(|| format!("user {uid}"), |user| format!("{} ({uid})", user.name))
    };
    let missing = match theirs {
        Some(theirs) if theirs != ours => {
            format!("it is {}'s, and you are {}: be the same user, or have CAP_SYS_PTRACE", name(theirs), name(ours))
        }
        Some(theirs) if owner.is_some_and(|owner| owner != theirs) => {
            "it is not dumpable, as prctl(2) says (PR_SET_DUMPABLE), or has executed a file that gave it rights: have \
             CAP_SYS_PTRACE"
                .into()
        }
        _ if !matches!(yama.trim(), "" | "0") => format!(
            "kernel.yama.ptrace_scope is {}, so a user may not attach to a process beside its own: have CAP_SYS_PTRACE, or \
             set it to 0",
            yama.trim()
        ),
        _ => "it has rights that you have not, another user namespace, or a security module forbids it: have CAP_SYS_PTRACE \
              there"
            .into(),
    };
    format!("Operation not permitted: what it sends is seen only by whoever may attach to it with ptrace(2); {missing}")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn one_that_ended_or_executed_something_is_not_the_same() {
        let stat = |state: &str| {
            let rest: Vec<String> = (4..=28).map(|field| (field * 10).to_string()).collect();
            format!("7 (a) b) {state} {}", rest.join(" "))
        };
        assert_eq!(program_in(&stat("S")), Some([260, 280]));
        assert_eq!(program_in(&stat("Z")), None);
        assert_eq!(program_in("7 (a) S 1"), None);

        // The same file again, so its name tells nothing.
        let mut shell = Command::new("sh");
        shell.args(["-c", "read x; exec sh -c 'read y; exit'"]).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let executes = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let until = |what: &str, so: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(20);
            while !so() {
                assert!(Instant::now() < end, "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let pid = shell.id();
        until("the shell", &|| executes(pid).starts_with(b"sh\0-c\0read x"));
        let opened = Opened::new(pid).unwrap();
        assert!(opened.is_the_same());
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        until("the next one", &|| executes(pid).starts_with(b"sh\0-c\0read y"));
        assert!(!opened.is_the_same());
        let again = Opened::new(pid).unwrap();
        assert!(again.is_the_same());
        drop(input);
        until("its end", &|| !again.is_the_same());
        shell.wait().unwrap();
        assert!(!again.is_the_same());
    }
}
