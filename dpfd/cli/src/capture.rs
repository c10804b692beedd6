//! `dp capture`: bytes of channels, as pcapng with the packets that TCP would have had.
//!
//! It only reads: the rings lie in memory that it maps as well, where bytes stay until their sender comes round again. So
//! neither side does anything for it, and nothing is different while nobody captures.

mod arenas;
mod channel;
mod conversation;
mod file;
mod finder;
mod list;
mod notes;
mod rights;
mod wanted;
mod watch;

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use channel::Now;
use file::File;
use rights::{Denied, Opened};
use wanted::Wanted;
use watch::Watch;

use crate::ls::processes::Process;
use crate::signals;

/// After something was found, looks follow each other for so long; then it rests, longer and longer.
const EAGER: Duration = Duration::from_micros(50);
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_micros(200);
/// So many processes that may not be looked into are told.
const DENIED: usize = 5;
/// The reader of a pipe waits so long at most for what was captured.
const FLUSH: Duration = Duration::from_millis(50);

/// Write the bytes of channels as pcapng, which Wireshark and tshark read as TCP.
#[derive(clap::Args)]
pub struct Args {
    /// Write to this file; - is standard output, which must be no terminal.
    #[arg(short = 'w', long = "write", value_name = "FILE", default_value = "-")]
    write: PathBuf,
    #[command(flatten)]
    wanted: Wanted,
    /// End after so many packets.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = crate::seconds)]
    duration: Option<Duration>,
    /// Keep so many bytes of each packet, headers included.
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    snaplen: u32,
    /// Look without ever resting: a processor's whole time, and the least missed.
    #[arg(long)]
    busy: bool,
    /// List the channels that would be captured, and whether they may be.
    #[arg(long, conflicts_with_all = ["write", "count", "duration", "snaplen", "busy"])]
    list: bool,
}

pub fn main(args: Args) -> ExitCode {
    let done = if args.list { list::print(&args.wanted) } else { capture(args) };
    done.unwrap_or_else(|why| {
        eprintln!("dp capture: {why}");
        ExitCode::FAILURE
    })
}

