//! `dp enable`, `dp disable`: a service of systemd under the shim, by a drop-in, and back without a trace.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::say::{self, Lines};
use crate::unit::{self, Home, Plan};

/// Which manager's units, and where.
#[derive(clap::Args)]
pub struct Where {
    /// Units of your own systemd, `systemctl --user`, not of the system's.
    #[arg(long)]
    user_manager: bool,
    /// Units in the tree of an image; nothing that runs is told.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    root: Option<PathBuf>,
}

impl Where {
    pub fn home(&self) -> Result<Home, String> {
        Home::new(self.root.as_deref(), self.user_manager)
    }
}

/// Put a service of systemd under the shim.
#[derive(clap::Args)]
pub struct Args {
    /// The service, as nginx or postgresql@15-main.
    #[arg(required = true, value_name = "UNIT", value_parser = unit::service)]
    units: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Restart the service if it runs, so that it has the shim now.
    #[arg(long, conflicts_with_all = ["root", "dry_run"])]
    now: bool,
    /// Only print the drop-in.
    #[arg(long)]
    dry_run: bool,
}

/// Take what `dp enable` did back, without a trace.
#[derive(clap::Args)]
pub struct DisableArgs {
    /// The service.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "UNIT", value_parser = unit::service)]
    units: Vec<String>,
    /// All services that are enabled.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: Where,
    /// Restart the service if it runs, so that it is without the shim now.
    #[arg(long, conflicts_with = "root")]
    now: bool,
}

pub fn main(args: Args) -> ExitCode {
    let home = match args.place.home() {
        Ok(home) => home,
        Err(why) => return failed("enable", &why),
    };
    // All or none: what can be seen to fail is seen before anything is written.
    let plans: Vec<(&str, Result<Plan, Vec<String>>)> =
        args.units.iter().map(|name| (name.as_str(), Plan::make(&home, name))).collect();
    let mut refused = false;
    for (name, plan) in &plans {
        for why in plan.as_ref().err().into_iter().flatten() {
            refused = true;
            eprintln!("dp enable: {name}: {why}");
        }
    }
    if refused {
        return failed("enable", "nothing was changed");
    }
    let mut lines = Lines::default();
    let mut units = Vec::new();
    let mut written: Vec<(Plan, Option<String>)> = Vec::new();
    for (name, plan) in plans.into_iter().filter_map(|(name, plan)| Some((name, plan.ok()?))) {
        if name != plan.unit {
            eprintln!("dp enable: {name} is an alias of {}", plan.unit);
        }
        for note in &plan.notes {
            eprintln!("dp enable: {}: note: {note}", plan.unit);
        }
        if args.dry_run {
            if let Err(why) = say::text(&format!("# {}\n{}", plan.file.display(), plan.text)) {
                return failed("enable", &why);
            }
            continue;
        }
        units.push(plan.unit.clone());
        match put(&plan.file, &plan.text) {
            Err(why) => {
                eprintln!("dp enable: {}: {why}", plan.unit);
                return taken_back(&home, &written, lines);
            }
            Ok(Put::Same) => lines.say(format!("{}: is enabled already", plan.unit)),
            Ok(Put::New(former)) => {
                lines.say(format!("{}: {} written", plan.unit, plan.file.display()));
                plan.opened
                    .iter()
                    .for_each(|line| lines.say(format!("{}: opened: {}", plan.unit, short(line))));
                written.push((plan, former));
            }
        }
    }
    let done = told("enable", &home, &units, args.now, &mut lines);
    ended("enable", done, lines)
}

/// Undoes what was written, since a later unit could not be enabled.
fn taken_back(home: &Home, written: &[(Plan, Option<String>)], mut lines: Lines) -> ExitCode {
    let mut stay = Vec::new();
    for (plan, former) in written.iter().rev() {
        let undone = match former {
            Some(text) => put(&plan.file, text).map(|_| ()),
            None => take(&plan.file).map(|_| ()),
        };
        match undone {
            Ok(()) => lines.say(format!("{}: {} is as it was", plan.unit, plan.file.display())),
            Err(why) => {
                eprintln!("dp enable: {}: what was written stays: {why}", plan.unit);
                stay.push(plan.unit.clone());
            }
        }
    }
    // systemd is to know what is there, whatever else is wrong.
    let _ = told("enable", home, &stay, false, &mut lines);
    let all = stay.is_empty();
    failed("enable", if all { "nothing was changed" } else { "not all is as it was" })
}

pub fn disable(args: DisableArgs) -> ExitCode {
    let home = match args.place.home() {
        Ok(home) => home,
        Err(why) => return failed("disable", &why),
    };
    // The drop-in may have outlived the unit; and it may have been made by the name of an alias.
    let real = |name: &String| match home.drop_in(name).exists() {
        true => name.clone(),
        false => home.read(name).map_or_else(|_| name.clone(), |unit| unit.name),
    };
    let names: Vec<String> = if args.all {
        match ours(&home) {
            Ok(names) => names,
            Err(why) => return failed("disable", &why),
        }
    } else {
        args.units.iter().map(real).collect()
    };
    let strange: Vec<String> = names.iter().filter_map(|name| why_not(&home, name)).collect();
    if !strange.is_empty() {
        strange.iter().for_each(|why| eprintln!("dp disable: {why}"));
        return failed("disable", "nothing was changed");
    }
    let mut lines = Lines::default();
    if args.all && names.is_empty() {
        eprintln!("dp disable: no service is enabled");
    }
    let mut changed = Vec::new();
    // What was disabled before without `--now` may run with the shim still.
    let mut asked = Vec::new();
    for name in names {
        match take(&home.drop_in(&name)) {
            Err(why) => {
                // Those before it are disabled, and systemd is to know.
                let _ = told("disable", &home, &changed, false, &mut lines);
                return failed("disable", &why);
            }
            Ok(false) => lines.say(format!("{name}: is not enabled")),
            Ok(true) => {
                lines.say(format!("{name}: {} removed", home.drop_in(&name).display()));
                changed.push(name.clone());
            }
        }
        let left = home.read(&name).ok().and_then(|unit| unit::left(&home, &unit));
        left.iter().for_each(|note| eprintln!("dp disable: {name}: note: {note}"));
        asked.push(name);
    }
    let units = if args.now { asked } else { changed };
    let done = told("disable", &home, &units, args.now, &mut lines);
    ended("disable", done, lines)
}

