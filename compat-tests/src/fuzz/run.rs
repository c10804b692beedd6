//! Runs a script once, line after line.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::script::{Line, Script, Who};
use super::side::{Answer, Side};

/// Which of the two have the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shimmed {
    /// The server.
    pub server: bool,
    /// The client.
    pub client: bool,
}

impl Shimmed {
    /// TCP, the judge.
    pub const NONE: Self = Self { server: false, client: false };
    /// Channels.
    pub const BOTH: Self = Self { server: true, client: true };
    /// The server alone.
    pub const SERVER: Self = Self { server: true, client: false };
    /// The client alone.
    pub const CLIENT: Self = Self { server: false, client: true };

    /// As printed: `ss` is the shim on both sides.
    pub fn name(self) -> &'static str {
        match (self.server, self.client) {
            (false, false) => "nn",
            (true, true) => "ss",
            (true, false) => "sn",
            (false, true) => "ns",
        }
    }
}

/// The two programs that a run needs.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The interpreter of scripts.
    pub interpreter: PathBuf,
    /// The shim.
    pub shim: PathBuf,
}

/// Nothing in an operation takes that long, unless it hangs, or the machine is busy.
const LIMIT: Duration = Duration::from_millis(2500);

/// Nor that long, on any machine.
const LONG_LIMIT: Duration = Duration::from_secs(15);

/// What a line that was never reached has for a result.
pub const NOT_REACHED: &str = "-";

/// What the last line's result has behind it where a wake-up was lost.
const LOST: &str = ", and a wake-up was lost";

impl Tools {
    /// The results, one a line.
    pub fn run(&self, script: &Script, shimmed: Shimmed) -> Vec<String> {
        self.run_within(script, shimmed, LIMIT)
    }

    /// The same, and what hangs is certain to.
    pub(super) fn run_patiently(&self, script: &Script, shimmed: Shimmed) -> Vec<String> {
        self.run_within(script, shimmed, LONG_LIMIT)
    }

    fn run_within(&self, script: &Script, shimmed: Shimmed, limit: Duration) -> Vec<String> {
        let shim = |with: bool| with.then_some(self.shim.as_path());
        let settings = settings(script);
        let mut pair =
            Pair::start(&self.interpreter, shim(shimmed.server), shim(shimmed.client), &settings, limit);
        let mut results = Vec::with_capacity(script.0.len());
        for line in &script.0 {
            let result = pair.run(line);
            let hangs = result.contains("HANG");
            results.push(result);
            if hangs {
                break;
            }
        }
        // No line differs by it, but for the time that it took.
        if [&pair.server, &pair.client].into_iter().any(Side::has_lost) {
            results.last_mut().into_iter().for_each(|result| result.push_str(LOST));
        }
        results.resize(script.0.len(), NOT_REACHED.into());
        results
    }
}

/// The shim's settings of a script: `- env DP_SPIN=0`.
fn settings(script: &Script) -> Vec<(String, String)> {
    let lines = script.0.iter().filter(|line| line.who == Who::Nobody && line.word(0) == "env");
    let words = lines.flat_map(|line| line.words.iter().skip(1)).filter(|word| word.starts_with("DP_"));
    words.filter_map(|word| word.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

struct Pair {
    server: Side,
    client: Side,
    port: String,
    limit: Duration,
}

impl Pair {
    fn start(
        interpreter: &Path,
        server: Option<&Path>,
        client: Option<&Path>,
        settings: &[(String, String)],
        limit: Duration,
    ) -> Self {
        let mut server = Side::start(interpreter, "server", server, settings);
        let client = Side::start(interpreter, "client", client, settings);
        server.tell("listen");
        let port = match server.hear(LONG_LIMIT) {
            Answer::Said(port) => port,
            _ => "0".into(),
        };
        Self { server, client, port, limit }
    }

    fn run(&mut self, line: &Line) -> String {
        match line.who {
            Who::Server => alone(&mut self.server, line, self.limit),
            Who::Client => alone(&mut self.client, line, self.limit),
            Who::Both if line.word(0) == "open" => {
                let registered = line.words[2..].join(" ");
                let connect = format!("connect {} {} {registered}", line.word(1), self.port);
                let connected = one(&mut self.client, &connect, self.limit);
                if connected != "ok" {
                    return connected;
                }
                one(&mut self.server, &format!("accept {}", line.word(1)), self.limit)
            }
            Who::Both => {
                self.server.tell(&line.text());
                self.client.tell(&line.text());
                let client = heard(&mut self.client, self.limit);
                format!("{} / {client}", heard(&mut self.server, self.limit))
            }
            Who::Nobody if line.word(0) == "env" => "ok".into(),
            Who::Nobody => {
                let milliseconds = line.word(1).parse().unwrap_or(2);
                sleep(Duration::from_millis(milliseconds));
                "ok".into()
            }
        }
    }
}

/// What one side does, or what is done to it.
fn alone(side: &mut Side, line: &Line, limit: Duration) -> String {
    match line.word(0) {
        "stop" => said(side.stop()),
        "cont" => said(side.go_on()),
        _ => one(side, &line.text(), limit),
    }
}

fn said(done: bool) -> String {
    if done { "ok" } else { "gone" }.into()
}

fn one(side: &mut Side, text: &str, limit: Duration) -> String {
    side.tell(text);
    heard(side, limit)
}

fn heard(side: &mut Side, limit: Duration) -> String {
    match side.hear(limit) {
        Answer::Said(text) => text,
        Answer::Hangs => "HANG".into(),
        Answer::Ended => format!("ended, {}", side.fate().unwrap_or_default()),
    }
}
