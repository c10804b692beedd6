//! Where the shim's settings come from.
//!
//! Rules are taken from the first of: the text in `DP_RULES`; the file that `DP_CONFIG` names;
//! `dp-preload.conf` in `$XDG_CONFIG_HOME/dp`, or in `~/.config/dp` when that is not set; the file
//! [`SYSTEM_FILE`]; [`Rules::DEFAULT`]. They are not joined: the first found counts alone.
//!
//! Files steer what a program shares with others, so one is read only if it belongs to root or to the
//! user, and nobody else can write to it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::rules::{RuleError, Rules};

pub mod environment;
#[cfg(test)]
mod tests;

/// The file for all users of the machine.
pub const SYSTEM_FILE: &str = "/etc/dp/dp-preload.conf";

/// The longest file or `DP_RULES` text that is read, in bytes.
pub const MAX_LEN: u64 = 64 * 1024;

/// Rules, and where they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The rules.
    pub rules: Rules,
    /// Where they came from.
    pub source: Source,
}

/// Where rules came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The environment variable `DP_RULES`.
    Environment,
    /// A file.
    File(PathBuf),
    /// Nobody said anything: [`Rules::DEFAULT`].
    Default,
}

/// Why there are no rules to go by. Whoever gets this leaves every connection on TCP, or does not start.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A rule that cannot be used.
    #[error("{where_}: {error}")]
    Rule {
        /// `DP_RULES` or the file.
        where_: Source,
        /// Which rule, and what can stand there instead.
        error: RuleError,
    },
    /// Text that is none.
    #[error("{0}: not UTF-8 text; rewrite it (rules are described in dp-preload.conf(5))")]
    NotText(Source),
    /// More text than anybody needs.
    #[error("{0}: longer than {MAX_LEN} bytes; shorten it")]
    TooLong(Source),
    /// `DP_CONFIG` with a path that would change its meaning with the working directory.
    #[error("DP_CONFIG={0}: not an absolute path; write it from / on")]
    Relative(PathBuf),
    /// The file cannot be opened or read.
    #[error("{path}: {error}; make it readable, or remove it")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file that `DP_CONFIG` names is missing.
    #[error("DP_CONFIG={0}: no such file; create it, or unset DP_CONFIG")]
    Missing(PathBuf),
    /// A folder, a device, a pipe.
    #[error("{0}: not a regular file; put a file of rules there, or remove it")]
    NotAFile(PathBuf),
    /// Somebody else's.
    #[error("{path}: belongs to user {owner}; only a file of root or of user {user} is read (chown it)")]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user that wants to read it.
        user: u32,
    },
    /// Open to others.
    #[error("{path}: others can write to it (mode {mode:03o}); run: chmod go-w {path}")]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Whether `DP_DISABLE` turns everything off: set, and neither empty nor `0`.
pub fn disabled() -> bool {
    std::env::var_os("DP_DISABLE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Finds and reads the rules for this process, as the module's head describes.
///
/// # Errors
/// The first place that has rules has none that can be used; later places are not tried then, because
/// guessing would give a channel to what the user excluded.
pub fn load() -> Result<Found, ConfigError> {
    let user = nix::unistd::geteuid().as_raw();
    find(|name| std::env::var_os(name), Path::new(SYSTEM_FILE), user)
}

/// The search itself, over an environment, a system file and a user at choice.
fn find(env: impl Fn(&str) -> Option<OsString>, system_file: &Path, user: u32) -> Result<Found, ConfigError> {
    let set = |name| env(name).filter(|value| !value.is_empty());
    if let Some(text) = set("DP_RULES") {
        return from_environment(&text);
    }
    if let Some(path) = set("DP_CONFIG").map(PathBuf::from) {
        if path.is_relative() {
            return Err(ConfigError::Relative(path));
        }
        return from_file(&path, user)?.ok_or(ConfigError::Missing(path));
    }
    let home = || set("HOME").map(|home| Path::new(&home).join(".config"));
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    if let Some(folder) = folder.filter(|path| path.is_absolute()) {
        if let Some(found) = from_place(&folder.join("dp/dp-preload.conf"), user)? {
            return Ok(found);
        }
    }
    let found = from_place(system_file, user)?;
    Ok(found.unwrap_or(Found { rules: Rules::DEFAULT, source: Source::Default }))
}

fn from_environment(text: &OsStr) -> Result<Found, ConfigError> {
    let source = Source::Environment;
    if text.len() as u64 > MAX_LEN {
        return Err(ConfigError::TooLong(source));
    }
    match text.to_str() {
        Some(text) => parse(text, source),
        None => Err(ConfigError::NotText(source)),
    }
}

/// None: there is no such file, or it lies in a folder that the user may not enter, as the home of
/// someone else that `HOME` still names after a change of user.
fn from_place(path: &Path, user: u32) -> Result<Option<Found>, ConfigError> {
    let out_of_reach = || path.metadata().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    match from_file(path, user) {
        Err(ConfigError::Unreadable { .. }) if out_of_reach() => Ok(None),
        other => other,
    }
}

/// None: there is no such file.
fn from_file(path: &Path, user: u32) -> Result<Option<Found>, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
    // Non-blocking, because opening a pipe that nobody writes to would wait forever.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    check(&file, path, user)?;
    let source = Source::File(path.to_owned());
    let mut bytes = Vec::new();
    file.take(MAX_LEN + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(ConfigError::TooLong(source));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, source).map(Some),
        Err(_) => Err(ConfigError::NotText(source)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether to believe the file; it is open already, so it cannot be exchanged for another after this.
fn check(file: &File, path: &Path, user: u32) -> Result<(), ConfigError> {
    let meta = file.metadata().map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
    let path = || path.to_owned();
    if !meta.is_file() {
        return Err(ConfigError::NotAFile(path()));
    }
    if meta.uid() != 0 && meta.uid() != user {
        return Err(ConfigError::Owner { path: path(), owner: meta.uid(), user });
    }
    if meta.mode() & 0o022 != 0 {
        return Err(ConfigError::Writable { path: path(), mode: meta.mode() & 0o7777 });
    }
    Ok(())
}

fn parse(text: &str, source: Source) -> Result<Found, ConfigError> {
    match Rules::parse(text) {
        Ok(rules) => Ok(Found { rules, source }),
        Err(error) => Err(ConfigError::Rule { where_: source, error }),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Environment => f.write_str("DP_RULES"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Default => f.write_str("the default rules"),
        }
    }
}
