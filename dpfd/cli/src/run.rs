//! `dp run`: a program with the shim in it. No process stays behind: dp becomes the program.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use dp_rules::config::{self, environment};
use dp_rules::{Action, Direction, Place, Rule, RuleError, Rules};

use crate::doctor::Verdict;
use crate::program::Obstacle;
use crate::{doctor, program, shim};

mod inherited;
mod plan;

/// Something in the command line or in the rules cannot be used.
const USAGE: u8 = 2;
/// dp itself is not complete: no shim.
const FAILED: u8 = 125;
/// The program is there and cannot be executed, or not with the shim.
const NOT_EXECUTABLE: u8 = 126;
/// The program is not there.
const NOT_FOUND: u8 = 127;

const AFTER_HELP: &str = "\
An address is IPv4, IPv6 in brackets, localhost or *, with /PREFIX and :PORT or :FIRST-LAST as needed: \
127.0.0.1:6379, [::1]:6379, 10.0.0.0/8, localhost:8000-8099, *:80.
Without options the rules of dp-preload.conf(5) hold; without those, all TCP within this host, both directions. \
With --connect or --listen only what they name; with --not alone, all TCP within this host but that.\n\
A program that takes no shim, or that the shim would end, is not started: status 126, unless --anyway is given.";

/// Run a program with its TCP connections on DP channels.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Channels for connections the program makes to these addresses.
    #[arg(long, value_name = "ADDR[:PORT]")]
    connect: Vec<Place>,

    /// Channels for connections the program accepts on these addresses of its own.
    #[arg(long, value_name = "ADDR[:PORT]")]
    listen: Vec<Place>,

    /// No channels for these addresses, in either direction, whatever else is given.
    #[arg(long, value_name = "ADDR[:PORT]")]
    not: Vec<Place>,

    /// Run also a program that takes no shim, or would be harmed by it: on TCP, or without the shim.
    #[arg(long)]
    anyway: bool,

    /// Only tell what would be done: the program that is found, what keeps the shim out of it, and the rules that hold.
    #[arg(long)]
    dry_run: bool,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM ARGS", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub fn main(args: Args) -> ExitCode {
    if args.dry_run {
        return match plan::tell(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure { code, message }) => {
                eprintln!("dp run: {message}");
                ExitCode::from(code)
            }
        };
    }
    let Failure { code, message } = run(args);
    eprintln!("dp run: {message}");
    ExitCode::from(code)
}

struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn new(code: u8, message: impl ToString) -> Failure {
        Failure { code, message: message.to_string() }
    }
}

/// Returns only when the program was not started.
fn run(args: Args) -> Failure {
    let (name, rest) = args.command.split_first().expect("clap demands a program");
    let mut command = Command::new(name);
    command.args(rest);
    crate::warn_of_slips("run");
    if !config::disabled() {
        if let Err(failure) = prepare(&mut command, &args) {
            return failure;
        }
    }
    inherited::hand_on(&mut command);
    let error = command.exec();
    cannot_execute(Path::new(name), &error)
}

/// Puts the shim and the rules into the program's environment, unless the program could not start with it.
fn prepare(command: &mut Command, args: &Args) -> Result<(), Failure> {
    check_variables()?;
    check_place()?;
    let rules = args.rules().map_err(|error| Failure::new(USAGE, error.problem))?;
    match rules {
        Some(rules) => {
            command.env("DP_RULES", rules.to_string());
        }
        // The shim will look for itself; what it will find must be sound.
        None => drop(config::load(&mut Rules::default()).map_err(|error| Failure::new(USAGE, error))?),
    }
    let shim = shim::find().map_err(|error| Failure::new(FAILED, error))?;
    let preload = shim::preload(&shim, env::var_os("LD_PRELOAD")).map_err(|e| Failure::new(FAILED, e))?;

    let found = program::find(command.get_program(), env::var_os("PATH").as_deref());
    let obstacle = found.as_deref().map(|program| obstacle(program, args)).transpose()?.flatten();
    match &obstacle {
        Some(obstacle) => eprintln!(
            "dp run: warning: {obstacle}; its connections stay on TCP; way out: {}",
            obstacle.way_out()
        ),
        None => warn_of_host(),
    }
    if !obstacle.is_some_and(|obstacle| obstacle.refuses_shim()) {
        command.env("LD_PRELOAD", preload);
    }
    Ok(())
}

