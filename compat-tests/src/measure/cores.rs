//! Two cores, one for the server and one for the client.

use std::fs;

use nix::sched::{sched_getaffinity, CpuSet};
use nix::unistd::Pid;

use super::Error;

/// Machines with more cores than this are looked at in part: any two cores will do.
const LOOKED_AT: usize = 64;

/// The core of the server and that of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Where servers run.
    pub server: usize,
    /// Where clients run; the same as the server's on a machine with one core.
    pub client: usize,
}

impl Cores {
    /// Two of the cores this process may use: on different physical cores behind one cache where there are such,
    /// and not core 0, which handles most interrupts, where there are enough others.
    ///
    /// # Errors
    /// [`Error::OneCore`]; the affinity of this process cannot be read.
    pub fn choose() -> Result<Cores, Error> {
        let allowed = allowed()?;
        choose(&allowed, &Topology::of(&allowed)).ok_or(Error::OneCore(allowed[0]))
    }

    /// Both processes on the server's core.
    pub fn shared(self) -> Cores {
        Cores { client: self.server, ..self }
    }

    /// Whether there really are two.
    pub fn two(self) -> bool {
        self.server != self.client
    }

    /// The same core twice, for a process that may use no other.
    ///
    /// # Errors
    /// The affinity of this process cannot be read.
    pub fn single() -> Result<Cores, Error> {
        let only = allowed()?[0];
        Ok(Cores { server: only, client: only })
    }
}

/// A set with one core in it.
///
/// # Errors
/// The core's number is beyond what the system call knows.
pub fn set_of(core: usize) -> Result<CpuSet, Error> {
    let mut set = CpuSet::new();
    set.set(core).map_err(Error::system(format!("core {core}")))?;
    Ok(set)
}

/// At least one.
fn allowed() -> Result<Vec<usize>, Error> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(Error::system("sched_getaffinity"))?;
    let cores = (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false));
    let cores: Vec<usize> = cores.take(LOOKED_AT).collect();
    match cores.is_empty() {
        true => Err(Error::words("sched_getaffinity", "no core is allowed")),
        false => Ok(cores),
    }
}

/// For each allowed core, in their order, the cores it shares something with.
struct Topology {
    execution_units: Vec<Vec<usize>>,
    cache: Vec<Vec<usize>>,
}

impl Topology {
    fn of(allowed: &[usize]) -> Topology {
        let read = |file: &str| {
            let list = |core| {
                fs::read_to_string(format!("/sys/devices/system/cpu/cpu{core}/{file}")).unwrap_or_default()
            };
            allowed.iter().map(|core| parse_list(&list(*core))).collect()
        };
        Topology {
            execution_units: read("topology/thread_siblings_list"),
            cache: read("cache/index3/shared_cpu_list"),
        }
    }
}

/// The first of the best pairs.
fn choose(allowed: &[usize], topology: &Topology) -> Option<Cores> {
    let mut best = None;
    for (i, &server) in allowed.iter().enumerate() {
        for &client in &allowed[i + 1..] {
            let apart = !topology.execution_units[i].contains(&client);
            let near = topology.cache[i].contains(&client);
            let score = (apart, near, server != 0);
            if best.is_none_or(|(seen, _)| score > seen) {
                best = Some((score, Cores { server, client }));
            }
        }
    }
    best.map(|(_, cores)| cores)
}

/// A list as the kernel writes it: `0-3,8`. What cannot be read is left out.
fn parse_list(text: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|only| only..=only),
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests;
