//! What must be installed for a row, and how its version is found.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::measure::Error;
use crate::programs::target_dir;

/// A program or a module; [`crate::measure::kit::Tool`] is the same without files.
pub use crate::measure::kit::Tool;

/// What servers are called from, and what a user's `PATH` often lacks.
const SBIN: &str = "/usr/sbin:/sbin";

/// Begins the name of a program of ours: the rest is its place below the target folder, its package what builds it.
pub const OURS: &str = "target:";

/// Where a tool is: a command in `PATH` and beyond; that file, when its name is a whole path; and when it ends with a
/// star, a command that begins so, for names with a version in them. A star for a folder of a whole path stands for the
/// last one that has the rest.
///
/// # Errors
/// [`Error::Missing`], which names the package.
pub fn find(tool: Tool) -> Result<PathBuf, Error> {
    let Tool { program, package } = tool;
    let path = env::var("PATH").unwrap_or_default() + ":" + SBIN;
    let mut places = env::split_paths(&path);
    if let Some(ours) = program.strip_prefix(OURS) {
        let file = target_dir().join(ours);
        return file.exists().then_some(file).ok_or(Error::NotBuilt { program: ours, how: package });
    }
    let found = match program.strip_suffix('*') {
        _ if program.starts_with('/') => whole(program).filter(|file| file.exists()),
        Some(begin) => places.find_map(|folder| last_that_begins(&folder, begin)),
        None => places.map(|folder| folder.join(program)).find(|file| file.is_file()),
    };
    found.ok_or(Error::Missing { program, package })
}

fn whole(program: &str) -> Option<PathBuf> {
    let Some((before, behind)) = program.split_once("/*/") else {
        return Some(PathBuf::from(program));
    };
    let files = fs::read_dir(before).ok()?.flatten().map(|entry| entry.path().join(behind));
    files.filter(|file| file.is_file()).max()
}

fn last_that_begins(folder: &Path, begin: &str) -> Option<PathBuf> {
    let begins =
        |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|file| begins(file) && file.is_file()).max()
}

/// A command that prints the version of a row's program.
#[derive(Clone, Copy)]
pub struct Version {
    /// The program.
    pub tool: Tool,
    /// What makes it tell.
    pub arguments: &'static [&'static str],
}

impl Version {
    /// The first thing it prints that looks like a version.
    ///
    /// # Errors
    /// It cannot be asked, or says nothing of the kind.
    pub fn ask(self) -> Result<String, Error> {
        let mut command = Command::new(find(self.tool)?);
        command.args(self.arguments).env_remove("LD_PRELOAD").stdin(Stdio::null());
        let said = command.output().map_err(Error::system(self.tool.program))?;
        let text = [said.stdout, said.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let name = Path::new(self.tool.program).display();
        in_words(&text).ok_or_else(|| Error::words(format!("{name}, asked for its version,"), &text))
    }
}

/// `1.22.1` in `nginx version: nginx/1.22.1`.
pub(super) fn in_words(text: &str) -> Option<String> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let mut versions = words.map(|word| word.trim_matches('.')).filter(|word| word.contains('.'));
    versions.next().map(str::to_string)
}
