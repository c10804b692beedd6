//! One started process with everything it starts, in a process group of its own.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{killpg, Signal};
use nix::sys::wait::{waitid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::combo::LOST;

/// A running process. Dropping it kills its whole group.
pub struct Job {
    child: Child,
    name: String,
    transcript: PathBuf,
    errors: PathBuf,
    ended: Option<ExitStatus>,
}

/// How a process ended, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// `exit 0`, `signal 11`, or `timed out` with what its processes were doing.
    pub status: String,
    /// stdout
    pub transcript: String,
    /// stderr; no part of the comparison
    pub errors: String,
}

impl Ended {
    /// Whether the process exited with status 0.
    pub fn ok(&self) -> bool {
        self.status == "exit 0"
    }

    /// Everything, for a failure's message.
    pub fn text(&self) -> String {
        format!("{}\n--- stdout\n{}--- stderr\n{}", self.status, self.transcript, self.errors)
    }
}

impl Job {
    /// Starts the command; stdout and stderr go to `NAME.out` and `NAME.err` in the folder.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(name: &str, command: Command, folder: &Path) -> Self {
        Self::start_reading(name, command, folder, Stdio::null())
    }

    /// The same with something to read on stdin.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_reading(name: &str, mut command: Command, folder: &Path, input: Stdio) -> Self {
        let [transcript, errors] = ["out", "err"].map(|end| folder.join(format!("{name}.{end}")));
        command.stdin(input);
        command.stdout(File::create(&transcript).expect("a file for stdout"));
        command.stderr(File::create(&errors).expect("a file for stderr"));
        command.process_group(0);
        // SAFETY: the closure makes one system call and touches no memory of the parent, as is required between
        // fork and exec.
        unsafe { command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) };
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, name: name.into(), transcript, errors, ended: None }
    }

    /// The process id of the leader, which is the group's number too.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// What it has printed so far.
    pub fn transcript(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.transcript).unwrap_or_default()).into_owned()
    }

    /// The exit status, if the leader has ended. What it left behind in its group is killed.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(self.pid()), look) {
                Ok(WaitStatus::StillAlive) => return None,
                // Not yet reaped, so the group's number still belongs to us.
                _ => self.reap(),
            }
        }
        self.ended
    }

    /// Waits for the end, at most until the deadline; whether it came.
    pub fn ended_by(&mut self, deadline: Instant) -> bool {
        let mut rest = Duration::from_micros(500);
        while self.ended().is_none() {
            if Instant::now() > deadline {
                return false;
            }
            sleep(rest);
            rest = (rest * 2).min(Duration::from_millis(5));
        }
        true
    }

    /// Waits for the end, at most until the deadline; kills the group then.
    pub fn finish(mut self, deadline: Instant) -> Ended {
        if !self.ended_by(deadline) {
            let doing = self.doing();
            self.reap();
            return self.told(format!("timed out; {} was:\n{doing}", self.name));
        }
        let status = self.ended.expect("it has ended");
        let text = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        self.told(text)
    }

    /// One line for every process of the group: where it waits, and in which system call.
    pub fn doing(&self) -> String {
        let group = self.pid().to_string();
        let mut lines = String::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let folder = entry.path();
            let read =
                |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default().trim().to_string();
            let stat = read("stat");
            // The name may hold spaces and brackets; behind its last bracket: state, parent, group.
            let Some((name, rest)) = stat.rsplit_once(')') else { continue };
            if rest.split_whitespace().nth(2) == Some(&group) {
                let state = rest.split_whitespace().next().unwrap_or("?");
                lines += &format!("  {name}) {state} wchan {} syscall {}\n", read("wchan"), read("syscall"));
            }
        }
        lines
    }

    fn told(&self, mut status: String) -> Ended {
        // A lost wake-up fails the run, even if the program went on well: a second look saved it (`DP_LOST`, dp-preload(7)).
        let lost = self.transcript.parent().map(|folder| folder.join(LOST));
        if let Some(Ok(lost)) = lost.map(fs::read_to_string) {
            status +=
                &format!("; wake-ups were lost: {}", lost.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let errors = String::from_utf8_lossy(&fs::read(&self.errors).unwrap_or_default()).into_owned();
        Ended { status, transcript: self.transcript(), errors }
    }

    fn reap(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        self.ended = self.child.wait().ok();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.reap();
        }
    }
}
