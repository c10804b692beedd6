//! `dp graph`: the graph of a cluster, checked, drawn and compiled, and a picture of what runs.
//!
//! | file | holds |
//! |---|---|
//! | [`running`] | what runs on this node, as `dp ls` knows it |
//! | [`picture`] | which kind of picture, and where it goes |
//! | `raster` | pictures of pixels |

mod picture;
#[cfg(feature = "plot")]
mod raster;
mod running;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use dp_graph::faults::Faults;
use dp_graph::live::Picture;
use dp_graph::{file, Graph};
use serde::Serialize;

use crate::asked;
use picture::Kind;

const AFTER_HELP: &str = "\
FILE is a graph as dp-graph.toml(5) describes it: nodes with their addresses, processes,
endpoints, edges.";

/// Check, draw and compile the graph of a cluster, and draw what runs.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say whether FILE is a graph, or all that is wrong with it.
    Check {
        /// The graph.
        file: PathBuf,
        /// Print JSON, as dp-graph(1) describes it.
        #[arg(long)]
        json: bool,
    },
    /// Draw the graph.
    Draw {
        /// The graph.
        file: PathBuf,
        /// Where to, by its name .dot, .svg or .png; else DOT goes to standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Draw what runs on this node; with FILE, what is in it and does not run, and the reverse, is marked.
    Live {
        /// A graph to compare with.
        file: Option<PathBuf>,
        /// Where to, by its name .dot, .svg or .png; else DOT goes to standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Make of the graph what programs are given with DP_GRAPH.
    Compile {
        /// The graph.
        file: PathBuf,
        /// Where to; else to standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Why it did not come about, where that was not told yet.
enum Stop {
    Said(String),
    Told,
}

pub fn main(args: Args) -> ExitCode {
    let done = match args.verb {
        Verb::Check { file, json } => check(&file, json),
        Verb::Draw { file, out } => {
            let kind = asked(Kind::of(out.as_deref()));
            sound(&file).and_then(|graph| picture::put(&Picture::of(&graph), kind, out.as_deref()))
        }
        Verb::Live { file, out } => {
            let kind = asked(Kind::of(out.as_deref()));
            if let Err(code) = crate::check_environment("graph") {
                return code;
            }
            let graph = file.map(|file| sound(&file)).transpose();
            graph.and_then(|graph| {
                let running = running::look().map_err(Stop::Said)?;
                picture::put(&Picture::live(&running, graph.as_ref()), kind, out.as_deref())
            })
        }
        Verb::Compile { file, out } => {
            sound(&file).and_then(|graph| write_out(graph.compile().as_bytes(), out.as_deref()))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            if let Stop::Said(why) = stop {
                eprintln!("dp graph: {why}");
            }
            ExitCode::FAILURE
        }
    }
}

/// A file's name in messages.
fn name(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

fn read(path: &Path) -> Result<String, Stop> {
    let said = |why: String| Stop::Said(format!("{}: {why}", name(path)));
    let mut bytes = Vec::new();
    let limit = file::LONGEST as u64;
    let taken = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    taken.map_err(|error| said(error.to_string()))?;
    if bytes.len() > file::LONGEST {
        return Err(said(format!("more than {} MiB; no graph is that long", limit >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        said(format!("line {line} is not UTF-8; write the file anew with an editor that does that"))
    })
}

/// The graph in a file; what is wrong with it is told.
fn sound(path: &Path) -> Result<Graph, Stop> {
    Graph::parse(&read(path)?).map_err(|faults| tell(path, &faults))
}

fn tell(path: &Path, faults: &Faults) -> Stop {
    eprint!("{}", faults.told(&name(path)));
    let n = faults.list.len();
    eprintln!("dp graph: {}: no graph: {n} fault{}", name(path), if n == 1 { "" } else { "s" });
    Stop::Told
}

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize, Default)]
struct Report<'a> {
    version: u32,
    file: String,
    sound: bool,
    strict: Option<bool>,
    nodes: Option<usize>,
    processes: Option<usize>,
    endpoints: Option<usize>,
    edges: Option<usize>,
    faults: Vec<FaultLine<'a>>,
}

#[derive(Serialize)]
struct FaultLine<'a> {
    line: usize,
    column: usize,
    rule: &'a str,
    what: &'a str,
    way_out: &'a str,
}

fn check(path: &Path, json: bool) -> Result<(), Stop> {
    let parsed = Graph::parse(&read(path)?);
    let endpoints = |graph: &Graph| graph.processes.iter().map(|p| p.endpoints.len()).sum::<usize>();
    if json {
        let mut report = Report { version: 1, file: path.display().to_string(), ..Report::default() };
        match &parsed {
            Ok(graph) => {
                report.sound = true;
                report.strict = Some(graph.strict);
                report.nodes = Some(graph.nodes.len());
                report.processes = Some(graph.processes.len());
                report.endpoints = Some(endpoints(graph));
                report.edges = Some(graph.edges.len());
            }
            Err(faults) => {
                report.faults = faults
                    .list
                    .iter()
                    .map(|f| FaultLine {
                        line: f.line,
                        column: f.column,
                        rule: f.word,
                        what: &f.what,
                        way_out: &f.way_out,
                    })
                    .collect();
            }
        }
        let text = serde_json::to_string_pretty(&report).expect("a report is plain data") + "\n";
        write_out(text.as_bytes(), None)?;
        return parsed.map(drop).map_err(|_| Stop::Told);
    }
    let graph = parsed.map_err(|faults| tell(path, &faults))?;
    let count = |n: usize, what: &str, more: &str| format!("{n} {what}{}", if n == 1 { "" } else { more });
    let counts = [
        count(graph.nodes.len(), "node", "s"),
        count(graph.processes.len(), "process", "es"),
        count(endpoints(&graph), "endpoint", "s"),
        count(graph.edges.len(), "edge", "s"),
    ];
    let strict = if graph.strict { ", strict" } else { "" };
    write_out(format!("{}: {}{strict}\n", name(path), counts.join(", ")).as_bytes(), None)
}

/// To a file, or else to standard output.
fn write_out(bytes: &[u8], out: Option<&Path>) -> Result<(), Stop> {
    match out {
        Some(path) => {
            std::fs::write(path, bytes).map_err(|error| Stop::Said(format!("{}: {error}", name(path))))
        }
        None => match io::stdout().write_all(bytes) {
            // The reader has seen enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Stop::Said(format!("standard output: {error}; it is not complete")))
            }
            _ => Ok(()),
        },
    }
}
