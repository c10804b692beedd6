//! `dp rules reload`: the mark beside the rules, at which running programs read them anew.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::load;
use crate::out::Out;

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
    let mut out = Out::default();
    let mut made = 0;
    let (mut wrong, mut others) = (Vec::new(), Vec::new());
    for mark in places.mark_files() {
        match make(&mark) {
            Ok(true) => {
                made += 1;
                out.say(format_args!(
                    "{}: programs that look there read the rules anew at their next connection",
                    mark.display()
                ));
            }
            // No rules can be there either.
            Ok(false) => {}
            // The system's is root's to make.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() => {
                others.push(format!("{}: {error}; who looks there is told by root", mark.display()));
            }
            Err(error) => wrong.push(format!("{}: {error}", mark.display())),
        }
    }
    if made > 0 {
        others.iter().for_each(|why| eprintln!("dp rules: note: {why}"));
    } else {
        wrong.append(&mut others);
    }
    if made == 0 && wrong.is_empty() {
        wrong.push("there is no folder for rules; make ~/.config/dp or /etc/dp".into());
    }
    match made {
        0 => Err(format!("{}; nobody was told", wrong.join("; "))),
        _ if !wrong.is_empty() => Err(format!("{}; who looks there was not told", wrong.join("; "))),
        _ => out.end(),
    }
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
