//! `dp doctor`: why a program is, or is not, on channels, and what would change that; whether a host is fit for them.

mod advice;
mod beyond;
mod gateway;
pub mod host;
mod names;
mod neighbours;
pub mod process;
mod report;
mod unit;
mod variables;

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::ls::families::Family;
use crate::ls::Listing;
use crate::program;

/// Tell why a program is, or is not, on channels, and what would change that.
#[derive(clap::Args)]
pub struct Args {
    /// A process, a program that runs (* stands for any characters, ? for one), or one that could.
    #[arg(value_name = "PID|PROGRAM", required_unless_present = "host")]
    whom: Option<String>,
    /// Look at this host: whether channels work here.
    #[arg(long)]
    host: bool,
    /// Print JSON, as dp-doctor(1) describes it.
    #[arg(long)]
    json: bool,
    /// Write all that is known into a new file as well, for whoever is to help; it has nothing of what programs send.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// How bad something is.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// Something is on TCP for a reason, or may be.
    Note,
    /// Nothing can be on a channel, or something is broken.
    Bad,
}

/// One thing that was looked at.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    /// What it is about, in a word.
    pub about: &'static str,
    pub text: String,
    /// What would change it.
    pub way_out: Option<String>,
}

impl Finding {
    pub fn fine(about: &'static str, text: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Fine, about, text: text.into(), way_out: None }
    }

    pub fn note(about: &'static str, text: impl Into<String>, way_out: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Note, about, text: text.into(), way_out: Some(way_out.into()) }
    }

    pub fn bad(about: &'static str, text: impl Into<String>, way_out: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Bad, ..Finding::note(about, text, way_out) }
    }
}

/// What was found of the host, a process or a program.
#[derive(Serialize)]
struct Examined {
    /// "host", "redis-server (71)", "/usr/bin/redis-server".
    what: String,
    pid: Option<u32>,
    findings: Vec<Finding>,
}

/// What `--json` prints, and with `listing` what `--report` writes.
#[derive(Serialize)]
struct Diagnosis<'a> {
    version: u32,
    dp: &'static str,
    examined: &'a [Examined],
    #[serde(flatten)]
    report: Option<report::Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<&'a Listing>,
}

impl<'a> Diagnosis<'a> {
    fn of(examined: &'a [Examined], listing: Option<&'a Listing>) -> Diagnosis<'a> {
        let report = listing.map(|listing| report::Report::look(&listing.families));
        Diagnosis { version: 1, dp: env!("CARGO_PKG_VERSION"), examined, report, listing }
    }
}

pub fn main(args: Args) -> ExitCode {
    match diagnose(&args) {
        Ok(worst) if worst < Verdict::Bad => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("dp doctor: {why}");
            ExitCode::FAILURE
        }
    }
}

fn diagnose(args: &Args) -> Result<Verdict, String> {
    let (listing, _) = Listing::look()?;
    let mut examined = Vec::new();
    if args.host || args.report.is_some() {
        examined.push(Examined { what: "host".into(), pid: None, findings: of_host() });
    }
    if let Some(whom) = &args.whom {
        examined.extend(of(whom, &listing)?);
    }
    if let Some(file) = &args.report {
        let listing = listing.with_gateway("doctor");
        write_new(file, &json(&Diagnosis::of(&examined, Some(&listing))))?;
        eprintln!("dp doctor: {}: names, numbers and addresses of this host's programs are in it; read it before you send it", file.display());
    }
    // Behind the report, which is written whoever reads this.
    crate::say::text(&if args.json { json(&Diagnosis::of(&examined, None)) } else { told(&examined) })?;
    Ok(examined.iter().flat_map(|e| &e.findings).map(|f| f.verdict).max().unwrap_or(Verdict::Fine))
}

fn of_host() -> Vec<Finding> {
    let mut found = host::examine();
    found.extend(gateway::examine());
    found
}

fn json(diagnosis: &Diagnosis) -> String {
    serde_json::to_string_pretty(diagnosis).expect("plain data") + "\n"
}

/// A report of before stays.
fn write_new(file: &Path, text: &str) -> Result<(), String> {
    let opened = fs::File::options().write(true).create_new(true).mode(0o600).open(file);
    opened.and_then(|mut out| out.write_all(text.as_bytes())).map_err(|error| {
        let file = file.display();
        match error.kind() {
            ErrorKind::AlreadyExists => format!("{file}: it exists, and is not overwritten; name a new file"),
            ErrorKind::NotFound => format!("{file}: {error}; make its folder first"),
            _ => format!("{file}: {error}"),
        }
    })
}

/// The processes that are meant; where there are none, the program.
fn of(whom: &str, listing: &Listing) -> Result<Vec<Examined>, String> {
    let examine = |pid: u32| Examined {
        what: process::name(pid),
        pid: Some(pid),
        findings: process::examine(pid, &listing.families),
    };
    if let Ok(pid) = whom.parse() {
        return match Path::new(&format!("/proc/{pid}")).exists() {
            true => Ok(vec![examine(pid)]),
            false => Err(format!("there is no process {pid}")),
        };
    }
    let path = std::env::var_os("PATH");
    let file = program::find(whom.as_ref(), path.as_deref()).filter(|file| file.exists());
    let (running, all_seen) = match (whom.contains('/'), &file) {
        (true, Some(file)) => names::executing(file),
        (true, None) => Ok((Vec::new(), true)),
        (false, _) => names::called(whom).map(|pids| (pids, true)),
    }
    .map_err(|error| format!("/proc: {error}"))?;
    let running = firsts(&running, process::parent, &listing.families);
    if !running.is_empty() {
        return Ok(running.into_iter().map(examine).collect());
    }
    let file = file.ok_or_else(|| {
        format!("{whom}: no process has that name, and no program; check the spelling, dp ls lists programs with the shim")
    })?;
    if !program::is_executable(&file) {
        return Err(format!("{whom}: is no file that can be executed; name a program or a process"));
    }
    Ok(vec![Examined {
        what: file.display().to_string(),
        pid: None,
        findings: process::of_file(&file, all_seen),
    }])
}

/// Those of which another one tells nothing: what is said of one holds for its family, and for what it forked that has none of its
/// own. A worker that a master without connections forked has one.
fn firsts(named: &[u32], parent: impl Fn(u32) -> Option<u32>, families: &[Family]) -> Vec<u32> {
    let family = |pid: u32| {
        families.iter().position(|f| f.memory.is_some() && f.processes.iter().any(|p| p.pid == pid))
    };
    let is_told_of = |&pid: &u32| {
        let parent = parent(pid).filter(|parent| named.contains(parent));
        parent.is_some_and(|parent| family(pid).is_none() || family(pid) == family(parent))
    };
    named.iter().copied().filter(|pid| !is_told_of(pid)).collect()
}

/// As people read it.
fn told(examined: &[Examined]) -> String {
    use process::one_line;
    let mut text = String::new();
    for (i, of) in examined.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        text += &format!("{}\n", one_line(&of.what));
        for finding in &of.findings {
            let mark = match finding.verdict {
                Verdict::Fine => "ok",
                Verdict::Note => "note",
                Verdict::Bad => "BAD",
            };
            text += &format!("  {mark:<5} {}: {}\n", finding.about, one_line(&finding.text));
            if let Some(way_out) = &finding.way_out {
                text += &format!("        -> {}\n", one_line(way_out));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
