//! `dp metrics`: what `dp ls` lists, as Prometheus reads it: once, into a file, or served.

mod http;
mod serve;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::ls::{flows, Listing};
use crate::say;

/// Print counts of channels, endpoints, other nodes and flows as Prometheus reads them.
#[derive(clap::Args)]
pub struct Args {
    /// Write to this file instead, whole or not at all: for node_exporter's textfile collector.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Serve /metrics here: ADDRESS:PORT, or unix:PATH.
    #[arg(long, value_name = "WHERE")]
    listen: Option<serve::Place>,
}

pub fn main(args: Args) -> ExitCode {
    let done = match (args.listen, args.textfile) {
        (Some(place), _) => serve::serve(&place),
        (_, Some(file)) => now().and_then(|text| replace(&file, text.as_bytes())),
        _ => now().and_then(print),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dp metrics: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The counts at this moment.
fn now() -> Result<String, String> {
    let (mut listing, missing) = Listing::look()?;
    if let Some(why) = &missing {
        eprintln!("dp metrics: {why}; endpoints are not counted");
    }
    let gateway = flows::ask();
    if let Err(why) = &gateway {
        eprintln!("dp metrics: {why}");
    }
    let silent = gateway.is_err();
    listing.gateway = gateway.ok().flatten();
    Ok(text::of(&listing, missing.is_none(), silent))
}

fn print(text: String) -> Result<(), String> {
    say::text(&text).map_err(|why| format!("{why}; the counts are not complete"))
}

/// Replaces `file` as a whole: a reader sees what was there before, or all of this. A link to a file stays one. What is there
/// and is no file, a device above all, stays: to put a file at its name would be root's way to lose it.
fn replace(file: &Path, bytes: &[u8]) -> Result<(), String> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let named = |error: io::Error| {
        let way_out = match error.kind() {
            io::ErrorKind::NotFound => "; make its folder first",
            _ => "",
        };
        format!("{}: {error}{way_out}", file.display())
    };
    match std::fs::metadata(file) {
        Ok(there) if there.is_dir() => {
            return Err(format!("{}: is a folder; name a file in it, as dp.prom", file.display()))
        }
        Ok(there) if !there.is_file() => {
            return Err(format!("{}: is no file; without --textfile the counts are printed", file.display()))
        }
        _ => {}
    }
    let file = &std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut new = file.as_os_str().to_owned();
    // The collector reads what ends in .prom.
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let write = || {
        let mut out = std::fs::File::options().write(true).create_new(true).mode(0o644).open(&new)?;
        out.set_permissions(std::fs::Permissions::from_mode(0o644))?;
        out.write_all(bytes)?;
        std::fs::rename(&new, file)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&new);
        named(error)
    })
}
