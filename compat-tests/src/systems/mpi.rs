//! Open MPI and MPICH: `systems/mpi.c`, built with each one's own compiler for this run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::{Bench, Job, Sample, What};
use crate::measure::kit::{require, Kit, Tool};
use crate::measure::Error;

const SOURCE: &str = include_str!("../../systems/mpi.c");
/// Beside the time asked for: launchers take their time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whose MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// Through its own shared memory (`vader`).
    OpenMpi,
    /// Debian's goes through UCX.
    Mpich,
}

impl Library {
    /// Compiler and launcher.
    pub fn tools(self) -> [Tool; 2] {
        match self {
            Library::OpenMpi => [
                Tool { program: "mpicc.openmpi", package: "libopenmpi-dev" },
                Tool { program: "mpiexec.openmpi", package: "openmpi-bin" },
            ],
            Library::Mpich => [
                Tool { program: "mpicc.mpich", package: "libmpich-dev" },
                Tool { program: "mpiexec.mpich", package: "mpich" },
            ],
        }
    }

    /// Everything through shared memory, and on the cores the program goes to by itself.
    fn launch(self) -> Command {
        let mut command = Command::new(self.tools()[1].program);
        match self {
            Library::OpenMpi => {
                command.args(["--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
                // In containers and virtual machines the only user often is root.
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            }
            Library::Mpich => {
                command.args(["-bind-to", "none"]).env("UCX_TLS", "sm,self");
            }
        }
        command.args(["-n", "2"]).env("LC_ALL", "C").env_remove("LD_PRELOAD");
        command
    }

    fn build(self, kit: &Kit) -> Result<PathBuf, Error> {
        let [compiler, _] = self.tools();
        require(&self.tools())?;
        let (source, program) = (kit.scratch.file("mpi.c"), kit.scratch.file(compiler.program));
        let program = program.with_extension(format!("{}.out", compiler.program));
        fs::write(&source, SOURCE).map_err(Error::system(source.display()))?;
        let mut command = Command::new(compiler.program);
        command.arg("-O2").arg("-o").arg(&program).arg(&source);
        kit.start(command, compiler.program, None)?.finish(PATIENCE)?;
        Ok(program)
    }
}

/// What the program prints.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Latency { p50_ns: f64, p99_ns: f64, p999_ns: f64 },
    Flood { messages: u64, seconds: f64, cpu_s: f64 },
}

/// Measures this MPI once.
///
/// # Errors
/// It cannot be built or launched, hangs, or says something unknown; an interrupt.
pub fn turn(bench: &mut Bench, library: Library, job: &Job) -> Result<Sample, Error> {
    let program = match bench.built.get(&library) {
        Some(program) => program.clone(),
        None => {
            let program = library.build(&bench.kit)?;
            bench.built.insert(library, program.clone());
            program
        }
    };
    let kit = &bench.kit;
    let word = if job.what == What::Flood { "flood" } else { "lat" };
    let mut command = library.launch();
    command.arg(program).args([word, &job.size.to_string(), &job.time.as_secs_f64().to_string()]);
    command.args([kit.cores.client, kit.cores.server].map(|core| core.to_string()));
    let name = format!("{} {word}, {} bytes", library.tools()[1].program, job.size);
    let finished = kit.start(command, &name, None)?.finish(job.time * 20 + PATIENCE)?;
    parse(&finished.out, job).ok_or_else(|| Error::words(name, &finished.out))
}

pub(super) fn parse(said: &str, job: &Job) -> Option<Sample> {
    match (serde_json::from_str(said).ok()?, job.what) {
        (Said::Latency { p50_ns, p99_ns, p999_ns }, What::Latency) => {
            let [p50_ns, p99_ns, p999_ns] = [p50_ns, p99_ns, p999_ns].map(Some);
            Some(Sample { p50_ns, p99_ns, p999_ns, ..Sample::default() })
        }
        (Said::Flood { messages, seconds, cpu_s }, What::Flood) => {
            Sample::flood(job.size, messages, seconds, cpu_s)
        }
        _ => None,
    }
}
