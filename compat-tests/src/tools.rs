//! What the tests need of the machine: installed programs, free ports, folders that go away.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};

/// The path of an installed program.
///
/// # Panics
/// If it is missing, naming the Debian package that has it: a skipped test proves nothing.
pub fn needed(program: &str, debian_package: &str) -> PathBuf {
    ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{program} is missing: install the Debian package {debian_package}"))
}

/// Says what could not be tried here, and in the summary of tests, too.
///
/// # Panics
/// That list cannot be written.
pub fn skip(what: &str) {
    // Past what captures the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIP: {what}");
    if let Some(path) = env::var_os("DP_SKIPS") {
        let file = fs::File::options().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "SKIP: {what}")).expect("the list of skips");
    }
}

/// A program of PostgreSQL's, which Debian keeps in a folder of its version: of the newest there is.
///
/// # Panics
/// If it is missing, as [`needed`].
pub fn postgresql(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists());
    found.max().unwrap_or_else(|| panic!("{name} is missing: install the Debian package postgresql"))
}

/// A user for servers that refuse to be root; none: whoever runs this is not.
///
/// # Panics
/// If there is no such user.
pub fn somebody() -> Option<User> {
    let found = || ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
    Uid::effective().is_root().then(|| found().expect("a user who is not root"))
}

/// Has it started by [`somebody`].
///
/// # Panics
/// If there is no such user.
pub fn not_as_root(command: &mut Command) {
    if let Some(user) = somebody() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
}

/// [`crate::measure::scratch::free_port`].
///
/// # Panics
/// None is free.
pub fn free_port() -> u16 {
    crate::measure::scratch::free_port().unwrap_or_else(|e| panic!("{e}"))
}

/// Waits until somebody listens on the port, without connecting to it.
///
/// # Panics
/// If nobody does for ten seconds.
pub fn await_listener(port: u16) {
    let wanted = format!(":{port:04X} ");
    let listens = |line: &str| {
        let mut fields = line.split_whitespace();
        // sl, local address, remote address, state; 0A is LISTEN
        fields.nth(1).is_some_and(|local| format!("{local} ").ends_with(&wanted))
            && fields.nth(1) == Some("0A")
    };
    let table = |path: &&str| fs::read_to_string(path).unwrap_or_default().lines().any(listens);
    let somebody = || ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(table);
    let deadline = Instant::now() + Duration::from_secs(10);
    // Twice: another test that looks whether the port is free listens there for a moment, too.
    while !(somebody() && {
        sleep(Duration::from_millis(20));
        somebody()
    }) {
        assert!(Instant::now() < deadline, "nobody listens on port {port}");
        sleep(Duration::from_millis(5));
    }
}

/// Waits until the condition holds.
///
/// # Panics
/// If it does not within the time.
pub fn await_that(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        sleep(Duration::from_millis(5));
    }
}

/// A new folder, removed when dropped.
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes the folder.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dp-compat-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that are the same in every run and repeat nowhere near a buffer's size.
pub fn generated(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
