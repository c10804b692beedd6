//! The service of systemd that a process belongs to: which lines of its files are in the shim's way, by what `dp enable` knows of them.

use super::{process, Finding};
use crate::unit::{Groups, Hindrances, Home};

/// A service, and where its files are.
pub struct Service {
    pub name: String,
    home: Home,
}

/// The name of the service in the path of a control group, and whether it is one of a user's manager.
pub fn named(group: &[u8]) -> Option<(&str, bool)> {
    let unit = dp_rules::unit(group).and_then(|unit| std::str::from_utf8(unit).ok())?;
    let is_user = group.windows(6).any(|part| part == b"/user@");
    (unit.ends_with(".service") && !unit.starts_with("user@")).then_some((unit, is_user))
}

impl Service {
    /// That of a process whose files can be read here: not one of another system's manager in a container, nor of another user's.
    pub fn of(pid: u32) -> Option<Service> {
        let group = process::cgroup(pid);
        let (name, is_user) = named(&group)?;
        let is_ours =
            || process::effective(pid).map(|[user, _]| user) == Some(nix::unistd::geteuid().as_raw());
        if !process::has_our_files(pid) || (is_user && !is_ours()) {
            return None;
        }
        Some(Service { name: name.to_owned(), home: Home::new(None, is_user).ok()? })
    }

    #[cfg(test)]
    pub fn in_tree(root: &std::path::Path, name: &str) -> Service {
        Service { name: name.to_owned(), home: Home::new(Some(root), false).unwrap() }
    }

    /// None: its files cannot be read.
    pub fn hindrances(&self, groups: Groups) -> Option<Hindrances> {
        self.home.hindrances(&self.name, groups).ok()
    }

    /// The lines by which a filter that holds for its processes forbids what the shim needs.
    pub fn filters(&self, found: &Hindrances) -> Vec<Finding> {
        let name = &self.name;
        let manager = if self.home.user { "--user-manager " } else { "" };
        let by_a_line = found.lines.iter().map(|(why, line)| {
            let key = line.split('=').next().unwrap_or_default();
            let way_out = format!("dp enable {manager}{name} adds {line}; restart it then");
            Finding::note("unit", format!("{name}, {key}=: {why}"), way_out)
        });
        let by_none = found.too_late.iter().map(|why| {
            let way_out = format!("do so, then dp enable {manager}{name}, and restart it");
            Finding::note("unit", format!("{name}: {why}"), way_out)
        });
        by_a_line.chain(by_none).collect()
    }
}
