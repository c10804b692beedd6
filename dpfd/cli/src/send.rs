//! `dp send`: standard input to an endpoint, message by message.
#![expect(unsafe_code, reason = "an end without what exit(3) does")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dpfd::{Addr, Dpid, Endpoint, Error};

use crate::framing::{Bad, Framing, Input};
use crate::{seconds, signals};

/// The time was over.
const TIME_OVER: u8 = 3;
/// How often a call that waits is interrupted to look at the time.
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked whether everything arrived: first, and at most.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

const AFTER_HELP: &str = "\
Without --lines or --length-prefixed each read of standard input, of up to 65536 bytes, is one message.
dp send ends when everything it read is with the receiver. Exit status: 0 it is; 1 something failed; \
2 a command line that cannot be used; 3 the time was over.";

/// Send standard input to an endpoint.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The endpoint to send to: DPID, or NID/DPID. It need not exist yet.
    #[arg(value_name = "DPID")]
    to: Addr,
    /// One message a line, without its newline.
    #[arg(long)]
    lines: bool,
    /// Each message follows its length: four bytes, the most significant first, which are not part of it.
    #[arg(long, conflicts_with = "lines")]
    length_prefixed: bool,
    /// The number to send from [default: any free one].
    #[arg(long, value_name = "DPID", value_parser = clap::value_parser!(u16).range(1..))]
    from: Option<Dpid>,
    /// Give up when the receiver has taken nothing for so long, or is not there [default: wait].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// Why not everything went out.
enum Stop {
    Signal(nix::sys::signal::Signal),
    TimeOver,
    Failed(String),
}

pub fn main(args: Args) -> ExitCode {
    if let Err(code) = crate::check_environment("send") {
        return code;
    }
    let (sender, input) = match Sender::open(&args) {
        Ok(both) => both,
        Err(message) => {
            eprintln!("dp send: {message}");
            return ExitCode::FAILURE;
        }
    };
    let mut sender = sender;
    match sender.run(input) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => sender.explain(stop, &args),
    }
}

struct Sender {
    endpoint: Endpoint,
    to: Addr,
    timeout: Option<Duration>,
    /// Messages and bytes handed over, to be delivered.
    given: (u64, u64),
    /// Messages delivered when last looked at, and when that changed.
    delivered: (u64, Instant),
}

impl Sender {
    fn open(args: &Args) -> Result<(Sender, Input<File>), String> {
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(|e| format!("standard input: {e}"))?;
        let endpoint = Endpoint::open(args.from.unwrap_or(0)).map_err(|e| e.to_string())?;
        endpoint.target(args.to).map_err(|e| format!("endpoint {}: {e}", args.to))?;
        signals::watch();
        if args.timeout.is_some() {
            signals::tick(TICK);
        }
        let delivered = (0, Instant::now());
        let sender = Sender { endpoint, to: args.to, timeout: args.timeout, given: (0, 0), delivered };
        Ok((sender, Input::new(stdin.into(), Framing::chosen(args.lines, args.length_prefixed))))
    }

    /// Everything the input has; what was handed over before a failure is seen through, too.
    fn run(&mut self, mut input: Input<File>) -> Result<(), Stop> {
        let read = self.send_all(&mut input);
        match read {
            Ok(()) => self.see_through(),
            Err(Stop::Failed(why)) => match self.see_through() {
                Ok(()) | Err(Stop::Failed(_)) => Err(Stop::Failed(why)),
                stopped => stopped,
            },
            stopped => stopped,
        }
    }

    fn send_all(&mut self, input: &mut Input<File>) -> Result<(), Stop> {
        loop {
            match input.next() {
                Ok(Some(message)) => self.send(message)?,
                Ok(None) => return Ok(()),
                Err(Bad::Read(e)) if e.kind() == io::ErrorKind::Interrupted => not_ended()?,
                Err(bad) => return Err(Stop::Failed(bad.to_string())),
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Stop> {
        let mut since = None;
        loop {
            match self.endpoint.send(message) {
                Ok(()) => {
                    self.given = (self.given.0 + 1, self.given.1 + message.len() as u64);
                    return Ok(());
                }
                Err(Error::Interrupted | Error::WouldBlock) => {
                    not_ended()?;
                    self.in_time(*since.get_or_insert_with(Instant::now))?;
                }
                Err(e) => return Err(Stop::Failed(format!("message {}: {e}", self.given.0 + 1))),
            }
        }
    }

    /// Waits until everything handed over is with the receiver.
    fn see_through(&mut self) -> Result<(), Stop> {
        let (since, mut nap) = (Instant::now(), LOOK[0]);
        while self.left() > 0 {
            not_ended()?;
            let why = self.endpoint.why_denied(self.to);
            // The kernel driver only counts.
            let of_kernel = || (self.endpoint.stat().denied > 0).then_some(Error::Denied(self.to));
            if let Some(why) = why.or_else(of_kernel) {
                return Err(Stop::Failed(why.to_string()));
            }
            self.in_time(since)?;
            std::thread::sleep(nap);
            nap = (nap * 2).min(LOOK[1]);
        }
        Ok(())
    }

    /// Messages that are not with the receiver.
    fn left(&mut self) -> u64 {
        let (delivered, _) = self.endpoint.stat().sent;
        if delivered != self.delivered.0 {
            self.delivered = (delivered, Instant::now());
        }
        self.given.0.saturating_sub(delivered)
    }

    /// An error when nothing was taken for too long; `since`: when waiting began.
    fn in_time(&mut self, since: Instant) -> Result<(), Stop> {
        let Some(timeout) = self.timeout else { return Ok(()) };
        self.left();
        let over = since.max(self.delivered.1).elapsed() >= timeout;
        if over {
            Err(Stop::TimeOver)
        } else {
            Ok(())
        }
    }

    /// Says what happened and how much is not with the receiver.
    fn explain(&mut self, stop: Stop, args: &Args) -> ExitCode {
        let (left, to) = (self.left(), self.to);
        let (messages, bytes) = self.given;
        let rest = match left {
            0 => format!("all {messages} messages before ({bytes} bytes) are with endpoint {to}"),
            _ => format!("{left} of {messages} messages read ({bytes} bytes) are not with endpoint {to}"),
        };
        match stop {
            Stop::Failed(why) => {
                eprintln!("dp send: {why}; {rest}");
                ExitCode::FAILURE
            }
            Stop::Signal(signal) => {
                eprintln!("dp send: ended by {signal}; {rest}");
                signals::die(signal)
            }
            Stop::TimeOver => {
                let seconds = args.timeout.unwrap_or_default().as_secs_f64();
                eprintln!(
                    "dp send: endpoint {to} took nothing for {seconds} s; {rest}; `dp ls` shows whether it is open"
                );
                signals::put_away();
                // SAFETY: ends the process; exit(3) would go on trying for a while, and make the words untrue.
                unsafe { libc::_exit(TIME_OVER.into()) }
            }
        }
    }
}

/// An error when a signal came that ends the program.
fn not_ended() -> Result<(), Stop> {
    signals::caught().map_or(Ok(()), |signal| Err(Stop::Signal(signal)))
}
