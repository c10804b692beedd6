//! What the tests of all verbs need: a folder, patience, and the list of what could not be tried.
#![allow(dead_code, clippy::allow_attributes, reason = "no test needs all of it")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sched::{unshare, CloneFlags};

/// A folder of one test's own, as the registry of endpoints wants it; gone with this.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn new(name: &str) -> Folder {
        let name = format!("dp-{}-{}-{name}", env!("CARGO_CRATE_NAME"), std::process::id());
        let path = std::env::temp_dir().join(name);
        // One of a process that was killed and had the same number.
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Folder { path }
    }

    /// A file in it.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Says what could not be tried here, and in the summary of tests, too.
pub fn skip(what: &str) {
    // Past what captures the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIP: {what}");
    if let Some(path) = std::env::var_os("DP_SKIPS") {
        let file = File::options().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "SKIP: {what}")).expect("the list of skips");
    }
}

/// Whether nodes can be network namespaces; says so if not.
pub fn namespaces_are_possible(test: &str) -> bool {
    let possible = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join().unwrap();
    if !possible {
        skip(&format!("{test}: network namespaces need root"));
    }
    possible
}

/// Looks until it is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
