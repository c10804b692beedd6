//! Where the shim's settings come from.
//!
//! Rules are taken from the first of: the text in `DP_RULES`; the file that `DP_CONFIG` names;
//! `dp-preload.conf` in `$XDG_CONFIG_HOME/dp`, or in `~/.config/dp` when that is not set; the files of the system,
//! [`SYSTEM_FOLDER`] in the order of their names and then [`SYSTEM_FILE`]; [`Rules::DEFAULT`]. They are not joined: the first
//! found counts alone, and the files of the system are one place.
//!
//! Files steer what a program shares with others, so one is read only if it belongs to root or to the
//! user, and nobody else can write to it. A program with more rights than its caller reads those of the system alone.
//!
//! A program that runs reads them anew where the mark beside them has changed ([`Places::marks`]). That is a file of its own,
//! not the rules': what an editor has half written holds for nobody, and `dp rules reload` makes the mark when it has read all
//! of them. A program looks for it when a connection begins, so one that makes none is not woken, and one that has left its
//! first user, or has no connection so far, finds it as others do; shared memory of the family, or a signal, would reach
//! those alone that `dp` can see.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use dp_edge::sys::process;

use crate::{RuleError, Rules};

pub mod environment;
mod files;
pub mod log;
pub mod slips;
#[cfg(test)]
mod tests;

pub use files::{Marks, Places, Room, Trouble};

/// The file for all users of the machine.
pub const SYSTEM_FILE: &str = "/etc/dp/dp-preload.conf";
/// What stands before it, a file a package or a purpose: those whose names end in `.conf` and do not begin with a dot.
pub const SYSTEM_FOLDER: &str = "/etc/dp/dp-preload.conf.d";

/// The longest file or `DP_RULES` text that is read, in bytes.
pub const MAX_LEN: usize = 64 * 1024;

/// Where rules were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The environment variable `DP_RULES`.
    Environment,
    /// These files, in this order.
    Files(Vec<PathBuf>),
    /// Nobody said anything: [`Rules::DEFAULT`].
    Default,
}

/// What a search found, besides the rules.
#[derive(Debug)]
pub struct Found {
    /// Where rules came from.
    pub source: Source,
    /// Where to look again; None: nowhere, the environment stays as it is.
    pub places: Option<Places>,
    /// The marks before the files were read.
    pub marks: Marks,
}

/// Why there are no rules to go by. Whoever gets this leaves every connection on TCP, or does not start.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Something is wrong with `DP_RULES` or a file.
    At(Where, Box<Trouble>),
    /// `DP_CONFIG` with a path that would change its meaning with the working directory.
    Relative(PathBuf),
    /// The file that is named does not exist.
    Missing(PathBuf),
}

/// What a [`Trouble`] is with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// The variable `DP_RULES`.
    Environment,
    /// A file, or the folder.
    File(PathBuf),
}