/// What keeps the shim out of the program where it is to run all the same; otherwise that it will not.
fn obstacle(program: &Path, args: &Args) -> Result<Option<Obstacle>, Failure> {
    match program::obstacle_here(program, env::var_os("ASAN_OPTIONS").as_deref()) {
        Some(obstacle) if !args.anyway => Err(refused(&obstacle)),
        found => Ok(found),
    }
}

fn refused(obstacle: &Obstacle) -> Failure {
    let anyway = if obstacle.refuses_shim() {
        "starts it without the shim"
    } else {
        "starts it on TCP, with the shim for what it starts itself"
    };
    let way_out = obstacle.way_out();
    let message = format!("{obstacle}; it was not started; way out: {way_out}; dp run --anyway {anyway}");
    Failure::new(NOT_EXECUTABLE, message)
}

/// Where no connection at all can become a channel, the program runs as ever.
fn warn_of_host() {
    let found = [doctor::host::kernel(), doctor::host::pages()];
    for finding in found.iter().filter(|finding| finding.verdict != Verdict::Fine) {
        let way_out = finding.way_out.as_deref().unwrap_or("none");
        eprintln!("dp run: warning: {}; connections stay on TCP; way out: {way_out}", finding.text);
    }
}

/// The shim takes something else for a number that cannot be, writes to no place that cannot be, and says nothing.
fn check_variables() -> Result<(), Failure> {
    let mut numbers = environment::OF_SHIM.into_iter().chain([&dpfd::addr::OWN_NID]);
    numbers.try_for_each(|number| number.check()).map_err(|error| Failure::new(USAGE, error))?;
    config::log::check().map(drop).map_err(|error| Failure::new(USAGE, error))
}

/// The same for a place that cannot be written to. A file is made where there is none, as the shim would make it.
fn check_place() -> Result<(), Failure> {
    let Ok(Some(log)) = config::log::check() else { return Ok(()) };
    log.check_place().map_err(|error| Failure::new(USAGE, error))
}

impl Args {
    /// The rules the options make; None without options.
    fn rules(&self) -> Result<Option<Rules>, RuleError> {
        let rule = |action, direction| move |place: &Place| Rule::new(action, direction, *place);
        // First match wins: exceptions go first.
        let rules: Vec<Rule> = (self.not.iter().map(rule(Action::Tcp, None)))
            .chain(self.connect.iter().map(rule(Action::Channel, Some(Direction::Connect))))
            .chain(self.listen.iter().map(rule(Action::Channel, Some(Direction::Listen))))
            .collect();
        if rules.is_empty() {
            return Ok(None);
        }
        Rules::new(&rules).map(Some)
    }
}

/// The words and the code for a program that did not start; the codes are those of env(1).
fn cannot_execute(name: &Path, error: &io::Error) -> Failure {
    let shown = name.display();
    if error.kind() != io::ErrorKind::NotFound {
        let way_out = "check its permissions, and that it was built for this machine";
        return Failure::new(NOT_EXECUTABLE, format!("{shown}: {error}; {way_out}"));
    }
    let message = if name.components().count() == 1 && !shown.to_string().contains('/') {
        format!("{shown}: not found in PATH; check the spelling, or give its path")
    } else if name.exists() {
        format!("{shown}: its interpreter is missing; see `file {shown}` or its first line for the name")
    } else {
        format!("{shown}: no such file; check the path")
    };
    Failure::new(NOT_FOUND, message)
}

#[cfg(test)]
mod tests;
