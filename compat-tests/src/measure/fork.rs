//! What a fork costs a server that has a connection (`programs/fork_cost.c`).

use std::process::Command;
use std::time::Duration;

use super::kit::{Kit, Way};
use super::process::Cost;
use super::turns::Sample;
use super::Error;
use crate::programs;

/// Forks are made for about a run's time, at so much each.
const ONE: Duration = Duration::from_micros(150);
/// The most that the program makes.
const MOST: u64 = 10_000;
/// A run that takes longer than it should by this much is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Forks for about this time, one after the other. The value is the median of one with its wait, in microseconds.
///
/// # Errors
/// The program fails, takes far too long or says something unknown.
pub fn measure(kit: &Kit, way: Way, time: Duration) -> Result<Sample, Error> {
    let program = programs::c("fork_cost");
    let port = kit.scratch.file(&format!("fork-{}", way.key()));
    // The client would take an earlier run's.
    let _ = std::fs::remove_file(&port);
    let count = (time.as_micros() / ONE.as_micros()).clamp(100, MOST.into()).to_string();
    let command = |role: &str| -> Command {
        let mut command = kit.command_at(way, &program);
        command.arg(role).arg(&port).args(["", &count]).env("COMPAT_ALARM", "60");
        command
    };
    let what = |role: &str| format!("the {role} that forks ({})", way.name());
    let server = kit.start(command("server"), &what("server"), kit.cores.server)?;
    let client = kit.start(command("client"), &what("client"), kit.cores.client)?;
    let finished = server.finish(time + PATIENCE)?;
    let client = client.finish(PATIENCE)?.cost;
    let median = finished.out.split_whitespace().skip_while(|word| *word != "median").nth(1);
    let value = median.and_then(|text| text.parse().ok()).filter(|us: &f64| us.is_finite() && *us > 0.0);
    let value = value.ok_or_else(|| Error::words("fork_cost", &finished.out))?;
    let server: Cost = finished.cost;
    Ok(Sample { value, server, client })
}