/// Whether `DP_DISABLE` turns everything off: set, and neither empty nor `0`.
pub fn disabled() -> bool {
    own("DP_DISABLE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// A variable of this process's, if it is to be believed.
fn own(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|_| !process::is_privileged())
}

/// Finds and reads the rules for this process into `rules`, as the module's head describes.
///
/// # Errors
/// The first place that has rules has none that can be used; later places are not tried then, because
/// guessing would give a channel to what the user excluded.
pub fn load(rules: &mut Rules) -> Result<Found, ConfigError> {
    find(own, SYSTEM_FILE, process::effective_user(), rules)
}

/// The same for another process, by its environment and its user, as far as its files are those of this one.
///
/// # Errors
/// As for [`load`].
pub fn load_of(
    env: impl Fn(&str) -> Option<OsString>,
    user: u32,
    rules: &mut Rules,
) -> Result<Found, ConfigError> {
    find(env, SYSTEM_FILE, user, rules)
}

/// The same for one file, as if `DP_CONFIG` named it; a relative path is taken from the working directory on.
///
/// # Errors
/// As for [`load`].
pub fn load_file(path: &Path, rules: &mut Rules) -> Result<Found, ConfigError> {
    let path = std::path::absolute(path).map_err(|_| ConfigError::Relative(path.to_owned()))?;
    let env = |name: &str| (name == "DP_CONFIG").then(|| path.clone().into_os_string());
    find(env, SYSTEM_FILE, process::effective_user(), rules)
}

/// The search itself, over an environment, a system file and a user at choice.
fn find(
    env: impl Fn(&str) -> Option<OsString>,
    system_file: &str,
    user: u32,
    rules: &mut Rules,
) -> Result<Found, ConfigError> {
    let set = |name| env(name).filter(|value| !value.is_empty());
    if let Some(text) = set("DP_RULES") {
        let wrong = |trouble| ConfigError::At(Where::Environment, Box::new(trouble));
        from_environment(&text, rules).map_err(wrong)?;
        return Ok(Found { source: Source::Environment, places: None, marks: Marks::default() });
    }
    let places = match set("DP_CONFIG").map(PathBuf::from) {
        Some(path) if path.is_relative() => return Err(ConfigError::Relative(path)),
        Some(path) => Places::named(c_path(path), user),
        None => {
            let home = || set("HOME").map(|home| Path::new(&home).join(".config"));
            let folder = set("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let folder = folder.or_else(home).filter(|path| path.is_absolute());
            let own = folder.map(|folder| c_path(folder.join("dp/dp-preload.conf")));
            Places::usual(own, c_path(PathBuf::from(system_file)), user)
        }
    };
    let marks = places.marks();
    let mut texts = Vec::new();
    let read = places.read(Room::Heap(Vec::new()), rules, &mut |folder, name| {
        let folder = Path::new(OsStr::from_bytes(folder.to_bytes()));
        texts.push(name.map_or(folder.to_owned(), |name| folder.join(OsStr::from_bytes(name.to_bytes()))));
    });
    let source = match read {
        Ok(0) => match places.only() {
            Some(path) => return Err(ConfigError::Missing(path)),
            None => Source::Default,
        },
        Ok(_) => Source::Files(texts),
        Err(trouble) => {
            let last = texts.pop().unwrap_or_default();
            return Err(ConfigError::At(Where::File(last), Box::new(trouble)));
        }
    };
    Ok(Found { source, places: Some(places), marks })
}

/// No path has a zero in it, and no variable either.
fn c_path(path: PathBuf) -> CString {
    CString::new(path.into_os_string().into_vec()).unwrap_or_default()
}

fn from_environment(text: &OsStr, rules: &mut Rules) -> Result<(), Trouble> {
    if text.len() > MAX_LEN {
        return Err(Trouble::TooLong);
    }
    let text = text.to_str().ok_or(Trouble::NotText)?;
    rules.clear();
    rules.read(text, 0, &crate::Files)?;
    Ok(rules.complete()?)
}

impl From<RuleError> for Trouble {
    fn from(error: RuleError) -> Trouble {
        Trouble::Rule(error)
    }
}

impl Source {
    /// The name of text number `n` of the list.
    pub fn text(&self, n: u16) -> String {
        match self {
            Source::Files(paths) => {
                paths.get(usize::from(n)).map_or_else(String::new, |p| p.display().to_string())
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Environment => f.write_str("DP_RULES"),
            Source::Files(paths) => {
                for (i, path) in paths.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, path.display())?;
                }
                Ok(())
            }
            Source::Default => f.write_str("the default rules"),
        }
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Environment => f.write_str("DP_RULES"),
            Where::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::At(place, trouble) => match &**trouble {
                // As compilers write it: FILE:LINE:COLUMN.
                Trouble::Rule(error) => write!(f, "{place}:{error}"),
                other => write!(f, "{place}: {other}"),
            },
            ConfigError::Relative(path) => {
                write!(f, "DP_CONFIG={}: not an absolute path; write it from / on", path.display())
            }
            ConfigError::Missing(path) => {
                write!(f, "{}: no such file; create it, or name another (DP_CONFIG)", path.display())
            }
        }
    }
}

impl std::error::Error for ConfigError {}
