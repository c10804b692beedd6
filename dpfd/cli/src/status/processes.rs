//! The processes of a service, by their control groups, and whether they have the shim.

use serde::Serialize;

use crate::doctor::process::{self, Without};
use crate::ls::processes;

/// How a process has the shim.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Shim {
    /// It has the one of now.
    Loaded,
    /// It has one whose file was replaced since.
    Replaced,
    /// It was started without it.
    Absent,
    /// It was started with it, or would be, and the loader did not take it: a static program, one of another C library.
    Unfit,
}

/// A process of the service.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Program {
    pub program: String,
    pub pid: u32,
    pub shim: Shim,
    /// That of the shim in it.
    pub version: Option<String>,
}

impl Program {
    /// Whether a restart would change it; `wanted`: the service is to have the shim.
    pub fn needs_restart(&self, wanted: bool) -> bool {
        match self.shim {
            Shim::Loaded => !wanted,
            Shim::Replaced => true,
            Shim::Absent => wanted,
            Shim::Unfit => false,
        }
    }
}

/// All of the unit's; of a template, those of all instances. `user`: units of users' managers.
///
/// # Errors
///
/// When /proc cannot be listed; in words.
pub fn of(unit: &str, user: bool) -> Result<Vec<Program>, String> {
    let error = |error| format!("/proc: {error}; mount it, dp finds the programs there");
    let pids = processes::numbers().map_err(error)?.into_iter();
    let pids: Vec<u32> = pids.filter(|&pid| is_of(&process::cgroup(pid), unit, user)).collect();
    if pids.is_empty() {
        return Ok(Vec::new());
    }
    let shimmed = processes::all().map_err(error)?;
    Ok(pids.into_iter().filter_map(|pid| look(pid, &shimmed)).collect())
}

fn is_of(cgroup: &[u8], unit: &str, user: bool) -> bool {
    // A user's manager is a service of the system itself, user@1000.service; its units lie below.
    let is_below = cgroup.windows(6).any(|part| part == b"/user@") && !unit.starts_with("user@");
    let same = |name: &[u8]| match unit.strip_suffix("@.service") {
        Some(template) => name.strip_prefix(template.as_bytes()).is_some_and(|rest| rest.starts_with(b"@")),
        None => name == unit.as_bytes(),
    };
    is_below == user && dp_rules::unit(cgroup).is_some_and(same)
}

fn look(pid: u32, shimmed: &[processes::Process]) -> Option<Program> {
    let found = shimmed.iter().find(|process| process.pid == pid && !process.disabled);
    let shim = match found {
        Some(process) if process.replaced => Shim::Replaced,
        Some(_) => Shim::Loaded,
        None if matches!(process::without(pid), Without::Started) => Shim::Absent,
        None => Shim::Unfit,
    };
    Some(Program {
        program: process::comm(pid)?,
        pid,
        shim,
        version: found.and_then(|process| process.shim.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_told_from_others_by_the_control_group() {
        for (cgroup, unit, user, is) in [
            ("/system.slice/nginx.service", "nginx.service", false, true),
            ("/system.slice/nginx.service/workers", "nginx.service", false, true),
            ("/system.slice/nginx2.service", "nginx.service", false, false),
            ("/system.slice/system-pg.slice/pg@15-main.service", "pg@.service", false, true),
            ("/system.slice/system-pg.slice/pg@15-main.service", "pg@15-main.service", false, true),
            ("/system.slice/system-pg.slice/pg@14.service", "pg@15-main.service", false, false),
            ("/user.slice/user-7.slice/user@7.service/app.slice/nginx.service", "nginx.service", true, true),
            (
                "/user.slice/user-7.slice/user@7.service/app.slice/nginx.service",
                "nginx.service",
                false,
                false,
            ),
            ("/", "nginx.service", false, false),
        ] {
            assert_eq!(is_of(cgroup.as_bytes(), unit, user), is, "{cgroup} {unit} {user}");
        }
    }

    #[test]
    fn a_restart_is_asked_for_where_it_changes_something() {
        let program = |shim| Program { program: "x".into(), pid: 1, shim, version: None };
        let needed = |wanted: bool| {
            [Shim::Loaded, Shim::Replaced, Shim::Absent, Shim::Unfit]
                .map(|shim| program(shim).needs_restart(wanted))
        };
        assert_eq!(needed(true), [false, true, true, false]);
        assert_eq!(needed(false), [true, true, false, false]);
    }
}
