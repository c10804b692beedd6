//! This machine, now: what every measurement carries.

use std::time::{SystemTime, UNIX_EPOCH};

use dp_measure::origin::{cpu, date, Origin};
use nix::sys::utsname::uname;

/// Of a measurement that begins.
pub fn here() -> Origin {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = uname().ok();
    let name = |of: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        names.as_ref().map_or("unknown".into(), |names| of(names).to_string_lossy().into_owned())
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Origin {
        host: name(|n| n.nodename()),
        cpu: cpu(&info).map_or_else(|| name(|n| n.machine()), str::to_string),
        kernel: format!("{} {}", name(|n| n.sysname()), name(|n| n.release())),
        date: date(now),
        dp: env!("CARGO_PKG_VERSION").to_string(),
    }
}
