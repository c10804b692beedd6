//! `dp rules reload`: the mark beside the rules, at which running programs read them anew.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::load;

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
    let mut made = 0;
    let mut wrong = Vec::new();
    for mark in places.mark_files() {
        match make(&mark) {
            Ok(true) => {
                made += 1;
                println!(
                    "{}: programs that look there read the rules anew at their next connection",
                    mark.display()
                );
            }
            // No rules can be there either.
            Ok(false) => {}
            Err(error) => wrong.push(format!("{}: {error}", mark.display())),
        }
    }
    if made > 0 {
        return Ok(());
    }
    if wrong.is_empty() {
        wrong.push("there is no folder for rules; make ~/.config/dp or /etc/dp".into());
    }
    Err(format!("{}; nobody was told", wrong.join("; ")))
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
