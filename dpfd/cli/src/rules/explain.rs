//! `dp rules explain`: which rule decides about a connection, and why.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dp_edge::sys::process;
use dp_rules::{cgroup, Direction, Files, Names, Program, Question, Rules};
use serde::Serialize;

use super::{json, load, Line, VERSION};
use crate::say::{self, Lines};

#[derive(clap::Args)]
pub struct Args {
    /// The program, by its name or a path that ends in it.
    program: OsString,

    /// The address that it connects to, with the port; localhost is 127.0.0.1, and [fe80::1%eth0] names an interface.
    #[arg(value_name = "ADDRESS:PORT", value_parser = address)]
    address: SocketAddr,

    /// It accepts the connection, at this address of its own.
    #[arg(long)]
    listen: bool,

    /// Its effective user, by name or number; without it yours.
    #[arg(long, value_parser = user)]
    user: Option<u32>,

    /// Its effective group; without it yours.
    #[arg(long, value_parser = group)]
    group: Option<u32>,

    /// Its control group, as in /proc/PID/cgroup; without it yours.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,

    /// Its unit of systemd; what has no ending is a service.
    #[arg(long, conflicts_with = "cgroup", value_parser = unit)]
    unit: Option<String>,

    /// A file of rules in the place of those that a program would go by that was started now.
    #[arg(long, value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// As of a command line.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = "an IP address with a port, as in 127.0.0.1:6379, [::1]:6379, localhost:6379";
    let text = text.strip_prefix("localhost").map_or_else(|| text.into(), |rest| format!("127.0.0.1{rest}"));
    numbered(&text).unwrap_or(text).parse().map_err(|_| wrong.into())
}

/// `[fe80::1%eth0]:80`, as ss(8) prints it, with the number of the interface; None: no interface stands there.
fn numbered(text: &str) -> Option<String> {
    let (addr, rest) = text.split_once('%')?;
    let (name, port) = rest.split_once(']')?;
    let number = nix::net::if_::if_nametoindex(name).ok()?;
    Some(format!("{addr}%{number}]{port}"))
}

fn user(text: &str) -> Result<u32, String> {
    text.parse().ok().or_else(|| Files.user(text)).ok_or_else(|| "a number, or a name of /etc/passwd".into())
}

fn group(text: &str) -> Result<u32, String> {
    text.parse().ok().or_else(|| Files.group(text)).ok_or_else(|| "a number, or a name of /etc/group".into())
}

/// As systemctl(1) takes it, and `unit=` of a rule.
fn unit(text: &str) -> Result<String, String> {
    let is_whole = text.ends_with(".service") || text.ends_with(".scope");
    Ok(if is_whole { text.into() } else { format!("{text}.service") })
}

/// The answer in words.
#[derive(Serialize)]
struct Answer {
    version: u32,
    action: &'static str,
    /// What the rule says of channels, as it is written.
    settings: Option<String>,
    /// Null: no rule matches.
    because: Option<Line>,
    passed_over: Vec<Passed>,
    /// What more there is to know of it.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Passed {
    #[serde(flatten)]
    line: Line,
    is_for: String,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (rules, found) = load(args.file.as_ref()).map_err(|error| error.to_string())?;
    let own = std::fs::read("/proc/self/cgroup").unwrap_or_default();
    let within = match (&args.unit, &args.cgroup) {
        (Some(unit), _) => format!("/system.slice/{unit}").into_bytes(),
        (None, Some(path)) => path.clone().into_bytes(),
        (None, None) => cgroup(&own).to_vec(),
    };
    let name = Path::new(&args.program).file_name().unwrap_or(&args.program);
    let question = Question {
        program: Program {
            name: name.as_bytes(),
            user: args.user.unwrap_or_else(process::effective_user),
            group: args.group.unwrap_or_else(process::effective_group),
            cgroup: &within,
        },
        direction: if args.listen { Direction::Listen } else { Direction::Connect },
        addr: args.address.ip(),
        port: args.address.port(),
        here: args.listen || is_of_this_host(args.address),
    };
    let answer = answer(&rules, &question, |i| Line::of(&rules, i, Some(&found.source)));
    if args.json {
        say::text(&json(&answer))
    } else {
        let mut lines = Lines::default();
        answer.tell(&mut lines);
        lines.end()
    }
}

fn answer(rules: &Rules, question: &Question, line: impl Fn(usize) -> Option<Line>) -> Answer {
    let decision = rules.decide(question);
    let settings = decision.settings.to_string();
    let passed = rules.passed_over(question);
    Answer {
        version: VERSION,
        action: decision.action.word(),
        settings: Some(settings.trim().to_string()).filter(|text| !text.is_empty()),
        because: decision.because.and_then(&line),
        passed_over: passed
            .filter_map(|(i, why)| Some(Passed { line: line(i)?, is_for: why.to_string() }))
            .collect(),
        notes: notes(decision.action.makes_channels(), question),
    }
}

/// Whether an address is one of this host's, as far as this network namespace has it.
fn is_of_this_host(mut addr: SocketAddr) -> bool {
    addr.set_port(0);
    let is_own = |addr: SocketAddr| std::net::UdpSocket::bind(addr).is_ok();
    addr.ip().to_canonical().is_loopback() || is_own(addr) || on_some_interface(addr).any(is_own)
}

/// A link-local address without an interface may be that of any.
fn on_some_interface(addr: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let v6 = match addr {
        SocketAddr::V6(v6) if v6.scope_id() == 0 && v6.ip().is_unicast_link_local() => Some(v6),
        _ => None,
    };
    let all = v6.and_then(|_| nix::net::if_::if_nameindex().ok());
    let numbers: Vec<u32> = all.iter().flatten().map(|interface| interface.index()).collect();
    numbers.into_iter().zip(v6.into_iter().cycle()).map(|(number, mut v6)| {
        v6.set_scope_id(number);
        v6.into()
    })
}

fn notes(channel: bool, question: &Question) -> Vec<String> {
    let note = if !channel {
        return Vec::new();
    } else if !question.here {
        "only connections within this host become channels (reason remote)".into()
    } else if question.direction == Direction::Listen {
        "this is for clients of this host; connections of others stay on TCP (reason remote)".into()
    } else {
        // Without an interface, which the server's own question does not need.
        let server = SocketAddr::new(question.addr, question.port);
        format!("the server's end goes by its own rules: dp rules explain --listen SERVER {server}")
    };
    vec![note]
}

impl Answer {
    fn tell(&self, lines: &mut Lines) {
        let settings = self.settings.as_ref().map_or_else(String::new, |text| format!(", {text}"));
        lines.say(format!("{}{settings}", self.action));
        match &self.because {
            Some(line) if line.line.is_some() => {
                lines.say(format!("decided by {}: {}", line.place(), line.rule));
            }
            Some(line) => lines.say(format!("decided by the rule that completes the list: {}", line.rule)),
            None => lines.say("no rule matches, so it stays on TCP"),
        }
        for Passed { line, is_for } in &self.passed_over {
            lines.say(format!("passed over {}: {} (for {is_for})", line.place(), line.rule));
        }
        for note in &self.notes {
            lines.say(format!("note: {note}"));
        }
    }
}
