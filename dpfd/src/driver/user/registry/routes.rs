//! The names of the gateway's routes, in a file beside its entry.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use super::Registry;
use crate::error::{Error, Result};

/// The file: the process whose routes they are, and a name a line.
const FILE: &str = "gateway.routes";

impl Registry {
    /// The names of the gateway's routes; none where there is no gateway.
    pub fn routes(&self) -> Vec<String> {
        let Some(entry) = self.gateway().filter(|entry| self.lives(&entry.process)) else {
            return Vec::new();
        };
        // Of this one, not of one before it.
        self.routes_of(&entry.process).unwrap_or_default()
    }

    /// Those that this process said as a gateway; none where it said nothing, or another one said something since.
    pub fn routes_of(&self, process: &str) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.folder().join(FILE)).ok()?;
        let mut lines = text.lines();
        (lines.next() == Some(process)).then(|| lines.map(str::to_string).collect())
    }

    /// Says the names of this gateway's routes.
    ///
    /// # Errors
    ///
    /// Those of writing a file.
    pub fn offer_routes(&self, process: &str, names: &[&str]) -> Result<()> {
        let (path, new) = (self.folder().join(FILE), self.folder().join(format!("{FILE}.new")));
        let text = format!("{process}\n{}\n", names.join("\n"));
        // What somebody of the folder's group put there is not written into.
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&new, &path)).map_err(|error| Error::folder(path, &error))
    }
}