fn capture(args: Args) -> Result<ExitCode, String> {
    signals::watch();
    let pids = args.wanted.pid.clone();
    for &pid in &pids {
        may_see(pid)?;
    }
    let out = Output::open(&args.write)?;
    let named = |error: io::Error| format!("{}: {error}; the capture is not complete", shown(&args.write));
    let _ = nix::sys::prctl::set_timerslack(1);
    raise_limit();
    let mut watch = Watch::new(args.wanted).map_err(|error| error.to_string())?;
    let has_shim = |pid| watch.sees(pid) || Process::look(pid, &mut HashMap::new()).is_some();
    if let Some(pid) = pids.iter().find(|&&pid| !has_shim(pid)) {
        return Err(format!("process {pid} does not run with the shim; dp doctor {pid} tells why"));
    }
    let out = out.begin().map_err(named)?;
    let mut file = File::new(out, args.snaplen as usize).map_err(named)?;
    for (pid, why) in watch.denied.iter().take(DENIED) {
        eprintln!("dp capture: process {pid}: {why}");
    }
    if watch.denied.len() > DENIED {
        eprintln!("dp capture: and {} other processes", watch.denied.len() - DENIED);
    }
    if watch.len() == 0 {
        eprintln!("dp capture: there is no such channel yet; waiting for one");
    }
    let done = run(&mut watch, &mut file, args.count, args.duration, args.busy);
    let ended = match done {
        Ok(()) => file.finish(since_1970()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(file.interfaces.clone()),
        Err(error) => Err(error),
    };
    let interfaces = match ended {
        Ok(interfaces) => interfaces,
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        Err(error) => return Err(named(error)),
    };
    tell(&interfaces, &watch);
    Ok(ExitCode::SUCCESS)
}

/// Looks, until it is to end.
fn run(
    watch: &mut Watch,
    file: &mut File,
    count: Option<u64>,
    duration: Option<Duration>,
    busy: bool,
) -> io::Result<()> {
    let began = Instant::now();
    let now = || Now { time: since_1970(), since: began.elapsed() };
    let (mut last, mut rest, mut flushed, mut dirty) = (Instant::now(), SHORTEST, Instant::now(), true);
    while signals::caught().is_none() {
        let found = watch.look(&now, file)?;
        if count.is_some_and(|most| file.interfaces.iter().map(|i| i.packets).sum::<u64>() >= most) {
            break;
        }
        let at = Instant::now();
        if duration.is_some_and(|most| at - began >= most) {
            break;
        }
        dirty |= found;
        if dirty && (!found || at - flushed >= FLUSH) && at - flushed >= FLUSH.min(Duration::from_millis(1)) {
            file.flush()?;
            (flushed, dirty) = (at, false);
        }
        if found {
            (last, rest) = (at, SHORTEST);
        } else if busy || at - last < EAGER {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(rest);
            rest = (rest * 2).min(LONGEST);
        }
    }
    Ok(())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Whether process `pid` is there, and may be looked into.
fn may_see(pid: u32) -> Result<(), String> {
    match Opened::new(pid) {
        Ok(_) => Ok(()),
        Err(Denied::Gone) => Err(format!("there is no process {pid}")),
        Err(Denied::Why(why)) => Err(format!("process {pid}: {why}")),
    }
}

/// Where the capture is written, which is as it was until there is one.
enum Output {
    Standard,
    File(fs::File),
}

impl Output {
    fn open(path: &Path) -> Result<Output, String> {
        use std::os::unix::fs::OpenOptionsExt;
        if path == Path::new("-") {
            if io::stdout().is_terminal() {
                return Err("a capture is no text for a terminal: name a file (-w FILE), or a pipe: dp capture | tshark -i -".into());
            }
            return Ok(Output::Standard);
        }
        let mut options = fs::File::options();
        // What programs send is nobody else's to read.
        let opened = options.write(true).create(true).truncate(false).mode(0o600).open(path);
        let way_out = |error: &io::Error| match error.kind() {
            ErrorKind::NotFound => "; make its folder first",
            ErrorKind::IsADirectory => "; name a file in it",
            _ => "",
        };
        opened.map(Output::File).map_err(|error| format!("{}: {error}{}", path.display(), way_out(&error)))
    }

    fn begin(self) -> io::Result<Box<dyn Write>> {
        match self {
            Output::Standard => Ok(Box::new(io::stdout())),
            Output::File(file) => {
                // A pipe or a device has no length.
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                Ok(Box::new(file))
            }
        }
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard output".into()
    } else {
        path.display().to_string()
    }
}

/// Each channel's memory takes a descriptor, and each process that is looked into.
fn raise_limit() {
    use nix::sys::resource::{getrlimit, setrlimit, Resource};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // It goes on with fewer, too.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// The summary.
fn tell(interfaces: &[file::Interface], watch: &Watch) {
    let sum = |of: fn(&file::Interface) -> u64| interfaces.iter().map(of).sum::<u64>();
    let counts = &watch.counts;
    eprintln!(
        "dp capture: {} packets with {} bytes, of {} channels",
        sum(|i| i.packets),
        sum(|i| i.bytes),
        counts.channels
    );
    if sum(|i| i.gaps) > 0 {
        eprintln!(
            "dp capture: missed {} bytes in {} gaps; --busy misses less",
            sum(|i| i.missed),
            sum(|i| i.gaps)
        );
    } else {
        eprintln!("dp capture: missed nothing");
    }
    if sum(|i| i.on_tcp) > 0 {
        eprintln!(
            "dp capture: {} bytes of them went over TCP, where tcpdump(8) sees them",
            sum(|i| i.on_tcp)
        );
    }
    if counts.left > 0 {
        eprintln!("dp capture: {} of the channels went back to TCP for good", counts.left);
    }
    if counts.closed > 0 {
        eprintln!(
            "dp capture: the memory of {} channels could not be opened: name their clients' processes as well, or be root",
            counts.closed
        );
    }
    if counts.exhausted > 0 {
        eprintln!(
            "dp capture: the memory of {} channels could not be opened, as there were too many open files: raise their \
             limit (ulimit -Hn), or name fewer channels",
            counts.exhausted
        );
    }
}
