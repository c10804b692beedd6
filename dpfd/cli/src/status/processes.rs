//! The processes of a service, by their control groups, and whether they have the shim.

use std::time::{Duration, SystemTime};

use dp_channel::family;
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{sysconf, SysconfVar};
use serde::Serialize;

use crate::doctor::process::{self, Without};
use crate::ls::processes;
use crate::unit::Home;

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
    /// This user may not look into it.
    Unseen,
    /// It was started with it, or would be, and the loader did not take it: a static program, one of another C library.
    Unfit,
    /// It has it, and `DP_DISABLE` is set: the shim does nothing.
    Disabled,
}

/// A process of the service.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Program {
    pub program: String,
    pub pid: u32,
    pub shim: Shim,
    /// That of the shim in it.
    pub version: Option<String>,
    /// Whether it would have the shim had the service been restarted: the main process, or one that began before the drop-in was
    /// written. What the service itself starts with another environment never has it.
    #[serde(skip)]
    pub is_due: bool,
}

impl Program {
    /// Whether a restart would change it; `wanted`: the service is to have the shim.
    pub fn needs_restart(&self, wanted: bool) -> bool {
        match self.shim {
            Shim::Loaded => !wanted,
            Shim::Replaced => true,
            Shim::Absent => wanted && self.is_due,
            Shim::Unseen | Shim::Unfit | Shim::Disabled => false,
        }
    }
}

/// All of the unit's; of a template, those of all instances. `written`: when its drop-in was.
///
/// # Errors
///
/// When /proc cannot be listed; in words.
pub fn of(home: &Home, unit: &str, written: Option<SystemTime>) -> Result<Vec<Program>, String> {
    let error = |error| format!("/proc: {error}; mount it, dp finds the programs there");
    let pids = processes::numbers().map_err(error)?.into_iter();
    let pids: Vec<u32> = pids.filter(|&pid| is_of(&process::cgroup(pid), unit, home.user)).collect();
    if pids.is_empty() {
        return Ok(Vec::new());
    }
    let shimmed = processes::all().map_err(error)?;
    let main = home.main_processes(unit);
    let is_due = |pid| main.contains(&pid) || written.is_some_and(|written| began_before(pid, written));
    Ok(pids.into_iter().filter_map(|pid| look(pid, &shimmed, is_due(pid))).collect())
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

/// Whether a process began before a file was written. Doubt counts as no.
fn began_before(pid: u32, written: SystemTime) -> bool {
    let ticks = family::start_of(pid);
    let a_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|n| u64::try_from(n).ok());
    let booted = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .ok()
        .and_then(|since| SystemTime::now().checked_sub(Duration::from(since)));
    let (Some(ticks), Some(a_second), Some(booted)) = (ticks, a_second.filter(|n| *n > 0), booted) else {
        return false;
    };
    // The tick in which it began is rounded down.
    let began = Duration::from_millis((ticks + 1).saturating_mul(1000) / a_second);
    booted.checked_add(began).is_some_and(|began| began <= written)
}

fn look(pid: u32, shimmed: &[processes::Process], is_due: bool) -> Option<Program> {
    let found = shimmed.iter().find(|process| process.pid == pid);
    let shim = match found {
        Some(process) if process.disabled => Shim::Disabled,
        _ => state(
            found.map(|process| process.replaced),
            || processes::may_see_maps(pid),
            || matches!(process::without(pid), Without::Started),
        ),
    };
    Some(Program {
        program: process::comm(pid)?,
        pid,
        shim,
        version: found.and_then(|process| process.shim.clone()),
        is_due,
    })
}

/// `found`: the shim was seen in it; whether that was replaced. Otherwise `is_visible` and `is_started_without` tell why not.
fn state(found: Option<bool>, is_visible: impl Fn() -> bool, is_started_without: impl Fn() -> bool) -> Shim {
    match found {
        Some(true) => Shim::Replaced,
        Some(false) => Shim::Loaded,
        None if !is_visible() => Shim::Unseen,
        None if is_started_without() => Shim::Absent,
        None => Shim::Unfit,
    }
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
        let needed = |wanted: bool, is_due: bool| {
            let program = |shim| Program { program: "x".into(), pid: 1, shim, version: None, is_due };
            [Shim::Loaded, Shim::Replaced, Shim::Absent, Shim::Unseen, Shim::Unfit, Shim::Disabled]
                .map(|shim| program(shim).needs_restart(wanted))
        };
        assert_eq!(needed(true, true), [false, true, true, false, false, false]);
        assert_eq!(needed(false, true), [true, true, false, false, false, false]);
        // A restart would not give the shim to what the service starts with an empty environment.
        assert_eq!(needed(true, false), [false, true, false, false, false, false]);
    }

    #[test]
    fn a_process_is_older_than_a_file_that_was_written_after_it_began() {
        let me = std::process::id();
        let now = SystemTime::now();
        assert!(began_before(me, now + Duration::from_secs(1)));
        assert!(!began_before(me, now - Duration::from_secs(86_400 * 365)));
        assert!(!began_before(u32::MAX, now));
        // One that is started after the file is younger, within the clock's tick.
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_older = began_before(child.id(), now);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_older);
    }

    #[test]
    fn a_process_that_this_user_may_not_look_into_is_not_taken_for_one_without_the_shim() {
        assert_eq!(state(None, || false, || true), Shim::Unseen);
        assert_eq!(state(None, || true, || true), Shim::Absent);
        assert_eq!(state(None, || true, || false), Shim::Unfit);
        assert_eq!(state(Some(true), || true, || true), Shim::Replaced);
        assert_eq!(state(Some(false), || true, || true), Shim::Loaded);
        // A process may look into itself, and one that is gone hides nothing.
        assert!(processes::may_see_maps(std::process::id()) && processes::may_see_maps(u32::MAX));
    }
}
