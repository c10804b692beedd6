//! Compilers, libraries, and a folder of endpoints for each test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use compat_tests::tools::{needed, TempDir};
use compat_tests::{programs, Ended, Job};

/// How long a program may take; more than any needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// What a careful C programmer compiles with.
pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// A folder of this package.
pub fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The project's own folder.
pub fn root() -> PathBuf {
    package("../..")
}

/// Where the release build lies; libdp.so is linked there, if that was not done yet.
pub fn release() -> &'static Path {
    static RELEASE: OnceLock<PathBuf> = OnceLock::new();
    RELEASE.get_or_init(|| {
        let dir = programs::target_dir().join("release");
        assert!(dir.join("libdp.a").exists(), "{} has no libdp.a: run make build", dir.display());
        let mut make = Command::new(needed("make", "make"));
        run(make.args(["-s", "-C"]).arg(root()).arg("libdp").env_remove("MAKEFLAGS"));
        dir
    })
}

/// How a program gets the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    Static,
    Shared,
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(out.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&out.stderr));
    out
}

/// A test's place: its programs, and the endpoints of its processes.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let dir = TempDir::new();
        std::fs::create_dir(dir.file("dp")).expect("our folder");
        let only_us = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(dir.file("dp"), only_us).expect("our folder");
        Place { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Compiles a C program against `dp.h`.
    pub fn compile(&self, source: &Path, linked: Linked) -> PathBuf {
        let lib = release();
        let name = source.file_stem().expect("a source file").to_string_lossy();
        let to = self.dir.file(&format!("{name}.{linked:?}"));
        let mut cc = Command::new(needed("cc", "gcc"));
        cc.args(["-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-g", "-pthread"]).args(WARNINGS);
        cc.arg("-I").arg(package("include")).arg("-o").arg(&to).arg(source);
        match linked {
            Linked::Static => cc.arg(lib.join("libdp.a")).args(["-lpthread", "-lm", "-ldl"]),
            Linked::Shared => cc.arg("-L").arg(lib).arg("-ldp").arg(format!("-Wl,-rpath,{}", lib.display())),
        };
        run(&mut cc);
        to
    }

    /// A command whose endpoints are this test's own.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("DP_RUNTIME_DIR", self.dir.file("dp")).env_remove("DP_NID");
        command
    }

    /// Runs it to its end, within the limit.
    pub fn ended(&self, name: &str, command: Command) -> Ended {
        Job::start(name, command, self.path()).finish(Instant::now() + LIMIT)
    }

    /// The same; it must end well and say "ok".
    pub fn passes(&self, command: Command) {
        let ended = self.ended("program", command);
        assert!(ended.ok() && ended.transcript.ends_with("ok\n"), "{}", ended.text());
    }
}
