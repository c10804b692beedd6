//! `dp rules reload`: the mark beside the rules, at which running programs read them anew.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use dp_rules::config::Source;

use super::load;
use crate::say::Lines;

#[derive(clap::Args)]
pub struct Args {
    /// The file of rules that the programs were given by DP_CONFIG; without it, all whose rules were found as this command
    /// finds them.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (_, found) = load(args.file.as_ref()).map_err(|error| error.to_string())?;
    let Some(places) = found.places else {
        return Err(
            "the rules are those of DP_RULES, which running programs keep; unset it, or name a file".into()
        );
    };
    let mut lines = Lines::default();
    let mut made = 0;
    let mut wrong = Vec::new();
    let mut missed = false;
    for mark in places.mark_files() {
        match make(&mark) {
            Ok(true) => {
                made += 1;
                lines.say(format!(
                    "{}: programs that look there read the rules anew at their next connection",
                    mark.display()
                ));
            }
            // No rules can be there either.
            Ok(false) => {}
            Err(error) => {
                missed |= is_of(&found.source, &mark);
                wrong.push(format!("{}: {error}", mark.display()));
            }
        }
    }
    if made > 0 && !missed {
        wrong
            .iter()
            .for_each(|why| eprintln!("dp rules: {why}; programs that look there alone were not told"));
        return lines.end();
    }
    if made > 0 {
        let why = wrong.join("; ");
        return Err(format!(
            "{why}; these rules are of that folder, and programs that look there were not told"
        ));
    }
    if wrong.is_empty() {
        wrong.push("there is no folder for rules; make ~/.config/dp or /etc/dp".into());
    }
    Err(format!("{}; nobody was told", wrong.join("; ")))
}

/// Whether rules were found in the folder of a mark.
fn is_of(source: &Source, mark: &Path) -> bool {
    let folder = mark.parent();
    matches!(source, Source::Files(files) if files.iter().any(|file| folder.is_some_and(|folder| file.starts_with(folder))))
}

/// Makes a mark anew; false: its folder does not exist.
fn make(mark: &Path) -> io::Result<bool> {
    if !mark.parent().is_some_and(Path::is_dir) {
        return Ok(false);
    }
    // Another file each time, put there in one step: that is noticed however coarse the clock of the files is.
    let new = mark.with_extension(format!("reload.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    let written = file.write_all(
        b"Made by dp rules reload, dp-rules(1): programs read the rules anew when this file changes.\n",
    );
    written.and_then(|()| fs::rename(&new, mark)).inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_of_the_folder_of_their_mark() {
        let mark = Path::new("/etc/dp/dp-preload.conf.reload");
        let of = |files: &[&str]| is_of(&Source::Files(files.iter().map(PathBuf::from).collect()), mark);
        assert!(of(&["/etc/dp/dp-preload.conf"]));
        assert!(of(&["/home/x/.config/dp/a", "/etc/dp/dp-preload.conf.d/10-a.conf"]));
        assert!(!of(&["/home/x/.config/dp/dp-preload.conf"]) && !of(&[]) && !is_of(&Source::Default, mark));
    }
}
