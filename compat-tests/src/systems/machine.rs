//! Where it was measured, and who else was there.

use std::fs;
use std::process::Command;

use nix::sys::utsname::uname;
use serde::Serialize;

/// What a report says about its machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// As `date -u` tells it.
    pub date: String,
    /// The processor's name.
    pub processor: String,
    /// Processors of the machine.
    pub processors: usize,
    /// Whether it is a virtual machine.
    pub virtual_machine: bool,
    /// Its kernel.
    pub kernel: String,
    /// How many wanted a processor lately, at the begin and at the end: 1 minute's mean.
    pub load: [f64; 2],
    /// Of the time of all processors between begin and end, in percent: what they worked, and what the host took
    /// away.
    pub busy: [f64; 2],
    #[serde(skip)]
    begin: Times,
}

/// Processor time since the machine started, in its own ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    all: f64,
    idle: f64,
    stolen: f64,
}

impl Machine {
    /// As it is now, at the begin.
    pub fn new() -> Machine {
        let info = read("/proc/cpuinfo");
        let processors = info.lines().filter(|line| line.starts_with("processor")).count();
        let kernel = uname().map(|names| names.release().to_string_lossy().into_owned()).unwrap_or_default();
        Machine {
            date: date(),
            processor: field(&info, "model name").unwrap_or("unknown").to_string(),
            processors,
            virtual_machine: field(&info, "flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor")),
            kernel,
            load: [load(&read("/proc/loadavg")); 2],
            busy: [0.0; 2],
            begin: times(&read("/proc/stat")),
        }
    }

    /// At the end.
    pub fn finish(&mut self) {
        self.load[1] = load(&read("/proc/loadavg"));
        self.busy = share(self.begin, times(&read("/proc/stat")));
    }
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new()
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn date() -> String {
    let said = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output();
    said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_string()).unwrap_or_default()
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn load(loadavg: &str) -> f64 {
    loadavg.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn times(stat: &str) -> Times {
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).take(8).flat_map(str::parse).collect();
    let at = |i: usize| ticks.get(i).copied().unwrap_or(0.0);
    Times { all: ticks.iter().sum(), idle: at(3) + at(4), stolen: at(7) }
}

fn share(begin: Times, end: Times) -> [f64; 2] {
    let all = (end.all - begin.all).max(1.0);
    let (idle, stolen) = (end.idle - begin.idle, end.stolen - begin.stolen);
    [all - idle - stolen, stolen].map(|part| (1000.0 * part / all).round() / 10.0)
}

#[cfg(test)]
mod tests;
