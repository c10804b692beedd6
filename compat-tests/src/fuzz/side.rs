//! One of the two processes, driven over its standard input and output.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

/// What came of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The interpreter's own words.
    Said(String),
    /// The process ended at this line.
    Ended,
    /// No answer in time: the operation hangs.
    Hangs,
}

/// An interpreter.
pub struct Side {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    heard: Vec<u8>,
    alive: bool,
    /// Where the shim writes a line for each wake-up that was lost (`DP_LOST`).
    lost: PathBuf,
}

/// How often it is looked whether one has stopped, and how long it is waited each time.
const STOP_LOOKS: u32 = 2000;
const STOP_LOOK: Duration = Duration::from_micros(500);

/// Such files are told apart by it.
static SIDES: AtomicU64 = AtomicU64::new(0);

impl Side {
    /// Starts it, under the shim if one is given.
    ///
    /// # Panics
    /// If the interpreter cannot be started.
    pub fn start(interpreter: &Path, role: &str, shim: Option<&Path>, settings: &[(String, String)]) -> Self {
        let number = SIDES.fetch_add(1, Ordering::Relaxed);
        let lost = std::env::temp_dir().join(format!("dp-fuzz-lost.{}.{number}", process::id()));
        // A fuzzer that was killed may have left it, and had the same number.
        let _ = std::fs::remove_file(&lost);
        let mut command = Command::new(interpreter);
        command.arg(role).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/tmp");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(shim) = shim {
            // One call is enough for a channel, so a short warm-up is.
            command.env("LD_PRELOAD", shim).env("DP_AFTER", "1").env("DP_LOST", &lost);
            command.envs(settings.iter().map(|(name, value)| (name, value)));
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", interpreter.display()));
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { child, input, output, heard: Vec::new(), alive: true, lost }
    }

    /// Whether the shim has found a wake-up that was lost: the program went on by a second look, late.
    pub fn has_lost(&self) -> bool {
        self.lost.exists()
    }

    /// Gives it a line.
    pub fn tell(&mut self, text: &str) {
        if self.alive {
            // A process that has ended shows itself when it is heard.
            let _ = self.input.write_all(format!("{text}\n").as_bytes());
        }
    }

    /// Waits for the answer to the last line.
    pub fn hear(&mut self, limit: Duration) -> Answer {
        if !self.alive {
            return Answer::Said("gone".into());
        }
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Answer::Said(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut one = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
            let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            if left.is_zero() || poll(&mut one, wait).unwrap_or(0) == 0 {
                return Answer::Hangs;
            }
            let mut bytes = [0; 4096];
            match self.output.read(&mut bytes) {
                Ok(count) if count > 0 => self.heard.extend_from_slice(&bytes[..count]),
                _ => {
                    self.alive = false;
                    return Answer::Ended;
                }
            }
        }
    }

    /// Stops it by a signal that it cannot catch: whether it has stopped, with all of its threads.
    pub fn stop(&mut self) -> bool {
        let id = Pid::from_raw(self.child.id() as i32);
        let look = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let is_stopped = || matches!(waitid(Id::Pid(id), look), Ok(WaitStatus::Stopped(..)));
        self.alive
            && kill(id, Signal::SIGSTOP).is_ok()
            && (0..STOP_LOOKS).any(|_| {
                let stopped = is_stopped();
                if !stopped {
                    thread::sleep(STOP_LOOK);
                }
                stopped
            })
    }

    /// It goes on.
    pub fn go_on(&mut self) -> bool {
        self.alive && kill(Pid::from_raw(self.child.id() as i32), Signal::SIGCONT).is_ok()
    }

    /// How it ended, if it did by itself.
    pub fn fate(&mut self) -> Option<String> {
        (!self.alive)
            .then(|| self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string()))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.lost);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that writes as the shim does is known by it; and the file goes with the side.
    #[test]
    fn a_wake_up_that_was_lost_is_seen() {
        let folder = crate::tools::TempDir::new();
        let interpreter = folder.path().join("interpreter");
        std::fs::write(
            &interpreter,
            "#!/bin/sh\nread line && [ $line = lose ] && echo lost >>$DP_LOST\necho done\n",
        )
        .unwrap();
        std::fs::set_permissions(&interpreter, PermissionsExt::from_mode(0o700)).unwrap();
        for (line, lost) in [("go", false), ("lose", true)] {
            let mut side = Side::start(&interpreter, "server", Some(Path::new("")), &[]);
            side.tell(line);
            assert!(matches!(side.hear(Duration::from_secs(20)), Answer::Said(said) if said == "done"));
            let file = side.lost.clone();
            assert_eq!((side.has_lost(), file.exists()), (lost, lost));
            drop(side);
            assert!(!file.exists());
        }
    }
}
