//! One run of a row: a folder, the sides that have the shim, and the processes that are started.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{kill, Signal};
use nix::unistd::{Pid, Uid};

use super::tool::{find, Tool};
use crate::combo::{Combo, Side, LOST};
use crate::measure::counters::Family;
use crate::measure::kit::Kit;
use crate::measure::process::{Finished, Process};
use crate::measure::scratch::{await_answer, free_port, listens_anywhere, Scratch};
use crate::measure::Error;
use crate::tools::generated;

/// What has not happened within this is a hang. Nothing that works comes near it, on a loaded machine either.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Of what processes wrote, so much of each is repeated in an error.
const WORDS: usize = 600;

/// What a row's functions are given.
pub struct Run<'a> {
    kit: &'a Kit,
    combo: Combo,
    scratch: Scratch,
    time: Duration,
    fast: bool,
}

impl<'a> Run<'a> {
    /// With a new folder, in which every user can write: some servers change theirs.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(kit: &'a Kit, combo: Combo, time: Duration, fast: bool) -> Result<Run<'a>, Error> {
        let scratch = Scratch::new()?;
        let open = fs::set_permissions(scratch.path(), Permissions::from_mode(0o777));
        open.map_err(Error::system(scratch.path().display()))?;
        Ok(Run { kit, combo, scratch, time, fast })
    }

    /// How long a figure's load is to last.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// In whole seconds, for programs that take no others.
    pub fn seconds(&self) -> String {
        self.time.as_secs().max(1).to_string()
    }

    /// How many bytes a check's content has: more than the buffers on the way hold together.
    pub fn size(&self) -> usize {
        match self.fast {
            true => 16_000_000,
            false => 50_000_000,
        }
    }

    /// Whether it may take a few seconds only.
    pub fn is_fast(&self) -> bool {
        self.fast
    }

    /// Whether both sides have the shim, so that legs must be channels.
    pub fn is_shimmed(&self) -> bool {
        self.combo.server == Side::Shim && self.combo.client == Side::Shim
    }

    /// The run's folder: the working folder and the home of what is started.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, Error> {
        let file = self.file(name);
        fs::write(&file, content).map_err(Error::system(file.display()))?;
        Ok(file)
    }

    /// Writes a file of so many bytes that repeat nowhere, the same in every run, and returns them.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_generated(&self, name: &str, length: usize) -> Result<Vec<u8>, Error> {
        let content = generated(length);
        self.write(name, &content)?;
        Ok(content)
    }

    /// A command of the accepting side.
    ///
    /// # Errors
    /// It is not installed.
    pub fn server(&self, tool: Tool) -> Result<Command, Error> {
        Ok(self.combo.server_command(&find(tool)?, self.path()))
    }

    /// A command of the connecting side.
    ///
    /// # Errors
    /// It is not installed.
    pub fn client(&self, tool: Tool) -> Result<Command, Error> {
        Ok(self.combo.client_command(&find(tool)?, self.path()))
    }

    /// A command of the accepting side that was made for the run.
    pub fn server_at(&self, program: &Path) -> Command {
        self.combo.server_command(program, self.path())
    }

    /// A command that never has the shim, for preparations.
    ///
    /// # Errors
    /// It is not installed.
    pub fn plain(&self, tool: Tool) -> Result<Command, Error> {
        Ok(Combo::native().server_command(&find(tool)?, self.path()))
    }

    /// Starts it. It ends with what it has started when the process is dropped.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, what: &str, command: Command) -> Result<Process, Error> {
        Process::start(what, command, None, &self.scratch)
    }

    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// It ends, or never listens.
    pub fn serve(&self, what: &str, command: Command, port: u16) -> Result<Process, Error> {
        let mut process = self.start(what, command)?;
        self.await_that(&format!("{what} listens on port {port}"), || {
            process.still_runs()?;
            Ok(listens_anywhere(port))
        })?;
        Ok(process)
    }

    /// Runs it to its end, which must be a good one.
    ///
    /// # Errors
    /// It fails or hangs.
    pub fn finish(&self, what: &str, command: Command) -> Result<Finished, Error> {
        self.start(what, command)?.finish(LIMIT)
    }

    /// Waits until the condition holds.
    ///
    /// # Errors
    /// It never does, or fails.
    pub fn await_that(
        &self,
        what: &str,
        mut holds: impl FnMut() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let held = await_answer(LIMIT, || Ok(holds()?.then_some(())))?;
        held.ok_or_else(|| Error::Wrong(format!("never within {} s: {what}", LIMIT.as_secs())))
    }

    /// A port that nobody uses at this moment.
    ///
    /// # Errors
    /// None is left.
    pub fn port(&self) -> Result<u16, Error> {
        free_port()
    }

    /// The product's counters of all programs that have the shim.
    ///
    /// # Errors
    /// `dp ls` fails.
    pub fn families(&self) -> Result<Vec<Family>, Error> {
        Family::all(self.kit)
    }

    /// Fails if a wake-up was lost and only a second look found it.
    ///
    /// # Errors
    /// [`Error::Wrong`].
    pub fn no_wake_up_was_lost(&self) -> Result<(), Error> {
        let lost = fs::read_to_string(self.file(LOST)).unwrap_or_default();
        Error::unless(lost.trim().is_empty(), || {
            format!("wake-ups were lost: {}", lost.split_whitespace().collect::<Vec<_>>().join(" "))
        })
    }

    /// The ends of all that was written into the folder's logs.
    pub fn words(&self) -> String {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_log = |file: &PathBuf| file.extension().is_some_and(|end| end == "err" || end == "log");
        let mut logs: Vec<PathBuf> = entries.filter(is_log).collect();
        logs.sort();
        let mut words = String::new();
        for log in logs {
            let text = fs::read(&log).unwrap_or_default();
            let end = String::from_utf8_lossy(&text[text.len().saturating_sub(WORDS)..]).trim().to_string();
            if !end.is_empty() {
                let name = log.file_name().unwrap_or_default().to_string_lossy();
                words += &format!("\n--- the end of {name}\n{end}");
            }
        }
        words
    }

    /// Leaves the folder behind.
    pub fn keep(self) -> PathBuf {
        let path = self.path().to_path_buf();
        std::mem::forget(self.scratch);
        path
    }
}

/// The processes that a process has started and that live.
pub fn children(pid: u32) -> Vec<u32> {
    let read = |task: PathBuf| fs::read_to_string(task.join("children")).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: Vec<String> = tasks.map(|task| read(task.path())).collect();
    children.iter().flat_map(|text| text.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

/// Sends a signal to a process that was started by the run.
///
/// # Errors
/// It is gone.
pub fn signal(pid: u32, signal: Signal) -> Result<(), Error> {
    kill(Pid::from_raw(pid as i32), signal).map_err(Error::system(format!("kill {pid}")))
}

/// Whether this is root, whose servers change their user.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}
