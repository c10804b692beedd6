//! Who may see what a process sends and receives: whoever may attach to it as a debugger (ptrace(2)).
//!
//! The kernel says so: /proc/PID/mem opens for nobody else (PTRACE_MODE_ATTACH_FSCREDS; user, capabilities, dumpable, and
//! the policy of Yama or another security module). Everything that is looked at afterwards is found through the same
//! directory, which stays that of the same process when its number is given to another one.

use std::fs::File;
use std::io;
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
        let opened = Opened { pid, folder };
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

    /// Whether it lives.
    pub fn lives(&self) -> bool {
        self.open("stat").is_ok_and(|mut file| {
            let mut text = String::new();
            // Reaped, it has no file; a zombie has one, and says so.
            io::Read::read_to_string(&mut file, &mut text).is_ok()
                && !text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
        })
    }

    /// The memories with that name that it has, as descriptors or else mapped, each once: their inodes and files. Those of
    /// `known` are not opened again. With `one` it ends with the first: a program may have very many descriptors.
    pub fn memories(&self, name: &str, one: bool, known: &dyn Fn(u64) -> bool) -> Vec<(u64, File)> {
        let wanted = format!("/memfd:{name} (deleted)");
        let mut found: Vec<(u64, File)> = Vec::new();
        for list in ["fd", "map_files"] {
            // What is mapped can be opened by the superuser only; everybody else needs a descriptor.
            if !found.is_empty() {
                break;
            }
            for entry in
                std::fs::read_dir(format!("/proc/{}/{list}", self.pid)).into_iter().flatten().flatten()
            {
                if !std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()) {
                    continue;
                }
                let Ok(inode) = std::fs::metadata(entry.path()).map(|data| data.ino()) else { continue };
                if known(inode) || found.iter().any(|(other, _)| *other == inode) {
                    continue;
                }
                let name = Path::new(list).join(entry.file_name());
                if let Ok(file) = self.open(name) {
                    found.extend(
                        file.metadata().is_ok_and(|data| data.ino() == inode).then_some((inode, file)),
                    );
                }
                if one && !found.is_empty() {
                    return found;
                }
            }
        }
        found
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
