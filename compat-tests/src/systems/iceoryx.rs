//! iceoryx2, by a program of ours: `compat-tests/iceoryx2`, which `.ci/bench` builds, does what `dp bench` does.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::mpi;
use super::{Job, Sample, What};
use crate::measure::kit::Kit;
use crate::measure::Error;

/// Beside the time asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of its files' names, which the program gives it.
const PREFIX: &str = "dp-bench-iceoryx2-";

/// What the two processes do with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Copied in, copied out.
    Copied,
    /// Copied in, added up where they lie.
    InPlace,
    /// Neither written nor read: what passing a pointer costs.
    Untouched,
}

impl Touch {
    fn word(self) -> &'static str {
        match self {
            Touch::Copied => "copied",
            Touch::InPlace => "in-place",
            Touch::Untouched => "untouched",
        }
    }
}

/// Where the program is built.
///
/// # Errors
/// It is not there.
pub fn program() -> Result<PathBuf, Error> {
    let exe = env::current_exe().map_err(Error::system("/proc/self/exe"))?;
    let place = |target: &std::path::Path| target.join("iceoryx2/release/iceoryx2_bench");
    // target/PROFILE/systems_bench, and tests one folder deeper.
    let found = exe.ancestors().skip(2).take(2).map(place).find(|path| path.is_file());
    found.ok_or(Error::NotBuilt {
        program: "iceoryx2_bench",
        how: "`.ci/bench` builds it, where cargo can fetch iceoryx2",
    })
}

/// Takes away what its processes left in shared memory for those to come.
pub fn clean() {
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // At worst it stays, a page of it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Measures it once.
///
/// # Errors
/// It is not built, fails, hangs, or says something unknown; an interrupt.
pub fn turn(kit: &Kit, touch: Touch, job: &Job) -> Result<Sample, Error> {
    let program = program()?;
    let word = if job.what == What::Flood { "flood" } else { "lat" };
    let name = format!("iceoryx2_bench {word} {}, {} bytes", touch.word(), job.size);
    let folder = kit.scratch.file("iceoryx2");
    fs::create_dir_all(&folder).map_err(Error::system(folder.display()))?;
    let start = |side: &str, core: usize| {
        let mut command = Command::new(&program);
        command.args([word, touch.word(), &job.size.to_string(), &job.time.as_secs_f64().to_string()]);
        command.arg(&folder).arg(side).env_remove("LD_PRELOAD");
        kit.start(command, &format!("{name}, {side}"), core)
    };
    let second = start("second", kit.cores.server)?;
    let finished = start("first", kit.cores.client)?.finish(job.time * 20 + PATIENCE)?;
    second.finish(PATIENCE)?;
    // It prints what the program for MPI prints.
    mpi::parse(&finished.out, job).ok_or_else(|| Error::words(name, &finished.out))
}
