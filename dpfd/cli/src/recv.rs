//! `dp recv`: what an endpoint receives to standard output, message by message.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dpfd::edge::segment::{MAX_RING, MIN_RING};
use dpfd::{Dpid, Endpoint, Error};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::framing::Framing;
use crate::{seconds, signals};

/// The time was over.
const TIME_OVER: u8 = 3;
/// Bytes collected before they are written, as long as further messages wait.
const COLLECTED: usize = 64 * 1024;

/// Bytes of a pool.
const POOL: RangeInclusive<i64> = MIN_RING as i64..=MAX_RING as i64;

const AFTER_HELP: &str = "\
Without --lines or --length-prefixed nothing is put between messages. An endpoint has no end of file: \
--count or --timeout end it, or a signal, or whoever reads standard output.
Exit status: 0; 1 something failed; 2 a command line that cannot be used; 3 the time was over before --count \
messages had come, or before any.";

/// Receive messages on an endpoint and write them to standard output.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The endpoint's number, 1 to 65535, below 1024 with CAP_NET_BIND_SERVICE; 0: any free one, which is told on
    /// standard error.
    #[arg(value_name = "DPID", value_parser = number)]
    dpid: Dpid,
    /// A newline behind each message.
    #[arg(long)]
    lines: bool,
    /// Before each message its length: four bytes, the most significant first.
    #[arg(long, conflicts_with = "lines")]
    length_prefixed: bool,
    /// End after so many messages.
    #[arg(long, value_name = "N", value_parser = times)]
    count: Option<u64>,
    /// End when no message has come for so long.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Bytes for messages that wait, 4096 to 1073741824; longer messages come through too.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u32).range(POOL))]
    pool: u32,
}

fn number(text: &str) -> Result<Dpid, String> {
    text.parse().map_err(|_| "the number of an endpoint here, 1 to 65535, or 0 for any free one".into())
}

fn times(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a number of messages".into())
}

/// Why it ended, if not because it was done.
enum Stop {
    TimeOver,
    Signal(nix::sys::signal::Signal),
    /// The reader of standard output has seen enough.
    Enough,
    Failed(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error.to_string())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::Enough,
            _ => Stop::Failed(format!("standard output: {error}; messages may be lost")),
        }
    }
}

/// Where messages came to, and how many.
struct Got {
    number: Dpid,
    messages: u64,
}

pub fn main(args: Args) -> ExitCode {
    if let Err(code) = crate::check_environment("recv") {
        return code;
    }
    let mut got = Got { number: args.dpid, messages: 0 };
    match receive(&args, &mut got) {
        Ok(()) | Err(Stop::Enough) => ExitCode::SUCCESS,
        Err(Stop::TimeOver) => time_over(&args, &got),
        Err(Stop::Signal(signal)) => signals::die(signal),
        Err(Stop::Failed(why)) => {
            eprintln!("dp recv: {why}");
            ExitCode::FAILURE
        }
    }
}

fn time_over(args: &Args, got: &Got) -> ExitCode {
    let Got { number, messages } = got;
    let seconds = args.timeout.unwrap_or_default().as_secs_f64();
    match args.count {
        None if *messages > 0 => return ExitCode::SUCCESS,
        None => eprintln!("dp recv: no message came to endpoint {number} for {seconds} s"),
        Some(n) => eprintln!(
            "dp recv: {messages} of {n} messages came to endpoint {number}, then none for {seconds} s"
        ),
    }
    ExitCode::from(TIME_OVER)
}

fn receive(args: &Args, got: &mut Got) -> Result<(), Stop> {
    let endpoint = Endpoint::open(args.dpid)?;
    if args.dpid == 0 {
        got.number = endpoint.dpid();
        eprintln!("dp recv: endpoint {}", got.number);
    }
    endpoint.pool(args.pool as usize)?;
    // It waits in poll, where it sees its reader go, too.
    endpoint.set_nonblocking(true)?;
    signals::watch();
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut out = BufWriter::with_capacity(COLLECTED, stdout);
    let done = pass_on(args, &endpoint, &mut out, got);
    // What was received before whatever ended it.
    out.flush()?;
    done
}

fn pass_on(args: &Args, endpoint: &Endpoint, out: &mut BufWriter<File>, got: &mut Got) -> Result<(), Stop> {
    let framing: Framing = Framing::chosen(args.lines, args.length_prefixed);
    let mut bytes = Vec::new();
    let mut last = Instant::now();
    while args.count.is_none_or(|n| got.messages < n) {
        if let Some(signal) = signals::caught() {
            return Err(Stop::Signal(signal));
        }
        match endpoint.recv() {
            Ok(message) => {
                bytes.resize(message.len(), 0);
                message.copy_to(&mut bytes);
                drop(message);
                framing.write(out, &bytes)?;
                (got.messages, last) = (got.messages + 1, Instant::now());
            }
            Err(Error::WouldBlock) => {
                out.flush()?;
                wait(endpoint, out.get_ref(), args.timeout.map(|timeout| last + timeout))?;
            }
            Err(Error::Interrupted) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Until a message, a signal, the end of the time or of whoever reads standard output.
fn wait(endpoint: &Endpoint, out: &File, until: Option<Instant>) -> Result<(), Stop> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) {
        return Err(Stop::TimeOver);
    }
    // Rounded up, or the last millisecond would be spun through.
    let ms = left.map(|left| left + Duration::from_micros(999)).map(PollTimeout::try_from);
    let timeout = ms.map_or(PollTimeout::NONE, |ms| ms.unwrap_or(PollTimeout::MAX));
    let mut both =
        [PollFd::new(endpoint.as_fd(), PollFlags::POLLIN), PollFd::new(out.as_fd(), PollFlags::empty())];
    match poll(&mut both, timeout) {
        Ok(_) if both[1].any().unwrap_or(false) => Err(Stop::Enough),
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(e) => Err(Stop::Failed(format!("poll on descriptor {}: {e}", endpoint.as_raw_fd()))),
    }
}