/// The units with a drop-in of ours; of those with another file of that name it is said that it stays.
fn ours(home: &Home) -> Result<Vec<String>, String> {
    let is_ours = |name: &String| match unit::present(&home.drop_in(name)) {
        Ok(text) => text.is_some(),
        Err(why) => {
            eprintln!("dp disable: {name}: note: {why}");
            false
        }
    };
    Ok(home.enabled()?.into_iter().filter(is_ours).collect())
}

/// Why a unit cannot be disabled: its drop-in is none of ours, or there is neither that nor the unit.
fn why_not(home: &Home, name: &str) -> Option<String> {
    match unit::present(&home.drop_in(name)) {
        Ok(Some(_)) => None,
        Ok(None) if home.is_known(name) => None,
        Ok(None) => home.read(name).err().map(|why| format!("{name}: {why}")),
        Err(why) => Some(why),
    }
}

/// The change stays made; a standard output that could not be written is a failure of its own.
fn ended(verb: &str, done: ExitCode, lines: Lines) -> ExitCode {
    match lines.end() {
        Ok(()) => done,
        Err(why) => failed(verb, &format!("{why}; dp status tells what was done")),
    }
}

fn failed(verb: &str, why: &str) -> ExitCode {
    eprintln!("dp {verb}: {why}");
    ExitCode::FAILURE
}

/// A list of system calls is no line for a terminal.
fn short(line: &str) -> String {
    match line.split_once('=') {
        Some((key, value)) if value.len() > 80 => {
            format!("{key}= ({} words, in the file)", value.split_whitespace().count())
        }
        _ => line.to_owned(),
    }
}

/// What became of a drop-in.
enum Put {
    /// It was there.
    Same,
    /// It was written, in place of this text if there was one.
    New(Option<String>),
}

/// Writes a drop-in, whole or not at all.
fn put(file: &Path, text: &str) -> Result<Put, String> {
    let former = unit::present(file)?;
    if former.as_deref() == Some(text) {
        return Ok(Put::Same);
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    // systemd reads what ends in .conf.
    let new = file.with_extension(format!("new.{}", std::process::id()));
    let write = || {
        fs::create_dir_all(folder)?;
        let mut out = fs::File::options().write(true).create_new(true).mode(0o644).open(&new)?;
        out.set_permissions(fs::Permissions::from_mode(0o644))?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&new, file)
    };
    write().map(|()| Put::New(former)).map_err(|error| {
        let _ = fs::remove_file(&new);
        let _ = fs::remove_dir(folder);
        format!("{}: {error}", file.display())
    })
}

/// Removes the drop-in, and its folder if nothing else is in it. False: there was none.
fn take(file: &Path) -> Result<bool, String> {
    if unit::present(file)?.is_none() {
        return Ok(false);
    }
    fs::remove_file(file).map_err(|error| format!("{}: {error}", file.display()))?;
    // It fails where the unit has other drop-ins.
    let _ = file.parent().map(fs::remove_dir);
    Ok(true)
}

/// Tells systemd, and restarts what is to be restarted.
fn told(verb: &str, home: &Home, units: &[String], now: bool, lines: &mut Lines) -> ExitCode {
    if units.is_empty() {
        return ExitCode::SUCCESS;
    }
    let restart = restart(units);
    let manager = if home.user { " --user" } else { "" };
    let Some(mut reload) = home.systemctl() else {
        if now {
            return failed(verb, "no systemd runs here, so nothing was restarted");
        }
        if home.is_live() {
            lines.say(format!("no systemd runs here; where it does: systemctl{manager} daemon-reload"));
        }
        return ExitCode::SUCCESS;
    };
    let run = |command: &mut std::process::Command, what: &str| match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("systemctl{manager} {what}: {status}")),
        Err(error) => Err(format!("systemctl: {error}")),
    };
    if let Err(why) = run(reload.arg("daemon-reload"), "daemon-reload") {
        return failed(verb, &why);
    }
    match home.systemctl().filter(|_| now).map(|mut command| run(command.args(&restart), &restart[0])) {
        Some(Err(why)) => failed(verb, &why),
        Some(Ok(())) => ExitCode::SUCCESS,
        None => {
            lines.say(format!("what runs stays as it is until: systemctl{manager} {}", restart.join(" ")));
            ExitCode::SUCCESS
        }
    }
}

/// The words for systemctl(1) that restart what runs of the units, and start nothing.
fn restart(units: &[String]) -> Vec<String> {
    let names = units.iter().map(|unit| unit::instances(unit));
    std::iter::once("try-restart".to_owned()).chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_stopped_is_not_started() {
        let units = ["nginx.service", "pg@.service", "pg@15-main.service"].map(str::to_owned);
        assert_eq!(restart(&units), ["try-restart", "nginx.service", "pg@*.service", "pg@15-main.service"]);
    }
}
