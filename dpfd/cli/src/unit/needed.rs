//! Which settings of a unit keep the shim from its work, and what must be added so that they do not.
//!
//! Most hardening leaves the shim alone, since it uses no capability, no file, no name in /dev/shm or /tmp and no memory that
//! is both written and executed: nothing is asked of NoNewPrivileges=, ProtectSystem=, PrivateTmp=, PrivateDevices=,
//! PrivateIPC=, PrivateUsers=, ProtectProc=, MemoryDenyWriteExecute=, RestrictNamespaces= and LimitMEMLOCK=.

use std::path::{Path, PathBuf};

use super::{filter, order, postgres, Home, Unit};
use crate::program::Starter;
use crate::{needs, program};

/// What a unit's settings mean for the shim.
#[derive(Debug, Default)]
pub struct Needed {
    /// Lines for the drop-in: why, and the assignment.
    pub lines: Vec<(String, String)>,
    /// Why the service cannot have the shim.
    pub refusals: Vec<String>,
    /// What the operator should know, and nothing can be done about by a line.
    pub notes: Vec<String>,
}

/// All that there is to say.
pub fn of(home: &Home, unit: &Unit, shim: &Path, groups: filter::Groups) -> Needed {
    let mut needed = Needed::default();
    needed.families(unit);
    needed.calls(unit, groups);
    needed.library(unit, shim);
    needed.program(home, unit);
    needed.notes.extend(postgres::wanted(home, unit, shim));
    needed.surroundings(unit);
    needed
}

/// What a unit's files, as they are, keep from the shim in a program that has it.
#[derive(Debug, Default)]
pub struct Hindrances {
    /// What the unit's filters lack: why it is needed, and the assignment that allows it.
    pub lines: Vec<(String, String)>,
    /// What no line of our drop-in allows, and the way out.
    pub too_late: Vec<String>,
    /// The setting that gives it a network namespace of its own.
    pub network: Option<&'static str>,
}

impl Home {
    /// The lines of a unit that are in the shim's way; our drop-in may be among its files.
    ///
    /// # Errors
    ///
    /// As of [`Home::read`].
    pub fn hindrances(&self, name: &str, groups: filter::Groups) -> Result<Hindrances, String> {
        let unit = self.read_whole(name)?;
        let mut needed = Needed::default();
        needed.families(&unit);
        needed.calls(&unit, groups);
        Ok(Hindrances { lines: needed.lines, too_late: needed.refusals, network: own_network(&unit) })
    }
}

/// The setting that gives the unit a network namespace of its own.
fn own_network(unit: &Unit) -> Option<&'static str> {
    match unit.value("NetworkNamespacePath") {
        Some(_) => Some("NetworkNamespacePath"),
        None => unit.is_on("PrivateNetwork").then_some("PrivateNetwork"),
    }
}

impl Needed {
    fn families(&mut self, unit: &Unit) {
        let names: Vec<&str> = needs::FAMILIES.iter().map(|(family, _)| *family).collect();
        let missing = self.missing(unit, "RestrictAddressFamilies", &names, filter::Of::Families);
        for (family, why) in needs::FAMILIES.iter().filter(|(family, _)| missing.contains(family)) {
            self.lines.push((
                format!("The unit leaves no sockets of {family}; {why}."),
                format!("RestrictAddressFamilies={family}"),
            ));
        }
    }

    fn calls(&mut self, unit: &Unit, groups: filter::Groups) {
        let missing = self.missing(unit, "SystemCallFilter", needs::CALLS, filter::Of::Calls(groups));
        if !missing.is_empty() {
            let why = "System calls that the shim makes and the unit's filter lacks, or may lack.";
            self.lines.push((why.into(), format!("SystemCallFilter={}", missing.join(" "))));
        }
    }

