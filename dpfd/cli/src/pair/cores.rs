//! Which cores the two processes run on.

use std::str::FromStr;

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// The core of the process that measures, and of the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    pub a: usize,
    pub b: usize,
}

impl FromStr for Cores {
    type Err = String;
    fn from_str(text: &str) -> Result<Cores, String> {
        let number = |s: &str| s.trim().parse().ok();
        text.split_once(',')
            .and_then(|(a, b)| Some(Cores { a: number(a)?, b: number(b)? }))
            .ok_or_else(|| "two numbers of cores, as in 0,1".into())
    }
}

/// The value of `--cores`. Whether the cores can be had is asked here, before clap looks for what else is missing.
pub fn cores(text: &str) -> Result<Cores, String> {
    text.parse::<Cores>()?.allowed()
}

impl Cores {
    /// The first two this process may use; the only one twice where there is only one.
    pub fn first() -> Result<Cores, String> {
        let mut may = may_use()?.into_iter();
        let a = may.next().ok_or("no core to run on")?;
        Ok(Cores { a, b: may.next().unwrap_or(a) })
    }

    /// These, if this process may use them.
    fn allowed(self) -> Result<Cores, String> {
        let may = may_use()?;
        match [self.a, self.b].into_iter().find(|core| !may.contains(core)) {
            None => Ok(self),
            Some(core) => {
                let may: Vec<_> = may.iter().map(usize::to_string).collect();
                Err(format!(
                    "core {core} is not there, or this process may not use it; give two of these: {}",
                    may.join(", ")
                ))
            }
        }
    }

    /// Whether both processes share a core: who spins then keeps the other from answering.
    pub fn shared(self) -> bool {
        self.a == self.b
    }
}

/// The cores this process may use, ascending.
pub fn may_use() -> Result<Vec<usize>, String> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(|e| format!("sched_getaffinity: {e}"))?;
    Ok((0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).collect())
}

/// Keeps this process on `core`.
pub fn stay(core: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_two_numbers() {
        assert_eq!("0,1".parse(), Ok(Cores { a: 0, b: 1 }));
        assert_eq!("3, 3".parse(), Ok(Cores { a: 3, b: 3 }));
        for bad in ["", "1", "1,", ",1", "1,2,3", "a,b", "-1,0"] {
            assert!(bad.parse::<Cores>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let message = Cores { a: 99_999, b: 0 }.allowed().unwrap_err();
        assert!(message.contains("core 99999"), "{message}");
    }
}
