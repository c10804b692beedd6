//! Where the endpoints of a node find each other: a folder.
//!
//! ```text
//!   $DP_RUNTIME_DIR, else $XDG_RUNTIME_DIR/dp, else /dev/shm/dp-<uid>      0700, or 2770 for a group
//!     1025 -> 4711-9f3a.12       endpoint 1025: process 4711-9f3a, its 12th endpoint     (a symbolic link)
//!     gateway -> 4712-0c51.0     endpoints of other nodes: process 4712-0c51             (the same)
//!     gateway.routes             its process, and the names of its routes, a line each
//!     4711-9f3a.lock             locked as long as the process lives
//!     4711-9f3a.door             where its service listens
//! ```
//!
//! An entry is made and read in one system call each, so nobody ever sees half of one. The kernel releases the
//! lock when its process ends, however it ends: whoever finds an entry of a dead process removes it.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::addr::{Dpid, PRIVILEGED};
use crate::error::{Error, Result};
use dp_edge::sys::{process, unix};

mod routes;

/// Numbers that [`Registry::enter_any`] gives: from here on upwards, and those below only when there is none left.
const FIRST_FREE: Dpid = 32768;
/// The entry of the process that is the proxy of other nodes' endpoints.
const GATEWAY: &str = "gateway";

/// Which endpoint an entry stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The process: `<pid>-<random>`.
    pub process: String,
    /// Which of its endpoints, counted.
    pub serial: u32,
}

impl Entry {
    fn text(&self) -> String {
        format!("{}.{}", self.process, self.serial)
    }
    fn parse(text: &str) -> Option<Entry> {
        let (process, serial) = text.rsplit_once('.')?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        // It becomes part of a path.
        if process.is_empty() || !process.bytes().all(plain) {
            return None;
        }
        Some(Entry { process: process.to_string(), serial: serial.parse().ok()? })
    }
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
    /// The folder's owner, where whoever runs this has named it: root goes by the word of that user's processes, too.
    chosen: Option<u32>,
    /// This process's name, once it has joined.
    own: Arc<OnceLock<String>>,
}

/// This process in the folder.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where its service listens.
    pub door: OwnedFd,
    /// Locked; closing it gives the lock up.
    _lock: File,
}

/// The folder, and whether it was named.
fn folder_of_environment() -> (PathBuf, bool) {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("DP_RUNTIME_DIR") {
        return (dir, true);
    }
    let me = nix::unistd::geteuid();
    // su(1) leaves the variable of who called it.
    let is_own = |dir: &PathBuf| fs::metadata(dir).is_ok_and(|meta| meta.uid() == me.as_raw());
    if let Some(dir) = set("XDG_RUNTIME_DIR").filter(is_own) {
        return (dir.join("dp"), false);
    }
    (PathBuf::from(format!("/dev/shm/dp-{me}")), false)
}

impl Registry {
    /// The folder the environment names, made if it is missing.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`] if it cannot be made, belongs to somebody else, or lets others in.
    pub fn open() -> Result<Registry> {
        let (path, named) = folder_of_environment();
        Registry::look(path, named)
    }

    /// The folder at `path`, which was named, made with mode 0700 if it is missing.
    ///
    /// # Errors
    ///
    /// As [`Registry::open`].
    pub fn at(path: PathBuf) -> Result<Registry> {
        Registry::look(path, true)
    }

