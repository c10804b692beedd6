//! `dp run --dry-run`: what would be done, in words, and nothing of it.

use std::env;
use std::path::Path;

use dp_rules::config;
use dp_rules::Rules;

use super::{cannot_execute, check_variables, Args, Failure, FAILED, USAGE};
use crate::rules::list;
use crate::{program, shim};

/// Tells it; fails as running would, before the program is started.
pub fn tell(args: &Args) -> Result<(), Failure> {
    let name = args.command.first().expect("clap demands a program");
    crate::warn_of_slips("run");
    let missing = || cannot_execute(Path::new(name), &std::io::ErrorKind::NotFound.into());
    let found = program::find(name, env::var_os("PATH").as_deref()).filter(|path| path.exists());
    println!("program: {}", found.as_ref().ok_or_else(missing)?.display());
    if config::disabled() {
        println!("shim: none, DP_DISABLE is set");
        return Ok(());
    }
    check_variables()?;
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
    match found.as_deref().and_then(program::obstacle) {
        Some(obstacle) if obstacle.refuses_shim() => println!("shim: none, {obstacle}"),
        Some(obstacle) => println!("shim: LD_PRELOAD={}, in vain: {obstacle}", preload.to_string_lossy()),
        None => println!("shim: LD_PRELOAD={}", preload.to_string_lossy()),
    }
    match &from {
        Some(source) => println!("rules: of {source}"),
        None => println!("rules: of the options"),
    }
    list(&rules, from.as_ref());
    if let Ok(Some(log)) = config::log::check() {
        println!("log: to {log}");
    }
    Ok(())
}
