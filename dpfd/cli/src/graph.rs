//! `dp graph`: the graph of a cluster, checked, drawn and compiled, its key, and a picture of what runs.
//!
//! | file | holds |
//! |---|---|
//! | [`running`] | what runs on this node, as `dp ls` knows it |
//! | [`check`] | whether a file is a graph, in words and as JSON |
//! | [`json`] | the same for programs |
//! | [`picture`] | which kind of picture, and where it goes |
//! | `raster` | pictures of pixels |

mod check;
mod json;
mod picture;
#[cfg(feature = "plot")]
mod raster;
mod running;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use dp_graph::faults::Faults;
use dp_graph::picture::Picture;
use dp_graph::{file, Graph};

use crate::{asked, say};
use picture::Kind;

const AFTER_HELP: &str = "\
FILE is a graph as dp-graph.toml(5) describes it: nodes with their addresses, processes,
endpoints, edges.";

/// Check, draw and compile the graph of a cluster, make its key, and draw what runs.
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
    /// Make a key for a graph, in a new file that only its owner can read.
    Key {
        /// The file.
        file: PathBuf,
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
        /// Only a part of it.
        #[arg(long, value_enum)]
        only: Option<running::Only>,
        /// Print JSON, as dp-graph(1) describes it.
        #[arg(long, conflicts_with = "out")]
        json: bool,
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
        Verb::Check { file, json } => check::check(&file, json),
        Verb::Key { file } => make_key(&file),
        Verb::Draw { file, out } => {
            let kind = asked(Kind::of(out.as_deref()));
            sound(&file).and_then(|graph| picture::put(&Picture::of(&graph), kind, out.as_deref()))
        }
        Verb::Live { file, out, only, json } => {
            let kind = asked(Kind::of(out.as_deref()));
            if file.is_some() && only == Some(running::Only::Channels) {
                let why = "--only channels has nothing to compare with a FILE, which knows of none: leave one of them out";
                asked::<()>(Err(why.into()));
            }
            if let Err(code) = crate::check_environment("graph") {
                return code;
            }
            let graph = file.map(|file| sound(&file)).transpose();
            graph.and_then(|graph| {
                let running = running::look(only).map_err(Stop::Said)?;
                let picture = Picture::live(&running, graph.as_ref());
                if json {
                    return write_out(json::text(&running, &picture).as_bytes(), None);
                }
                picture::put(&picture, kind, out.as_deref())
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

fn make_key(file: &Path) -> Result<(), Stop> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.exists()) {
        return Err(Stop::Said(format!("{}: No such file or directory; make its folder first", name(file))));
    }
    dp_seal::keyfile::create(file).map_err(|error| Stop::Said(format!("{}: {error}", name(file))))
}

/// A file's name in messages.
pub fn name(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

/// The text of a graph's file.
pub fn read(path: &Path) -> Result<String, String> {
    let said = |why: String| format!("{}: {why}", name(path));
    // A shell's pipes have a name there, and somebody writes into them. Into another one perhaps nobody ever does.
    let is_handed_over = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|place| path.starts_with(place));
    if !is_handed_over && path.metadata().is_ok_and(|meta| meta.file_type().is_fifo()) {
        return Err(said("a pipe, and no file; for a pipe name /dev/stdin".into()));
    }
    let mut bytes = Vec::new();
    let limit = file::LONGEST as u64;
    let taken = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    taken.map_err(|error| match error.kind() {
        ErrorKind::NotFound => said(format!("{error}; dp-graph.toml(5) tells how to write one")),
        _ => said(error.to_string()),
    })?;
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
    Graph::parse(&read(path).map_err(Stop::Said)?).map_err(|faults| tell(path, &faults))
}

fn tell(path: &Path, faults: &Faults) -> Stop {
    eprint!("{}", faults.told(&name(path)));
    let n = faults.list.len();
    eprintln!("dp graph: {}: no graph: {n} fault{}", name(path), if n == 1 { "" } else { "s" });
    Stop::Told
}

/// To a file, or else to standard output.
fn write_out(bytes: &[u8], out: Option<&Path>) -> Result<(), Stop> {
    match out {
        Some(path) => {
            std::fs::write(path, bytes).map_err(|error| Stop::Said(format!("{}: {error}", name(path))))
        }
        None => say::bytes(bytes).map_err(|why| Stop::Said(format!("{why}; it is not complete"))),
    }
}
