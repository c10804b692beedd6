//! `dp run --dry-run`: what would be done, in words, and nothing of it.

use std::env;
use std::path::Path;

use dp_rules::config;
use dp_rules::Rules;
use nix::unistd::{eaccess, AccessFlags};

use super::{cannot_execute, check_variables, obstacle, Args, Failure, FAILED, USAGE};
use crate::rules::{self, list};
use crate::say::Lines;
use crate::{program, shim};

/// Tells it; fails as running would, before the program is started.
pub fn tell(args: &Args) -> Result<(), Failure> {
    let name = args.command.first().expect("clap demands a program");
    crate::warn_of_slips("run");
    let mut lines = Lines::default();
    let cannot = |errno| cannot_execute(Path::new(name), &std::io::Error::from_raw_os_error(errno));
    let found = program::find(name, env::var_os("PATH").as_deref()).filter(|path| path.exists());
    let program = found.ok_or_else(|| cannot(libc::ENOENT))?;
    if !program::is_executable(&program) || eaccess(&program, AccessFlags::X_OK).is_err() {
        return Err(cannot(libc::EACCES));
    }
    lines.say(format!("program: {}", program.display()));
    if config::disabled() {
        lines.say("shim: none, DP_DISABLE is set");
        return end(lines);
    }
    check_variables()?;
    let log = rules::log::check().map_err(|why| Failure::new(USAGE, why))?;
    let mut rules = Rules::DEFAULT;
    let from = match args.rules().map_err(|error| Failure::new(USAGE, error.problem))? {
        Some(of_options) => {
            rules = of_options;
            None
        }
        None => Some(config::load(&mut rules).map_err(|error| Failure::new(USAGE, error))?.source),
    };
    let shim = shim::find().map_err(|error| Failure::new(FAILED, error))?;
    let preload = shim::preload(&shim, env::var_os("LD_PRELOAD")).map_err(|e| Failure::new(FAILED, e))?;
    match obstacle(&program, args)? {
        Some(obstacle) if obstacle.refuses_shim() => lines.say(format!("shim: none, {obstacle}")),
        Some(obstacle) => {
            lines.say(format!("shim: LD_PRELOAD={}, in vain: {obstacle}", preload.to_string_lossy()));
        }
        None => lines.say(format!("shim: LD_PRELOAD={}", preload.to_string_lossy())),
    }
    match &from {
        Some(source) => lines.say(format!("rules: of {source}")),
        None => lines.say("rules: of the options"),
    }
    list(&rules, from.as_ref(), &mut lines);
    if let Some(log) = log {
        lines.say(format!("log: to {log}"));
    }
    end(lines)
}

fn end(lines: Lines) -> Result<(), Failure> {
    lines.end().map_err(|why| Failure::new(FAILED, why))
}