    /// The same; one that was not named must be this user's own. Anybody can make a folder in /dev/shm before its user does.
    fn look(path: PathBuf, named: bool) -> Result<Registry> {
        let fail =
            |what: &str, errno: i32| Error::Folder { path: path.clone(), what: what.to_string(), errno };
        let io_fail = |e: io::Error| Error::folder(path.clone(), &e);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io_fail(e)),
            _ => {}
        }
        let meta = fs::symlink_metadata(&path).map_err(io_fail)?;
        let me = nix::unistd::geteuid().as_raw();
        if !meta.is_dir() {
            return Err(fail("not a folder", libc::ENOTDIR));
        }
        if meta.mode() & 0o007 != 0 {
            return Err(fail("open to everybody; chmod it to 0700, or 2770 for a group", libc::EACCES));
        }
        let is_shared = named && (me == 0 || meta.mode() & 0o2070 == 0o2070);
        if meta.uid() != me && !is_shared {
            return Err(fail("belongs to another user", libc::EACCES));
        }
        Ok(Registry { folder: path, chosen: named.then_some(meta.uid()), own: Arc::default() })
    }

    /// Whether an endpoint of user `uid` may be sent to. A stranger's could stand in this folder under the number of another. Root
    /// may have all that is sent here anyway; and of a program that began as root and gave that up, its door stays root's.
    pub fn believes(&self, uid: u32) -> bool {
        let me = nix::unistd::geteuid().as_raw();
        uid == me || uid == 0 || (me == 0 && self.chosen == Some(uid))
    }

    /// The folder the environment names, if it is there.
    ///
    /// # Errors
    ///
    /// As [`Registry::open`].
    pub fn open_existing() -> Result<Option<Registry>> {
        let (path, named) = folder_of_environment();
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Registry::look(path, named).map(Some),
        }
    }

    /// Whose process it is.
    pub fn owner(&self, process: &str) -> Option<u32> {
        fs::symlink_metadata(self.lock_path(process)).ok().map(|meta| meta.uid())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a process's service listens.
    pub fn door_path(&self, process: &str) -> PathBuf {
        self.folder.join(format!("{process}.door"))
    }
    fn lock_path(&self, process: &str) -> PathBuf {
        self.folder.join(format!("{process}.lock"))
    }

    fn failed(&self, name: &str) -> impl Fn(io::Error) -> Error + '_ {
        let path = self.folder.join(name);
        move |e| Error::folder(path.clone(), &e)
    }

    /// Makes this process known, and removes what dead ones left.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`]: ENOSPC, EMFILE, EACCES, ENAMETOOLONG (a path above 107 bytes).
    pub fn join(&self) -> Result<Member> {
        self.sweep();
        let random = process::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let name = format!("{}-{random:04x}", std::process::id());
        // Locked before it has a name, or a sweeper would take it for a dead one's.
        let lock = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o660)
            .custom_flags(libc::O_TMPFILE)
            .open(&self.folder)
            .map_err(self.failed(&format!("{name}.lock")))?;
        if !process::lock_for_life(lock.as_fd()) {
            return Err(Error::io("fcntl(F_SETLK)")(io::Error::last_os_error()));
        }
        self.name_file(&lock, &self.lock_path(&name)).map_err(self.failed(&format!("{name}.lock")))?;
        let _ = self.own.set(name.clone());
        let door = unix::listen(&self.door_path(&name)).map_err(|e| {
            self.take_away(&name);
            self.failed(&format!("{name}.door"))(io::Error::from_raw_os_error(e))
        })?;
        Ok(Member { name, door, _lock: lock })
    }

    fn name_file(&self, file: &File, path: &Path) -> io::Result<()> {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        nix::unistd::linkat(
            nix::fcntl::AT_FDCWD,
            from.as_c_str(),
            nix::fcntl::AT_FDCWD,
            path,
            nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW,
        )
        .map_err(Into::into)
    }

    /// Takes this process's own names away, at its end.
    pub fn leave(&self, member: &Member) {
        self.take_away(&member.name);
    }

    /// The lock's file last: as long as it is there, a sweeper goes on where another one stopped.
    fn take_away(&self, process: &str) {
        let _ = fs::remove_file(self.door_path(process));
        let _ = fs::remove_file(self.lock_path(process));
    }

    /// Whether a process lives: somebody holds its lock. Where that cannot be told, it lives.
    pub fn lives(&self, process: &str) -> bool {
        // Our own lock does not show to us, and closing any descriptor of its file would give it up.
        if self.own.get().is_some_and(|own| own == process) {
            return true;
        }
        // What lies there may be anything: a pipe must not make us wait.
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
        match fs::OpenOptions::new().read(true).custom_flags(flags).open(self.lock_path(process)) {
            Ok(file) => process::is_locked(file.as_fd()),
            // EACCES, EMFILE: that says nothing about the process.
            Err(e) => e.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Enters `dpid` for an endpoint of this process. False if there is an entry.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`]: ENOSPC, EACCES.
    pub fn enter(&self, dpid: Dpid, entry: &Entry) -> Result<bool> {
        self.enter_name(&dpid.to_string(), entry)
    }

    fn enter_name(&self, name: &str, entry: &Entry) -> Result<bool> {
        match std::os::unix::fs::symlink(entry.text(), self.folder.join(name)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(self.failed(name)(e)),
        }
    }

    /// Enters this process as the gateway. False if there is one that lives.
    ///
    /// # Errors
    ///
    /// As [`Registry::enter`]; EACCES: another user's, which ended, cannot be taken away.
    pub fn enter_gateway(&self, entry: &Entry) -> Result<bool> {
        for _ in 0..2 {
            if self.enter_name(GATEWAY, entry)? {
                return Ok(true);
            }
            match self.gateway() {
                Some(old) if self.lives(&old.process) => return Ok(false),
                Some(old) => self.remove_gateway(&old),
                None => {}
            }
        }
        match self.gateway() {
            Some(old) if !self.lives(&old.process) => Err(Error::Folder {
                path: self.folder.join(GATEWAY),
                what: "left by a gateway that has ended, and another user's, who alone can take it away"
                    .into(),
                errno: libc::EACCES,
            }),
            _ => Ok(false),
        }
    }

    /// The process that is the proxy of other nodes' endpoints.
    pub fn gateway(&self) -> Option<Entry> {
        self.look_up_name(GATEWAY)
    }

    /// Removes its entry, as [`Registry::remove`] does.
    pub fn remove_gateway(&self, entry: &Entry) {
        self.remove_name(GATEWAY, entry);
    }

    /// Enters any free number. Costs a system call for each that is taken; entries of the dead are removed when
    /// all are.
    ///
    /// # Errors
    ///
    /// [`Error::NoneFree`]; as [`Registry::enter`].
    pub fn enter_any(&self, entry: &Entry) -> Result<Dpid> {
        for _ in 0..2 {
            for (first, last) in [(FIRST_FREE, Dpid::MAX), (PRIVILEGED, FIRST_FREE - 1)] {
                if let Some(dpid) = self.enter_between(first, last, entry)? {
                    return Ok(dpid);
                }
            }
            self.sweep();
        }
        Err(Error::NoneFree)
    }

    fn enter_between(&self, first: Dpid, last: Dpid, entry: &Entry) -> Result<Option<Dpid>> {
        let span = u32::from(last - first) + 1;
        let start = (process::now() >> 8) as u32;
        for i in 0..span {
            let dpid = first + (start.wrapping_add(i) % span) as Dpid;
            if self.enter(dpid, entry)? {
                return Ok(Some(dpid));
            }
        }
        Ok(None)
    }

    /// The process that has `dpid`.
    pub fn look_up(&self, dpid: Dpid) -> Option<Entry> {
        self.look_up_name(&dpid.to_string())
    }

    fn look_up_name(&self, name: &str) -> Option<Entry> {
        let text = fs::read_link(self.folder.join(name)).ok()?;
        Entry::parse(text.to_str()?)
    }

    /// Removes the entry, if it is still `entry`.
    ///
    /// Under a lock on the folder: between the look and the removal another one, who found the same entry over,
    /// must not put a new one there.
    pub fn remove(&self, dpid: Dpid, entry: &Entry) {
        self.remove_name(&dpid.to_string(), entry);
    }

    fn remove_name(&self, name: &str, entry: &Entry) {
        let _alone = self.alone();
        if self.look_up_name(name).as_ref() == Some(entry) {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    /// Locks the folder. Somebody who was stopped while he had the lock does not stop us for long.
    fn alone(&self) -> Option<nix::fcntl::Flock<File>> {
        let mut folder = File::open(&self.folder).ok()?;
        for _ in 0..100 {
            match nix::fcntl::Flock::lock(folder, nix::fcntl::FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Some(lock),
                Err((back, _)) => folder = back,
            }
            process::rest(Duration::from_millis(1));
        }
        None
    }

    /// All entries, by number.
    pub fn entries(&self) -> Vec<(Dpid, Entry)> {
        let Ok(dir) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut all: Vec<_> = dir
            .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|dpid| Some((dpid, self.look_up(dpid)?)))
            .collect();
        all.sort_by_key(|(dpid, _)| *dpid);
        all
    }

    /// Removes what dead processes left. Costs one look at each file, so it is done once a process.
    pub fn sweep(&self) {
        let Ok(dir) = fs::read_dir(&self.folder) else { return };
        let mut dead: Vec<String> = Vec::new();
        for file in dir.flatten() {
            let name = file.file_name();
            if let Some(process) = name.to_str().and_then(|n| n.strip_suffix(".lock")) {
                if !self.lives(process) {
                    dead.push(process.to_string());
                }
            }
        }
        if dead.is_empty() {
            return;
        }
        // Those, too, of which nothing else is left.
        let mut lives: HashMap<String, bool> = dead.iter().map(|process| (process.clone(), false)).collect();
        for (dpid, entry) in self.entries() {
            if !*lives.entry(entry.process.clone()).or_insert_with(|| self.lives(&entry.process)) {
                self.remove(dpid, &entry);
            }
        }
        if let Some(gateway) = self.gateway().filter(|entry| dead.contains(&entry.process)) {
            self.remove_gateway(&gateway);
        }
        for process in dead {
            self.take_away(&process);
        }
    }
}

#[cfg(test)]
mod tests;
