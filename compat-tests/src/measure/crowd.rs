//! One busy connection of a server that has many idle ones: an echo over epoll (`programs/beside.c`).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::counters::Family;
use super::kit::{Kit, Setup};
use super::process::Process;
use super::scratch::await_answer;
use super::turns::{Pace, Sample};
use super::Error;
use crate::programs;

/// Idle connections of the crowded server.
pub const IDLE: usize = 10_000;
/// Making them, with the exchanges that turn them into channels, may take so long.
const READY: Duration = Duration::from_secs(120);
/// A run that takes longer than it should by this much is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and its only client, which has the idle connections as well.
pub struct Crowd {
    server: Process,
    client: Process,
    setup: Setup,
    pace: Pace,
    answers: usize,
}

impl Crowd {
    /// Starts both, with the idle connections where the setup has some.
    ///
    /// # Errors
    /// One of them does not get ready.
    pub fn start(kit: &Kit, setup: Setup) -> Result<Crowd, Error> {
        let program = programs::c("beside");
        let idle = if setup == Setup::Beside { IDLE } else { 0 }.to_string();
        let port = kit.scratch.file(&format!("beside-{}", setup.key()));
        let command = |role: &str| -> Command {
            let mut command = kit.command_at(setup, Path::new(&program));
            let alarm = (READY + Duration::from_secs(3600)).as_secs().to_string();
            command.arg(role).arg(&port).args(["echo", &idle]).env("COMPAT_ALARM", alarm);
            command
        };
        let what = |role: &str| format!("the {role} of {}", setup.name());
        let server = kit.start(command("server"), &what("server"), kit.cores.server)?;
        let core = kit.cores.client;
        let client =
            Process::start_reading(&what("client"), command("client"), core, &kit.scratch, Stdio::piped())?;
        let mut crowd = Crowd { server, client, setup, pace: Pace::starting_with(1000), answers: 0 };
        crowd.exchanges(1000, READY)?;
        Ok(crowd)
    }

    /// Exchanges for about this time. The value is exchanges in a second.
    ///
    /// # Errors
    /// They take far too long.
    pub fn run(&mut self, time: Duration) -> Result<Sample, Error> {
        let earlier = [self.server.cost()?, self.client.cost()?];
        let nanoseconds = self.exchanges(self.pace.requests(time), time + PATIENCE)?;
        let [server, client] = [self.server.cost()? - earlier[0], self.client.cost()? - earlier[1]];
        Ok(Sample { value: 1e9 / nanoseconds, server, client })
    }

    /// Nanoseconds of one of so many exchanges.
    fn exchanges(&mut self, times: u64, limit: Duration) -> Result<f64, Error> {
        self.client.feed(&format!("{times}\n"))?;
        let answer = await_answer(limit, || {
            self.client.still_runs()?;
            self.server.still_runs()?;
            let said = self.client.said();
            // A line that is not whole yet has no end.
            Ok(said
                .split_inclusive('\n')
                .nth(self.answers)
                .filter(|line| line.ends_with('\n'))
                .map(str::to_string))
        })?;
        let what = format!("{times} exchanges with {}", self.setup.name());
        let hint = "see what else uses this machine (`top`), or where the program hangs (`dp ls`)";
        let line = answer.ok_or_else(|| Error::Slow { what: what.clone(), limit, hint })?;
        self.answers += 1;
        let nanoseconds = line.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0);
        let nanoseconds = nanoseconds.ok_or_else(|| Error::words(what, &line))?;
        self.pace.learn(1e9 / nanoseconds);
        Ok(nanoseconds)
    }

    /// The product's counters of the server; None without the shim.
    ///
    /// # Errors
    /// See [`Family::of`].
    pub fn family(&self, kit: &Kit) -> Result<Option<Family>, Error> {
        Family::of(kit, self.server.pid())
    }
}
