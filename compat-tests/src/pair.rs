//! A program's two sides, run together.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::combo::{native_only, Combo};
use crate::job::{Ended, Job};
use crate::programs;
use crate::tools::{needed, TempDir};
use crate::transcript::difference;

/// A program of `programs/` with its arguments, that can be started as server and as client.
#[derive(Clone)]
pub struct Pair {
    server: PathBuf,
    client: PathBuf,
    source: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    limit: Duration,
    /// Whether it is tried under combinations with [`Combo::chaos`] as well.
    forced: bool,
}

impl Pair {
    /// `programs/NAME.c`
    pub fn c(name: &str) -> Self {
        Self::new(programs::c(name), programs::source_dir().join(name).with_extension("c"))
    }

    /// `programs/NAME` under `/usr/bin/python3` (a python3 elsewhere may be a wrapper that starts others).
    pub fn python(name: &str) -> Self {
        let mut pair = Self::new(needed("python3", "python3"), programs::python(name));
        pair.arguments.push(programs::python(name).display().to_string());
        pair
    }

    fn new(program: PathBuf, source: PathBuf) -> Self {
        let (arguments, environment) = (Vec::new(), Vec::new());
        let (server, client) = (program.clone(), program);
        Self { server, client, source, arguments, environment, limit: Duration::from_secs(30), forced: true }
    }

    /// The client is linked statically: the shim never reaches it.
    pub fn static_client(mut self) -> Self {
        self.client = programs::c_static(&self.source.file_stem().unwrap_or_default().to_string_lossy());
        self
    }

    /// The server is linked statically.
    pub fn static_server(mut self) -> Self {
        self.server = programs::c_static(&self.source.file_stem().unwrap_or_default().to_string_lossy());
        self
    }

    /// Adds an argument: the first is the mode.
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable on both sides.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Not where sends are forced back to TCP: what that brings about here is a limit that dp-preload(7) names.
    pub fn unforced(mut self) -> Self {
        self.forced = false;
        self
    }

    /// Over ::1 instead of 127.0.0.1.
    pub fn over_ipv6(self) -> Self {
        self.env("COMPAT_LISTEN", "::1")
    }

    /// Starts both sides. The client waits for the server's port file by itself.
    pub fn start(&self, combo: &Combo) -> Running {
        let folder = TempDir::new();
        let side = |name: &str, mut command: Command| {
            // A Python program's own path comes before the role.
            let script = self.arguments.iter().take(usize::from(self.server.ends_with("python3")));
            let rest = self.arguments.iter().skip(script.len());
            command.args(script).arg(name).arg(folder.file("port")).args(rest);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            Job::start(name, command, folder.path())
        };
        let server = side("server", combo.server_command(&self.server, folder.path()));
        let client = side("client", combo.client_command(&self.client, folder.path()));
        Running { server, client, folder, deadline: Instant::now() + self.limit }
    }

    /// Runs both sides to their end.
    pub fn run(&self, combo: &Combo) -> [Ended; 2] {
        self.start(combo).finish()
    }

    /// Runs natively, then under every combination, and compares.
    ///
    /// # Panics
    /// If the native run fails, or any other run differs from it; the message shows all that differ.
    pub fn same_everywhere(&self) {
        let swappable = programs::has_tester(&self.source);
        let expected = self.native(false);
        let expected_swapped = swappable.then(|| self.native(true));
        let mut failures = String::new();
        for combo in Combo::all(swappable).into_iter().filter(|combo| self.forced || combo.chaos.is_none()) {
            let expected =
                if combo.swap { expected_swapped.as_ref().unwrap_or(&expected) } else { &expected };
            let got = self.run(&combo);
            for (name, expected, got) in
                [("server", &expected[0], &got[0]), ("client", &expected[1], &got[1])]
            {
                failures += &mismatch(&format!("{}, {name}", combo.name), expected, got);
            }
            if got.iter().any(|side| side.status.starts_with("timed out")) {
                failures += "(no further combinations after a timeout)\n";
                break;
            }
        }
        assert!(failures.is_empty(), "{}\n{failures}", self.title());
    }

    fn native(&self, swap: bool) -> [Ended; 2] {
        let ended = self.run(&Combo { swap, ..Combo::native() });
        for (side, name) in ended.iter().zip(["server", "client"]) {
            assert!(side.ok(), "{}: the native run's {name} failed: {}", self.title(), side.text());
        }
        ended
    }

    fn title(&self) -> String {
        let program = self.source.file_name().unwrap_or_default().to_string_lossy();
        let native = if native_only() { " [DP_COMPAT_NATIVE_ONLY: without the shim]" } else { "" };
        let arguments = self.arguments.iter().filter(|argument| !argument.ends_with(&*program));
        arguments.fold(program.to_string(), |title, argument| title + " " + argument) + native
    }
}

fn mismatch(name: &str, expected: &Ended, got: &Ended) -> String {
    if expected.status == got.status && expected.transcript == got.transcript {
        return String::new();
    }
    let mut text = format!("== {name}: {} natively, here {}\n", expected.status, got.status.trim_end());
    text += &difference(&expected.transcript, &got.transcript);
    let errors: Vec<_> = got.errors.lines().collect();
    for line in &errors[errors.len().saturating_sub(20)..] {
        text += &format!("  stderr: {line}\n");
    }
    text
}

/// Both sides, started.
pub struct Running {
    /// The listening side.
    pub server: Job,
    /// The connecting side.
    pub client: Job,
    /// Where the port file, the marks and the transcripts are.
    pub folder: TempDir,
    deadline: Instant,
}

impl Running {
    /// Waits for both sides.
    pub fn finish(mut self) -> [Ended; 2] {
        // Looked at before the client is killed, which would move the server on.
        let hung = (!self.client.ended_by(self.deadline)).then(|| self.server.doing());
        let client = self.client.finish(self.deadline);
        // When the client has failed the server may wait for it for ever.
        let patience = if client.ok() { self.deadline } else { Instant::now() + Duration::from_secs(1) };
        let mut server = self.server.finish(patience.min(self.deadline));
        if let Some(doing) = hung {
            server.status =
                format!("{}; when the client timed out it was:\n{doing}", server.status.trim_end());
        }
        [server, client]
    }
}
