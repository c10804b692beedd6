//! Where unit files and drop-ins lie (systemd.unit(5)), on this system or in the tree of an image.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::text::{self, Assignment};
use super::{instances, tree, Unit};

/// The name of our drop-in in the unit's folder.
pub const FILE: &str = "50-directed-point.conf";

/// Of the system's manager and of a user's, those first that count before the others.
const SYSTEM: &[&str] = &[
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];
const USER: &[&str] = &[
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/share/systemd/user",
    "/usr/share/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
];

/// One manager's units.
pub struct Home {
    /// The tree of an image; None: this system.
    root: Option<PathBuf>,
    pub user: bool,
    /// The folder to which drop-ins are written.
    config: PathBuf,
    folders: Vec<PathBuf>,
}

impl Home {
    /// Of the system's manager, or with `user` of this user's; of all users in the tree of an image.
    pub fn new(root: Option<&Path>, user: bool) -> Result<Home, String> {
        if let Some(root) = root.filter(|root| !root.is_dir()) {
            return Err(format!("{}: no such folder", root.display()));
        }
        let below = |folder: &&str| match root {
            Some(root) => tree::resolve(root, Path::new(folder)),
            None => PathBuf::from(folder),
        };
        let mut folders: Vec<PathBuf> = if user { USER } else { SYSTEM }.iter().map(below).collect();
        let config = match (user, root) {
            (true, None) => {
                let variable =
                    |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
                let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
                let config = home.ok_or("HOME is not set, so it is not known where your units are")?;
                let config = config.join("systemd/user");
                folders.insert(0, config.clone());
                config
            }
            (true, Some(_)) => folders[0].clone(),
            (false, _) => below(&"/etc/systemd/system"),
        };
        Ok(Home { root: root.map(Path::to_owned), user, config, folders })
    }

    /// Whether this is the running system.
    pub fn is_live(&self) -> bool {
        self.root.is_none()
    }

    /// A path of the unit's, as it is found from here.
    pub fn path(&self, inside: &Path) -> PathBuf {
        match &self.root {
            Some(root) => tree::resolve(root, inside),
            None => inside.to_owned(),
        }
    }

    /// A file or folder that was found, without the links of the tree of an image, which mean places in the tree.
    fn follow(&self, found: &Path) -> PathBuf {
        match self.root.as_deref().and_then(|root| found.strip_prefix(root).ok()) {
            Some(inside) => self.path(inside),
            None => found.to_owned(),
        }
    }

    /// Our drop-in for the unit.
    pub fn drop_in(&self, unit: &str) -> PathBuf {
        self.follow(&self.config.join(format!("{unit}.d"))).join(FILE)
    }

    /// systemctl(1) for this manager; None: there is none that runs.
    pub fn systemctl(&self) -> Option<Command> {
        let runs = self.root.is_none() && Path::new("/run/systemd/system").is_dir();
        runs.then(|| {
            let mut command = Command::new("systemctl");
            if self.user {
                command.arg("--user");
            }
            command
        })
    }

    /// The unit, without what our own drop-in says.
    ///
    /// # Errors
    ///
    /// In words: there is no such unit, or it is masked.
    pub fn read(&self, name: &str) -> Result<Unit, String> {
        self.read_those(name, |file| !file.ends_with(FILE))
    }

    /// Whether there is a unit of that name, masked or not.
    pub fn is_known(&self, name: &str) -> bool {
        self.first(name).or_else(|| self.first(&template(name)?)).is_some()
    }

    /// The unit with what our own drop-in says, as its programs are started.
    ///
    /// # Errors
    ///
    /// As of [`Home::read`].
    pub fn read_whole(&self, name: &str) -> Result<Unit, String> {
        self.read_those(name, |_| true)
    }

    fn read_those(&self, name: &str, counts: impl Fn(&Path) -> bool) -> Result<Unit, String> {
        let (fragment, name) = self.fragment(name)?;
        let mut unit = Unit { name, assignments: Vec::new(), unread: Vec::new() };
        let files = self.asked(&unit.name).unwrap_or_else(|| {
            let mut files = vec![fragment];
            files.extend(self.drop_ins(&unit.name));
            files
        });
        // One that is masked says nothing, also where an image has no /dev/null.
        let is_masked =
            |file: &PathBuf| fs::read_link(file).is_ok_and(|target| target == Path::new("/dev/null"));
        for file in files.iter().filter(|file| counts(file) && !is_masked(file)) {
            match fs::read(self.follow(file)) {
                Ok(bytes) => {
                    let found: Vec<Assignment> = text::assignments(&String::from_utf8_lossy(&bytes), file);
                    unit.assignments.extend(found);
                }
                Err(error) => unit.unread.push(format!("{}: {error}", file.display())),
            }
        }
        Ok(unit)
    }