    /// What a line must allow; none, and a refusal, where no line can.
    fn missing<'a>(&mut self, unit: &Unit, key: &str, needed: &[&'a str], of: filter::Of) -> Vec<&'a str> {
        let (before, after) = unit.around(key);
        let [said, later] =
            [&before, &after].map(|list| list.iter().map(|a| a.value.as_str()).collect::<Vec<_>>());
        filter::missing(&said, &later, needed, of).unwrap_or_else(|filter::Undone| {
            self.refusals.push(order::too_late(key, &after));
            Vec::new()
        })
    }

    /// Whether the service can read the library, and execute it.
    fn library(&mut self, unit: &Unit, shim: &Path) {
        let folder = shim.parent().unwrap_or(shim);
        let own_root =
            ["RootDirectory", "RootImage"].iter().find(|key| unit.value(key).is_some_and(|v| v != "/"));
        if let Some(key) = own_root {
            let why = format!("The service has a root of its own ({key}=), and no shim in it.");
            // An empty one of either takes back both.
            let keys = ["BindReadOnlyPaths", "BindPaths"];
            self.path(unit, &keys, why, format!("BindReadOnlyPaths={}", folder.display()));
        }
        let hidden = |folders: &[&str]| folders.iter().any(|hidden| shim.starts_with(hidden));
        let hiding = [
            (
                "ProtectHome",
                unit.value("ProtectHome").is_some_and(|v| matches!(v, "yes" | "true" | "on" | "1" | "tmpfs"))
                    && hidden(&["/home", "/root", "/run/user"]),
            ),
            ("PrivateTmp", unit.is_on("PrivateTmp") && hidden(&["/tmp", "/var/tmp"])),
            ("InaccessiblePaths", below(shim, unit, "InaccessiblePaths")),
            ("TemporaryFileSystem", below(shim, unit, "TemporaryFileSystem")),
        ];
        for (key, _) in hiding.iter().filter(|(_, hides)| *hides) {
            self.refusals.push(format!(
                "{key}= hides {} from the service; install dp below /usr, or set DP_SHIM to a copy that it can read",
                shim.display()
            ));
        }
        if below(shim, unit, "NoExecPaths") && !below(shim, unit, "ExecPaths") {
            let why = "The service may execute nothing there, and a library is executed.";
            self.path(unit, &["ExecPaths"], why.into(), format!("ExecPaths={}", folder.display()));
        }
    }

    /// A line for a list of paths, if no later file empties that by one of `keys`.
    fn path(&mut self, unit: &Unit, keys: &[&str], why: String, line: String) {
        for key in keys {
            let (_, mut later) = unit.around(key);
            later.retain(|a| a.value.is_empty());
            if !later.is_empty() {
                return self.refusals.push(order::too_late(key, &later));
            }
        }
        self.lines.push((why, line));
    }

    fn program(&mut self, home: &Home, unit: &Unit) {
        let programs = unit.programs();
        if programs.is_empty() {
            self.notes.push("it has no ExecStart=; the shim is for what it starts".into());
        }
        // As Debian's postgresql.service, which stands for all clusters.
        let does_nothing = |path: &PathBuf| path.ends_with("bin/true");
        if !programs.is_empty() && programs.iter().all(does_nothing) {
            let unit = &unit.name;
            self.refusals.push(format!(
                "it stands for other units and starts nothing itself; name those, systemctl list-dependencies {unit} lists them"
            ));
        }
        let starter = starter(home, unit);
        for found in programs.iter().filter_map(|path| program::obstacle_for(&home.path(path), starter)) {
            self.refusals.push(format!("{found}; it stays on TCP; way out: {}", found.way_out()));
        }
    }

    fn surroundings(&mut self, unit: &Unit) {
        if own_network(unit).is_some() {
            let text = "it has a network namespace of its own: channels are possible inside of it only, all else stays on TCP (dp doctor names the other ends)";
            self.notes.push(text.into());
        }
        let soft = unit.value("LimitNOFILE").and_then(|limit| limit.split(':').next()?.parse::<u64>().ok());
        if let Some(few) = soft.filter(|&few| few < needs::FEW_FILES) {
            self.notes.push(format!(
                "LimitNOFILE={few} is little: the shim takes a dozen descriptors and more with each server"
            ));
        }
        if let Some(limit) = unit.value("LimitAS").filter(|limit| *limit != "infinity") {
            self.notes
                .push(format!("LimitAS={limit}: where it is too little, connections stay on TCP (memory)"));
        }
        if unit.assignments.iter().any(|a| a.key == "Environment" && a.value.contains("DP_DISABLE=")) {
            self.notes.push(
                "its environment sets DP_DISABLE: with a value other than 0 the shim does nothing".into(),
            );
        }
        self.notes.extend(unit.unread.iter().map(|what| format!("{what}; what it says is not known")));
    }
}

/// As whom a unit's programs begin, as far as its lines have numbers: names are those of the host where it will run.
fn starter(home: &Home, unit: &Unit) -> Starter {
    if home.user || unit.is_on("DynamicUser") {
        return Starter::default();
    }
    let number = |name: &str| if name == "root" { Some(0) } else { name.parse().ok() };
    let (user, group) = (unit.value("User"), unit.value("Group"));
    let user = user.map_or(Some(0), number);
    // Without Group= it is the user's own.
    let group = group.map_or(user.filter(|user| *user == 0), number);
    Starter { user, group }
}

/// Whether the shim is in one of the folders of a setting.
fn below(shim: &Path, unit: &Unit, key: &str) -> bool {
    let path = |word: &String| word.trim_start_matches(['-', '+']).split(':').next().map(str::to_owned);
    unit.words(key).iter().filter_map(path).any(|folder| shim.starts_with(folder))
}
