//! The programs of `programs/`, compiled when they are first needed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::tools::needed;

const FLAGS: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"];

/// Where the sources are.
pub fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a workspace");
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => workspace.join(dir), // absolute ones replace the base
        None => workspace.join("target"),
    }
}

/// The executable of `programs/NAME.c`.
pub fn c(name: &str) -> PathBuf {
    match name {
        "exec_live" => drop(build("static_cat", "static_cat", Form::Static)),
        "plugged" => drop((library("plug_opener"), library("plug"))),
        "uring" | "kernel_aio" | "ring" => drop(library("standin")),
        _ => {}
    }
    build(name, name, Form::Program)
}

/// The library of `programs/NAME.c`.
pub fn library(name: &str) -> PathBuf {
    build(name, &format!("lib{name}.so"), Form::Library)
}

/// The program linked statically: no preload reaches it.
pub fn c_static(name: &str) -> PathBuf {
    build(name, &format!("{name}_static"), Form::Static)
}

/// `programs/NAME`, for programs that need no compiler.
pub fn python(name: &str) -> PathBuf {
    source_dir().join(name)
}

/// Whether a program has a tester and a helper, so that either side can be the tester.
pub fn has_tester(source: &Path) -> bool {
    fs::read_to_string(source).is_ok_and(|text| text.contains("\nvoid tester(int fd)"))
}

/// What is made of a source.
#[derive(PartialEq)]
enum Form {
    Program,
    /// No preload reaches it.
    Static,
    /// Shared, for programs to load.
    Library,
}

fn build(name: &str, output: &str, form: Form) -> PathBuf {
    // One compiler at a time in this process; other processes are kept apart by the rename below.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = COMPILING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());

    let mut parts = vec![source_dir().join(name).with_extension("c")];
    if name != "static_cat" && form != Form::Library {
        // Once for all: a half of what there is to compile for most of them.
        parts.push(made("common.o", &[source_dir().join("common.c")], &["-c"]));
    }
    let options: &[&str] = match form {
        Form::Program => &[],
        Form::Static => &["-static"],
        // Some load others that lie beside them.
        Form::Library => &["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN"],
    };
    made(output, &parts, options)
}

/// What the compiler makes of these, unless it is there and none of them is younger.
fn made(output: &str, parts: &[PathBuf], options: &[&str]) -> PathBuf {
    let folder = target_dir().join("compat");
    let file = folder.join(output);
    // Any of the headers may be part of it.
    if newest(headers(&source_dir()).iter().chain(parts)) < modified(&file) {
        return file;
    }
    fs::create_dir_all(&folder).expect("target/compat");
    let temporary = folder.join(format!("{output}.{}", std::process::id()));
    let mut compiler = Command::new(needed("cc", "gcc"));
    compiler.args(FLAGS).arg("-o").arg(&temporary).args(parts).args(options);
    let result = compiler.output().expect("cc starts");
    assert!(result.status.success(), "cc {parts:?}:\n{}", String::from_utf8_lossy(&result.stderr));
    fs::rename(&temporary, &file).expect("target/compat is writable");
    file
}

fn headers(folder: &Path) -> Vec<PathBuf> {
    let files =
        fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("readable").path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "h")).collect()
}

fn newest<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Option<SystemTime> {
    files.map(|file| Some(modified(file).expect("the source exists"))).max().flatten()
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}