    /// The unit's own file, and what the unit is called if that is an alias.
    fn fragment(&self, name: &str) -> Result<(PathBuf, String), String> {
        let file = self.first(name).or_else(|| self.first(&template(name)?));
        let file = file.ok_or_else(|| {
            let (whose, option) = if self.user { ("of users", " --user") } else { ("of the system", "") };
            // In the tree of an image users' units are those of all of them.
            let option = match &self.root {
                Some(root) if self.user => format!(" --global --root={}", root.display()),
                Some(root) => format!(" --root={}", root.display()),
                None => option.into(),
            };
            format!("there is no such unit {whose}; see systemctl{option} list-unit-files for names")
        })?;
        let target = fs::read_link(&file).ok();
        if target.as_deref() == Some(Path::new("/dev/null"))
            || fs::metadata(self.follow(&file)).is_ok_and(|data| data.len() == 0)
        {
            return Err("the unit is masked; systemctl unmask it first".into());
        }
        let alias = target.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        match alias.filter(|alias| *alias != name && !alias.contains('@') && alias.ends_with(".service")) {
            Some(alias) => {
                let real = self
                    .first(alias)
                    .ok_or_else(|| format!("it is an alias of {alias}, which is not there"))?;
                Ok((real, alias.to_owned()))
            }
            None => Ok((file, name.to_owned())),
        }
    }

    /// The file that counts of those with this name.
    fn first(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).find(|file| fs::symlink_metadata(file).is_ok())
    }

    /// Drop-ins, by name: of one name, that of the more particular folder counts.
    fn drop_ins(&self, name: &str) -> Vec<PathBuf> {
        let mut found: BTreeMap<std::ffi::OsString, PathBuf> = BTreeMap::new();
        for of in particular(name) {
            for folder in self.folders.iter().map(|folder| folder.join(format!("{of}.d"))) {
                for entry in fs::read_dir(self.follow(&folder)).into_iter().flatten().flatten() {
                    if entry.path().extension().is_some_and(|end| end == "conf") {
                        found.entry(entry.file_name()).or_insert(entry.path());
                    }
                }
            }
        }
        found.into_values().collect()
    }

    /// The files as the running systemd tells them.
    fn asked(&self, name: &str) -> Option<Vec<PathBuf>> {
        let mut command = self.systemctl()?;
        let said = command.args(["show", "-p", "FragmentPath", "-p", "DropInPaths", name]).output().ok()?;
        let text = String::from_utf8(said.stdout).ok()?;
        let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let fragment = of("FragmentPath=").filter(|path| !path.is_empty())?;
        let drop_ins = of("DropInPaths=").unwrap_or_default().split_whitespace();
        Some(std::iter::once(fragment).chain(drop_ins).map(PathBuf::from).collect())
    }

    /// The main process of the unit, or those of all instances of a template; none where no systemd runs that tells.
    pub fn main_processes(&self, unit: &str) -> Vec<u32> {
        let ask =
            |mut command: Command| command.args(["show", "-p", "MainPID", &instances(unit)]).output().ok();
        let said = self.systemctl().and_then(ask).map(|said| said.stdout).unwrap_or_default();
        let pids = String::from_utf8_lossy(&said).into_owned();
        let pids = pids.lines().filter_map(|line| line.strip_prefix("MainPID=")?.parse().ok());
        pids.filter(|&pid| pid != 0).collect()
    }

    /// The units that have our drop-in, by name.
    ///
    /// # Errors
    ///
    /// In words, when the folder cannot be listed.
    pub fn enabled(&self) -> Result<Vec<String>, String> {
        let entries = match fs::read_dir(&self.config) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| format!("{}: {error}", self.config.display()))?,
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".d")?.to_owned()))
            .filter(|unit| self.drop_in(unit).exists())
            .collect();
        names.sort();
        Ok(names)
    }
}

/// `postgresql@.service` of `postgresql@15-main.service`.
fn template(name: &str) -> Option<String> {
    let (stem, instance) = name.split_once('@')?;
    (instance != ".service").then(|| format!("{stem}@.service"))
}

/// The names whose drop-ins are for the unit, the most particular first: its own, its template's, those up to each dash, all.
fn particular(name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    names.extend(template(name));
    let stem = name.split('@').next().unwrap_or(name).trim_end_matches(".service");
    let dashes = stem.char_indices().rev().filter(|&(at, c)| c == '-' && at > 0);
    names.extend(dashes.map(|(at, _)| format!("{}-.service", &stem[..at])));
    names.push("service".to_owned());
    names
}
