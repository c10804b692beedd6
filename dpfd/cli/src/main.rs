//! `dp`: one file a verb.

// Standard output may be closed or full: `say` writes there without a panic.
#![deny(clippy::print_stdout)]
// Modules that need it say so, and why.
#![deny(unsafe_code)]

#[macro_use]
mod say;

mod bench;
mod capture;
mod completions;
mod cost;
mod device;
mod doctor;
mod enable;
mod framing;
mod graph;
mod logp;
mod ls;
mod metrics;
mod needs;
mod node;
mod origin;
#[cfg(test)]
#[path = "../tests/page/mod.rs"]
mod page;
mod pair;
mod program;
mod recv;
mod rules;
mod run;
mod send;
mod shim;
mod signals;
mod status;
mod top;
mod unit;

use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser, Subcommand};
use dp_rules::config::slips;

#[derive(Parser)]
#[command(
    name = "dp",
    version,
    about = "Directed Point: endpoints that are file descriptors, fast channels under unmodified programs"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a program with its TCP connections on DP channels.
    Run(run::Args),
    /// Put a service of systemd under the shim.
    Enable(enable::Args),
    /// Take what `dp enable` did back, without a trace.
    Disable(enable::DisableArgs),
    /// Tell how services under the shim are: the drop-in, their processes, channels, connections on TCP.
    Status(status::Args),
    /// Check the rules for connections, tell which one decides, have running programs read them anew.
    Rules(rules::Args),
    /// List endpoints and edges, other nodes and flows; channels, and the connections that stayed on TCP with the reason.
    Ls(ls::Args),
    /// Show how fast programs, channels, endpoints and flows go, again and again.
    Top(top::Args),
    /// Tell why a program is, or is not, on channels, and what would change that.
    Doctor(doctor::Args),
    /// Write the bytes of channels as pcapng, which Wireshark and tshark read as TCP.
    Capture(capture::Args),
    /// Print counts of channels, endpoints, other nodes and flows as Prometheus reads them, or serve them.
    Metrics(metrics::Args),
    /// Send standard input to an endpoint.
    Send(send::Args),
    /// Receive messages on an endpoint and write them to standard output.
    Recv(recv::Args),
    /// Other nodes: number this one, attach interfaces, say where nodes are (the kernel driver).
    Device(device::Args),
    /// Measure endpoints and a channel between two cores, with TCP, AF_UNIX and a pipe beside them.
    Bench(bench::Args),
    /// Tell what a message costs its sender, its receiver and neither of them (LogP), on several ways of sending.
    Logp(logp::Args),
    /// Measure the cost model of Directed Point on this machine, and set its predictions against measurements.
    Cost(cost::Args),
    /// Check, draw and compile the graph of a cluster, make its key, and draw what runs.
    Graph(graph::Args),
    /// Serve the endpoints of other nodes here: the gateway of this node.
    Node(node::Args),
    /// Print what a shell needs to complete the command line of dp.
    Completions(completions::Args),
    /// The second process of a measurement, started by the first; its standard input is the way to it.
    #[command(hide = true)]
    Peer,
}

fn main() -> ExitCode {
    match Cli::try_parse().unwrap_or_else(|error| ended(with_usage(error))).verb {
        Verb::Run(args) => run::main(args),
        Verb::Enable(args) => enable::main(args),
        Verb::Disable(args) => enable::disable(args),
        Verb::Status(args) => status::main(args),
        Verb::Rules(args) => rules::main(args),
        Verb::Ls(args) => ls::main(args),
        Verb::Top(args) => top::main(args),
        Verb::Doctor(args) => doctor::main(args),
        Verb::Capture(args) => capture::main(args),
        Verb::Metrics(args) => metrics::main(args),
        Verb::Send(args) => send::main(args),
        Verb::Recv(args) => recv::main(args),
        Verb::Device(args) => device::main(args),
        Verb::Bench(args) => bench::main(args),
        Verb::Logp(args) => logp::main(args),
        Verb::Cost(args) => cost::main(args),
        Verb::Graph(args) => graph::main(args),
        Verb::Node(args) => node::main(args),
        Verb::Completions(args) => completions::main(&args, &Cli::command()),
        Verb::Peer => pair::work::serve(),
    }
}

/// What the command line asks for; if it cannot be had, the program says why and ends, as for an unknown option.
fn asked<T>(what: Result<T, String>) -> T {
    what.unwrap_or_else(|why| of_verb(|verb| verb.error(ErrorKind::ValueValidation, why)).exit())
}

/// Says what is wrong with the command line, or what it asks for: help is lost like anything else where it cannot be written.
fn ended(error: clap::Error) -> ! {
    let is_help = !error.use_stderr();
    match error.print() {
        Err(e) if is_help && e.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("dp: standard output: {e}");
            std::process::exit(1);
        }
        _ => std::process::exit(error.exit_code()),
    }
}

/// An error about a value comes from clap without the usage of the verb that the value is for.
fn with_usage(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::ValueValidation && error.get(ContextKind::Usage).is_none() {
        let usage = of_verb(Command::render_usage);
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

/// The command that this process was called for: `dp device nart`, not `dp`.
fn of_verb<T>(tell: impl FnOnce(&mut Command) -> T) -> T {
    let mut cli = Cli::command();
    // Only a command that was built knows the names of those above it.
    cli.build();
    let mut verb = &mut cli;
    for word in std::env::args_os().skip(1).map_while(|word| word.into_string().ok()) {
        if verb.find_subcommand(&word).is_none() {
            break;
        }
        verb = verb.find_subcommand_mut(&word).expect("it was found before");
    }
    tell(verb)
}

/// Warns of variables whose names look like known ones with a slip: nothing else would ever speak of them.
fn warn_of_slips(verb: &str) {
    let mut names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    names.sort();
    for name in names {
        if let Some(meant) = slips::meant(&name) {
            eprintln!("dp {verb}: warning: {}", slips::told(&name, meant));
        }
    }
}

/// What endpoints go by; a number that cannot be is told as an option's would be.
fn check_environment(verb: &str) -> Result<(), ExitCode> {
    warn_of_slips(verb);
    dpfd::addr::OWN_NID.check().map_err(|wrong| {
        eprintln!("dp {verb}: {wrong}");
        ExitCode::from(2)
    })
}

/// A time on the command line.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(n) if (0.001..=1e9).contains(&n) => Ok(Duration::from_secs_f64(n)),
        _ => Err("a number of seconds from 0.001 to 1000000000, decimals allowed".into()),
    }
}
