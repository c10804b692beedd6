//! What must be installed for a row, and how its version is found.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::measure::Error;

/// A program or a module; [`crate::measure::kit::Tool`] is the same without files.
pub use crate::measure::kit::Tool;

/// What servers are called from, and what a user's `PATH` often lacks.
const SBIN: &str = "/usr/sbin:/sbin";

/// Where a tool is: a command in `PATH` and beyond, or, when its name is a whole path, that file.
///
/// # Errors
/// [`Error::Missing`], which names the package.
pub fn find(tool: Tool) -> Result<PathBuf, Error> {
    let Tool { program, package } = tool;
    let path = env::var("PATH").unwrap_or_default() + ":" + SBIN;
    let mut places = env::split_paths(&path).map(|folder| folder.join(program));
    let found = match program.starts_with('/') {
        true => Some(PathBuf::from(program)).filter(|file| file.exists()),
        false => places.find(|file| file.is_file()),
    };
    found.ok_or(Error::Missing { program, package })
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
