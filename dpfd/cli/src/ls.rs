//! `dp ls`: endpoints and edges; channels, and connections that stayed on TCP with the reason.

pub mod endpoints;
mod families;
mod processes;
mod sockets;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use families::{Family, State};
use serde::Serialize;

/// List endpoints and edges; channels, and the connections that stayed on TCP with the reason.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON, as dp-ls(1) describes it.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize)]
struct Listing {
    version: u32,
    families: Vec<Family>,
    #[serde(flatten)]
    graph: endpoints::Graph,
}

pub fn main(args: Args) -> ExitCode {
    let families = match families::all() {
        Ok(families) => families,
        Err(error) => {
            eprintln!("dp ls: /proc: {error}; mount it, dp ls finds the programs there");
            return ExitCode::FAILURE;
        }
    };
    let (graph, sound) = match endpoints::Graph::look() {
        Ok(graph) => (graph, true),
        Err(error) => {
            eprintln!("dp ls: {error}; endpoints are not listed");
            (endpoints::Graph::default(), false)
        }
    };
    let listing = Listing { version: 1, families, graph };
    let text = if args.json {
        serde_json::to_string_pretty(&listing).expect("a listing is plain data") + "\n"
    } else {
        table::text(&listing)
    };
    if !args.json {
        if listing.families.is_empty() && listing.graph.is_empty() && sound {
            eprintln!(
                "dp ls: no endpoint is open, and no program of yours runs with the shim (root sees those of all users)"
            );
        }
        listing.graph.explain_gaps("ls");
        listing.families.iter().for_each(explain);
    }
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("dp ls: standard output: {error}; the list is not complete");
            ExitCode::FAILURE
        }
        _ if !sound => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Says what the table cannot.
fn explain(family: &Family) {
    let process = &family.processes[0];
    let (name, pid) = (table::printable(&process.program), process.pid);
    if family.state == State::Unreadable {
        let layout = family.layout.unwrap_or(0);
        eprintln!(
            "dp ls: {name} ({pid}) has another version of the shim, whose notes (layout {layout}, here {}) only the dp \
             beside it can read; restart the program with this one, or ask that dp",
            dp_channel::family::VERSION
        );
    }
    if family.lost_wakeups > 0 {
        eprintln!(
            "dp ls: {name} ({pid}) slept {} times over something that had come, and found it by a second look: a fault of \
             the shim; run it without until that is mended",
            family.lost_wakeups
        );
    }
}

#[cfg(test)]
mod tests;
