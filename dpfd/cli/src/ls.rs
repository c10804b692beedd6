//! `dp ls`: endpoints and edges; other nodes and flows; channels, and connections that stayed on TCP with the reason.

pub mod endpoints;
pub mod families;
pub mod filter;
pub mod flows;
mod lines;
pub mod processes;
pub mod sockets;
pub mod table;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use dp_node::status::Gateway;
use families::{Family, State};
use filter::Filter;
use serde::Serialize;

use crate::say;

/// List endpoints and edges, other nodes and flows; channels, and the connections that stayed on TCP with the reason.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    filter: Filter,
    /// Print bytes exactly, not as KiB and MiB.
    #[arg(long, conflicts_with_all = ["json", "json_lines"])]
    bytes: bool,
    /// Print JSON, as dp-ls(1) describes it.
    #[arg(long)]
    json: bool,
    /// Print a JSON object in a line for each family, connection, endpoint, edge, node and flow.
    #[arg(long, conflicts_with = "json")]
    json_lines: bool,
    /// List again every so many seconds, until it is interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = crate::seconds, conflicts_with = "json")]
    watch: Option<Duration>,
}

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize, Clone, Default)]
pub struct Listing {
    version: u32,
    pub families: Vec<Family>,
    #[serde(flatten)]
    pub graph: endpoints::Graph,
    pub gateway: Option<Gateway>,
}

impl Listing {
    /// What there is at the moment on this node, without what its gateway tells; and why endpoints are missing if they are.
    ///
    /// # Errors
    ///
    /// When /proc cannot be listed; in words.
    pub fn look() -> Result<(Listing, Option<String>), String> {
        let families = families::all()
            .map_err(|error| format!("/proc: {error}; mount it, dp finds the programs there"))?;
        let (graph, missing) = match endpoints::Graph::look() {
            Ok(graph) => (graph, None),
            Err(error) => (endpoints::Graph::default(), Some(error.to_string())),
        };
        Ok((Listing { version: 1, families, graph, gateway: None }, missing))
    }

    /// Asks the gateway as well, for `verb`.
    pub fn with_gateway(self, verb: &str) -> Listing {
        Listing { gateway: flows::look(verb), ..self }
    }
}

pub fn main(args: Args) -> ExitCode {
    match args.watch {
        None => args.once().unwrap_or_else(|code| code),
        Some(every) => args.watch(every),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("dp ls: {why}");
    ExitCode::FAILURE
}

/// Err: nobody reads any more, or it could not be written.
fn print(text: &str) -> Result<(), ExitCode> {
    match say::part(text.as_bytes()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ExitCode::SUCCESS),
        Err(why) => Err(failed(&format!("{why}; the list is not complete"))),
    }
}

impl Args {
    /// Prints one list after the other, until that fails.
    fn watch(&self, every: Duration) -> ExitCode {
        // A terminal shows one at a time; a file, or another program, gets them with a line between.
        let screen = io::stdout().is_terminal() && !self.json_lines;
        let (before, behind) = match screen {
            true => ("\x1b[H\x1b[2J", ""),
            false if self.json_lines => ("", ""),
            false => ("", "\n"),
        };
        loop {
            // A registry that cannot be read now may be mended by the next look.
            let printed = print(before).and_then(|()| self.once()).and_then(|_| print(behind));
            if let Err(code) = printed {
                return code;
            }
            std::thread::sleep(every);
        }
    }

    /// Prints the list. An error: nobody reads any more, or it could not be written.
    fn once(&self) -> Result<ExitCode, ExitCode> {
        let (listing, missing) = Listing::look().map_err(|why| failed(&why))?;
        let mut listing = listing.with_gateway("ls");
        if let Some(why) = &missing {
            eprintln!("dp ls: {why}; endpoints are not listed");
        }
        let nothing = listing.families.is_empty() && listing.graph.is_empty() && listing.gateway.is_none();
        self.filter.apply(&mut listing);
        let text = if self.json {
            serde_json::to_string_pretty(&listing).expect("a listing is plain data") + "\n"
        } else if self.json_lines {
            lines::text(&listing)
        } else {
            table::text(&listing, self.bytes)
        };
        if !self.json && !self.json_lines {
            if nothing && missing.is_none() {
                eprintln!(
                    "dp ls: no endpoint is open, and no program of yours runs with the shim (root sees those of all users)"
                );
            } else if text.is_empty() && missing.is_none() {
                eprintln!("dp ls: nothing is left of the list; without options it has lines");
            }
            listing.graph.explain_gaps("ls");
            listing.gateway.iter().for_each(flows::explain);
            listing.families.iter().for_each(explain);
        }
        print(&text)?;
        Ok(if missing.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
            dp_channel::layouts::family().newest
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
pub mod tests;
