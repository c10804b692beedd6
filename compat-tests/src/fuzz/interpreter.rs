//! The interpreter of scripts, compiled when it is first needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::programs::target_dir;
use crate::tools::needed;

const FLAGS: [&str; 7] = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"];

/// Where its sources and the kept scripts are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The interpreter's executable.
///
/// # Panics
/// If it cannot be compiled.
pub fn interpreter() -> PathBuf {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = COMPILING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let built = target_dir().join("compat/fuzz_interpreter");
    let modified = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
    let sources: Vec<PathBuf> =
        fs::read_dir(folder()).expect("compat-tests/fuzz").flatten().map(|entry| entry.path()).collect();
    let is_c = |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "c");
    if sources.iter().filter(|file| file.is_file()).all(|file| modified(file) < modified(&built)) {
        return built;
    }
    fs::create_dir_all(target_dir().join("compat")).expect("target/compat");
    let temporary = built.with_extension(std::process::id().to_string());
    let mut compiler = Command::new(needed("cc", "gcc"));
    compiler.args(FLAGS).arg("-o").arg(&temporary).args(sources.iter().filter(is_c));
    let result = compiler.output().expect("cc starts");
    assert!(result.status.success(), "the interpreter:\n{}", String::from_utf8_lossy(&result.stderr));
    fs::rename(&temporary, &built).expect("target/compat is writable");
    built
}
