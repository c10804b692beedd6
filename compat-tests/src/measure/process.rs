//! One process on one core, what it has cost so far, and its end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::{Add, Sub};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sched::sched_setaffinity;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::signal::{kill, Signal};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::cores::set_of;
use super::scratch::{await_answer, Scratch};
use super::Error;

/// How long a process may take to end when asked politely.
const FAREWELL: Duration = Duration::from_secs(3);
/// So much of a process's last words is repeated in an error.
const LAST_WORDS: usize = 1000;

/// A running process. Dropping it ends it: politely first, then for certain.
pub struct Process {
    child: Child,
    what: String,
    out: PathBuf,
    err: PathBuf,
    over: bool,
}

/// A process that has ended by itself, with status 0.
pub struct Finished {
    /// What it printed on standard output.
    pub out: String,
    /// What it cost in all, from its start on.
    pub cost: Cost,
}

/// What processes have cost the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// User and system time.
    pub cpu: Duration,
    /// Context switches, voluntary and not.
    pub switches: u64,
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, earlier: Cost) -> Cost {
        Cost {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { cpu: self.cpu + other.cpu, switches: self.switches + other.switches }
    }
}

impl Process {
    /// Starts the command on this core if one is named, with nothing on standard input and its output in files.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        what: &str,
        command: Command,
        core: impl Into<Option<usize>>,
        scratch: &Scratch,
    ) -> Result<Process, Error> {
        Process::start_reading(what, command, core, scratch, Stdio::null())
    }

    /// The same with something on standard input, which [`Process::feed`] can write if it is piped.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_reading(
        what: &str,
        mut command: Command,
        core: impl Into<Option<usize>>,
        scratch: &Scratch,
        input: Stdio,
    ) -> Result<Process, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let [out, err] = ["out", "err"].map(|end| scratch.file(&format!("{number}.{end}")));
        let file = |path: &PathBuf| File::create(path).map_err(Error::system(path.display()));
        command.stdin(input).stdout(file(&out)?).stderr(file(&err)?);
        // Ctrl-C is for the measuring process, which then ends the others one by one.
        command.process_group(0).current_dir(scratch.path());
        let set = core.into().map(set_of).transpose()?;
        let confine = move || -> io::Result<()> {
            set_pdeathsig(Signal::SIGKILL)?;
            match &set {
                Some(set) => Ok(sched_setaffinity(Pid::from_raw(0), set)?),
                None => Ok(()),
            }
        };
        // SAFETY: between fork and exec the closure makes two system calls on a set it owns; it takes no lock,
        // allocates nothing and touches no memory of the parent.
        unsafe { command.pre_exec(confine) };
        let child = command.spawn().map_err(Error::system(what))?;
        Ok(Process { child, what: what.to_string(), out, err, over: false })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// It reads no more, or its standard input is not piped.
    pub fn feed(&mut self, text: &str) -> Result<(), Error> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let written = match self.child.stdin.as_mut() {
            Some(pipe) => pipe.write_all(text.as_bytes()).and_then(|()| pipe.flush()),
            None => Err(gone()),
        };
        written.map_err(Error::system(format!("standard input of {}", self.what)))
    }

    /// What it has printed on standard output so far.
    pub fn said(&self) -> String {
        read(&self.out)
    }

    /// What it has cost since its start, while it runs: all its threads, those that have ended included in the time.
    ///
    /// # Errors
    /// It is gone.
    pub fn cost(&self) -> Result<Cost, Error> {
        let gone = || format!("the CPU time of {}", self.what);
        let clock = clock_getcpuclockid(Pid::from_raw(self.pid() as i32)).map_err(Error::system(gone()))?;
        let time = clock_gettime(clock).map_err(Error::system(gone()))?;
        let tasks = format!("/proc/{}/task", self.pid());
        let entries = fs::read_dir(&tasks).map_err(Error::system(&tasks))?;
        let threads = entries.flatten().map(|entry| read(&entry.path().join("status")));
        Ok(Cost { cpu: time.into(), switches: threads.map(|status| switches(&status)).sum() })
    }

    /// Fails with its last words if it has ended, whatever its status.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn still_runs(&mut self) -> Result<(), Error> {
        match self.child.try_wait().map_err(Error::system(&self.what))? {
            None => Ok(()),
            Some(status) => {
                self.over = true;
                Err(self.ended(status))
            }
        }
    }

    /// Waits until it has ended well; kills it after the limit.
    ///
    /// # Errors
    /// It failed, or took too long; an interrupt.
    pub fn finish(mut self, limit: Duration) -> Result<Finished, Error> {
        let earlier = children_cost()?;
        let ended = await_answer(limit, || self.child.try_wait().map_err(Error::system(&self.what)))?;
        let Some(status) = ended else {
            let hint = "see what else uses this machine (`top`), or where the program hangs (`dp ls`)";
            return Err(Error::Slow { what: self.what.clone(), limit, hint });
        };
        self.over = true;
        if !status.success() {
            return Err(self.ended(status));
        }
        // Nobody else is waited for meanwhile, so what was added is this child's.
        Ok(Finished { out: self.said(), cost: children_cost()? - earlier })
    }

    fn ended(&self, status: ExitStatus) -> Error {
        let status = match (status.code(), status.signal()) {
            (Some(code), _) => format!("status {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        Error::Ended { what: self.what.clone(), status, words: self.last_words() }
    }

    /// The end of what it printed, errors last.
    pub fn last_words(&self) -> String {
        let words = format!("{}{}", self.said(), read(&self.err));
        let start = words.len().saturating_sub(LAST_WORDS);
        let start = (start..=words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(start);
        match words[start..].trim() {
            "" => "(it said nothing)".to_string(),
            some => some.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Until it has been waited for, its number cannot belong to another process, nor to another group: what it started
        // ends with it.
        let end = Instant::now() + FAREWELL;
        let group = Pid::from_raw(-(self.pid() as i32));
        if !self.over {
            let _ = kill(group, Signal::SIGTERM);
        }
        while !self.over {
            self.over = !matches!(self.child.try_wait(), Ok(None));
            if !self.over && Instant::now() > end {
                let _ = kill(group, Signal::SIGKILL);
                let _ = self.child.wait();
                return;
            }
            sleep(Duration::from_millis(2));
        }
    }
}

/// What all children that have been waited for have cost.
fn children_cost() -> Result<Cost, Error> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(Error::system("getrusage"))?;
    let micros = |time: nix::sys::time::TimeVal| {
        let whole = u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000;
        Duration::from_micros(whole + u64::try_from(time.tv_usec()).unwrap_or(0))
    };
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    Ok(Cost {
        cpu: micros(usage.user_time()) + micros(usage.system_time()),
        switches: u64::try_from(switches).unwrap_or(0),
    })
}

/// Both kinds of context switches in a thread's `/proc` status.
fn switches(status: &str) -> u64 {
    let counts = status.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("voluntary_ctxt_switches").then(|| count.trim().parse::<u64>().ok())?
    });
    counts.sum()
}

fn read(path: &std::path::Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests;
