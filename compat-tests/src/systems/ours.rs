//! DP and the kernel's own ways: `dp bench`, one way at a time.

use std::time::Duration;

use serde::Deserialize;

use super::{Job, Sample, What};
use crate::measure::kit::Kit;
use crate::measure::Error;

/// The layout known here.
const VERSION: u32 = 2;
/// Beside the time asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `dp bench --json` prints, as far as it is needed here.
#[derive(Deserialize)]
struct Listing {
    version: u32,
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    size: usize,
    way: String,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    p999_ns: Option<f64>,
    unawaited_p50_ns: Option<f64>,
    messages_per_s: Option<f64>,
    messages: Option<u64>,
    cpu_s: [f64; 2],
}

/// Measures this way once.
///
/// # Errors
/// `dp bench` fails or says something unknown; an interrupt.
pub fn turn(kit: &Kit, way: &str, job: &Job) -> Result<Sample, Error> {
    let word = match job.what {
        What::Latency => "lat",
        What::Flood => "rate",
        What::Waiting => "waiting",
    };
    let name = format!("dp bench {word} --ways {way} --size {}", job.size);
    let mut command = kit.dp();
    command.args(["bench", word, "--ways", way, "--rounds", "1", "--json", "--cores"]);
    command.arg(format!("{},{}", kit.cores.client, kit.cores.server));
    command.args(["--size", &job.size.to_string(), "--seconds", &job.time.as_secs_f64().to_string()]);
    // It goes to its cores by itself.
    let finished = kit.start(command, &name, None)?.finish(job.time + PATIENCE)?;
    parse(&finished.out, way, job).ok_or_else(|| Error::words(name, &finished.out))
}

pub(super) fn parse(json: &str, way: &str, job: &Job) -> Option<Sample> {
    let listing: Listing = serde_json::from_str(json).ok().filter(|l: &Listing| l.version == VERSION)?;
    let outcome = listing.results.into_iter().find(|o| o.way == way && o.size == job.size)?;
    let Outcome { p50_ns, p99_ns, p999_ns, unawaited_p50_ns, messages_per_s, messages, cpu_s, .. } = outcome;
    match job.what {
        What::Flood => {
            let (rate, messages) = (messages_per_s?, messages?);
            Sample::flood(job.size, messages, messages as f64 / rate, cpu_s[0] + cpu_s[1])
        }
        What::Latency | What::Waiting => Some(Sample {
            p50_ns: Some(p50_ns?),
            p99_ns: Some(p99_ns?),
            p999_ns: Some(p999_ns?),
            unawaited_ns: if job.what == What::Waiting { Some(unawaited_p50_ns?) } else { None },
            ..Sample::default()
        }),
    }
}
