//! `dp`: one file a verb.

mod bench;
mod ls;
mod program;
mod run;
mod shim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "dp", version, about = "Directed Point: fast channels between programs on one machine")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a program with its TCP connections on DP channels.
    Run(run::Args),
    /// List channels, and the connections that stayed on TCP with the reason.
    Ls(ls::Args),
    /// Measure one edge between two cores, with TCP, AF_UNIX and a pipe beside it.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Run(args) => run::main(args),
        Verb::Ls(args) => ls::main(args),
        Verb::Bench(args) => bench::main(args),
    }
}
