//! The drop-in for a unit: its whole text.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{environment, filter, needed, Home, Unit};
use crate::shim;

/// How our drop-ins begin; the version follows.
const MARK: &str = "# Directed Point ";

/// What will be written, or why nothing can be.
pub struct Plan {
    /// What the unit is called; an alias was followed.
    pub unit: String,
    pub file: PathBuf,
    pub text: String,
    /// What the lines open, in words.
    pub opened: Vec<String>,
    pub notes: Vec<String>,
}

impl Plan {
    /// For the unit of that name.
    ///
    /// # Errors
    ///
    /// Every reason for which it cannot be, in words.
    pub fn make(home: &Home, name: &str) -> Result<Plan, Vec<String>> {
        let unit = home.read(name).map_err(|why| vec![why])?;
        let shim = shim_for(home).map_err(|why| vec![why])?;
        let present = present(&home.drop_in(&unit.name));
        match (Plan::of(home, &unit, &shim, &filter::of_systemd), present) {
            (plan, Ok(_)) => plan,
            (Ok(_), Err(why)) => Err(vec![why]),
            (Err(refusals), Err(why)) => Err([refusals, vec![why]].concat()),
        }
    }

    pub(super) fn of(
        home: &Home,
        unit: &Unit,
        shim: &Path,
        groups: filter::Groups,
    ) -> Result<Plan, Vec<String>> {
        let needed = needed::of(home, unit, shim, groups);
        let mut refusals = needed.refusals;
        let preload = match environment::joined(home, unit, shim) {
            Ok(preload) if refusals.is_empty() => preload,
            Ok(_) => return Err(refusals),
            Err(why) => {
                refusals.push(why);
                return Err(refusals);
            }
        };
        let (version, manager) = (env!("CARGO_PKG_VERSION"), if home.user { " --user-manager" } else { "" });
        let mut text = format!(
            "{MARK}{version}: `dp enable{manager} {0}` made this, `dp disable{manager} {0}` takes it away. dp-enable(1)\n\
             [Service]\nEnvironment=\"LD_PRELOAD={preload}\"\n",
            unit.name
        );
        for (why, line) in &needed.lines {
            let _ = writeln!(text, "# {why}\n{line}");
        }
        Ok(Plan {
            unit: unit.name.clone(),
            file: home.drop_in(&unit.name),
            text,
            opened: needed.lines.into_iter().map(|(_, line)| line).collect(),
            notes: needed.notes,
        })
    }
}

/// The shim as the unit will find it: of an image, the one in its tree.
fn shim_for(home: &Home) -> Result<PathBuf, String> {
    let here =
        if home.is_live() { shim::find() } else { shim::find_in(&|inside| home.path(inside).is_file()) };
    here.map_err(|error| error.to_string())
}

/// The text of a drop-in that is there; None: there is none.
///
/// # Errors
///
/// A sentence, where it is none of ours, or cannot be read.
pub fn present(file: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(file) {
        Ok(text) if version_of(&text).is_none() => {
            Err(format!("{} is not one that dp made, and stays; give yours another name", file.display()))
        }
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// The version that made a drop-in; None: it is none of ours.
pub fn version_of(text: &str) -> Option<&str> {
    text.strip_prefix(MARK)?.split(':').next()
}
