//! Programs that measure themselves: the server of a pair runs for about a given time and says a number.

use std::process::Command;
use std::time::Duration;

use super::cores::Cores;
use super::kit::{Kit, Setup};
use super::turns::Sample;
use super::Error;
use crate::programs;

/// Such a program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name in `programs`; its first argument after the mode is how often it does what it measures.
    pub name: &'static str,
    /// The word that its server says before the number.
    pub word: &'static str,
    /// How long one of these about takes.
    pub one: Duration,
    /// The most that it does.
    pub most: u64,
}

/// What a fork costs a server that has a connection: the median of one with its wait, in microseconds.
pub const FORK: Program =
    Program { name: "fork_cost", word: "median", one: Duration::from_micros(150), most: 10_000 };

/// What a short connection costs its server: CPU time, in microseconds.
pub const SHORT: Program =
    Program { name: "churn", word: "cpu", one: Duration::from_micros(150), most: 1_000_000 };

/// What a MiB takes that goes over TCP after the server has left its channel, in microseconds.
pub const HANDED_BACK: Program =
    Program { name: "handed_back", word: "took", one: Duration::from_micros(200), most: 100_000 };

/// A run that takes longer than it should by this much is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the pair for about this time. The value is what the server says.
///
/// # Errors
/// The program fails, takes far too long or says something unknown.
pub fn measure(
    kit: &Kit,
    setup: Setup,
    program: Program,
    cores: Cores,
    time: Duration,
) -> Result<Sample, Error> {
    let path = programs::c(program.name);
    let port = kit.scratch.file(&format!("{}-{}", program.name, setup.key()));
    // The client would take an earlier run's.
    let _ = std::fs::remove_file(&port);
    let count = time.as_micros() / program.one.as_micros();
    let count = count.clamp(100, program.most.into()).to_string();
    let command = |role: &str| -> Command {
        let mut command = kit.command_at(setup, &path);
        command.arg(role).arg(&port).args(["", &count]).env("COMPAT_ALARM", "60");
        command
    };
    let what = |role: &str| format!("the {role} of {} ({})", program.name, setup.name());
    let server = kit.start(command("server"), &what("server"), cores.server)?;
    let client = kit.start(command("client"), &what("client"), cores.client)?;
    let finished = server.finish(time + PATIENCE)?;
    let client = client.finish(PATIENCE)?.cost;
    let said = finished.out.split_whitespace().skip_while(|word| *word != program.word).nth(1);
    let value = said.and_then(|text| text.parse().ok()).filter(|us: &f64| us.is_finite() && *us > 0.0);
    let value = value.ok_or_else(|| Error::words(program.name, &finished.out))?;
    Ok(Sample { value, server: finished.cost, client })
}
