//! Services of systemd under the shim: what their unit files say, and the drop-in that puts one there.
//!
//! The files are read by systemd's own rules (systemd.syntax(7), systemd.unit(5)), so this works in the tree of an image as well,
//! where nothing runs that could be asked. Where systemd runs, it is asked for nothing but which files these are.

mod environment;
mod filter;
mod find;
mod needed;
mod order;
mod plan;
mod postgres;
mod text;
mod tree;

pub use filter::{of_systemd, Groups};
pub use find::Home;
pub use needed::Hindrances;
pub use plan::{present, version_of, Plan};
pub use postgres::left;
pub use text::Assignment;

use std::path::PathBuf;

/// A service and what its files say, in the order in which systemd reads them.
#[derive(Debug)]
pub struct Unit {
    /// `nginx.service`: that of the unit itself, where an alias was asked for.
    pub name: String,
    pub assignments: Vec<Assignment>,
    /// Files that could not be read.
    pub unread: Vec<String>,
}

/// The name of a service: what has no ending is one, as for systemctl(1).
pub fn service(text: &str) -> Result<String, String> {
    const KINDS: [&str; 9] =
        [".socket", ".target", ".timer", ".path", ".mount", ".automount", ".slice", ".scope", ".device"];
    if let Some(kind) = KINDS.iter().find(|kind| text.ends_with(*kind)) {
        return Err(format!("a {} runs no program; name the service", &kind[1..]));
    }
    let name = if text.ends_with(".service") { text.to_owned() } else { format!("{text}.service") };
    let stem = &name[..name.len() - ".service".len()];
    let sound = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if stem.is_empty() || stem.starts_with(['@', '.', '-']) || name.len() > 255 || !stem.chars().all(sound) {
        return Err("the name of a unit, as nginx, nginx.service or postgresql@15-main: letters, digits and : - _ . \\ @".into());
    }
    Ok(name)
}

/// What systemctl(1) takes for a unit: of a template, all instances that run.
pub fn instances(unit: &str) -> String {
    unit.replacen("@.service", "@*.service", 1)
}

impl Unit {
    /// The assignments of a setting of [Service] that count: an empty one takes back those before it.
    fn list(&self, key: &str) -> Vec<&Assignment> {
        let mut found: Vec<&Assignment> = Vec::new();
        for assignment in self.assignments.iter().filter(|a| a.section == "Service" && a.key == key) {
            match assignment.value.is_empty() {
                true => found.clear(),
                false => found.push(assignment),
            }
        }
        found
    }

    /// The value of a setting of which the last assignment counts.
    fn value(&self, key: &str) -> Option<&str> {
        self.list(key).last().map(|assignment| assignment.value.as_str())
    }

    /// Whether a setting is switched on, in whichever way that is not `no`.
    fn is_on(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| !matches!(value, "no" | "false" | "off" | "0" | "n" | "f"))
    }

    /// The words of a setting that has a list of them, without quotes.
    fn words(&self, key: &str) -> Vec<String> {
        self.list(key).iter().flat_map(|a| a.value.split_whitespace()).map(str::to_owned).collect()
    }

    /// The programs that the service starts, without the marks before them.
    fn programs(&self) -> Vec<PathBuf> {
        let first = |a: &&Assignment| {
            let line = a.value.trim_start_matches(['@', '-', ':', '+', '!', '|']);
            text::words(line).ok()?.into_iter().next().map(PathBuf::from)
        };
        self.list("ExecStart").iter().filter_map(first).collect()
    }
}

#[cfg(test)]
mod tests;
