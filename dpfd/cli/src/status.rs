//! `dp status`: how the services are that `dp enable` put under the shim.

mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::enable::Where;
use crate::ls::families::Family;
use crate::ls::Listing;
use crate::unit::{self, Home, Plan};
use processes::{Program, Shim};

/// Something is to be done: a drop-in renewed, a service restarted.
const TO_DO: u8 = 3;

/// Tell how services under the shim are: the drop-in, their processes, channels, connections on TCP.
#[derive(clap::Args)]
pub struct Args {
    /// The service; without one, all that are enabled.
    #[arg(value_name = "UNIT", value_parser = unit::service)]
    unit: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Print JSON, as dp-status(1) describes it.
    #[arg(long)]
    json: bool,
}

/// What a unit's drop-in is like.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum State {
    /// What `dp enable` would write now.
    Current,
    /// It differs from that: another version made it, or the unit has changed since.
    Outdated,
    /// `dp enable` would refuse the unit now.
    Broken,
    /// There is none.
    Missing,
    /// There is a file of that name that dp did not make.
    Foreign,
}

#[derive(Serialize)]
struct DropIn {
    path: PathBuf,
    state: State,
    /// Version of the dp that made it.
    version: Option<String>,
    /// Why it is broken; of one that is missing, why it cannot be made.
    problems: Vec<String>,
    /// What no line of it can change.
    notes: Vec<String>,
}

/// One service.
#[derive(Serialize)]
struct Service {
    unit: String,
    /// Whether it is a unit of users' managers.
    user_manager: bool,
    drop_in: DropIn,
    processes: Vec<Program>,
    /// Whether a process is not as the drop-in would have it.
    restart: bool,
    /// What systemctl(1) restarts then.
    restart_name: String,
    /// Open ones, and those since the families began.
    channels: usize,
    channels_ever: u64,
    /// Open connections on TCP, and all of them so far by reason.
    tcp: usize,
    on_tcp: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    dp: &'static str,
    units: Vec<Service>,
}

pub fn main(args: Args) -> ExitCode {
    match look(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(TO_DO),
        Err(why) => {
            eprintln!("dp status: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints it all; whether nothing is to be done.
fn look(args: &Args) -> Result<bool, String> {
    let home = args.place.home()?;
    let names = match &args.unit {
        Some(name) => vec![home.read(name).map_or_else(|_| name.clone(), |unit| unit.name)],
        None => home.enabled()?,
    };
    // An image has no processes.
    let families = if home.is_live() { Listing::look()?.0.families } else { Vec::new() };
    let units: Vec<Service> =
        names.into_iter().map(|name| Service::look(&home, name, &families)).collect::<Result<_, _>>()?;
    let report = Report { version: 1, dp: env!("CARGO_PKG_VERSION"), units };
    let text = if args.json {
        serde_json::to_string_pretty(&report).expect("plain data") + "\n"
    } else {
        report.units.iter().map(Service::told).collect::<Vec<_>>().join("\n")
    };
    if report.units.is_empty() && !args.json {
        eprintln!("dp status: no service is enabled; dp enable UNIT does that");
    }
    crate::say::text(&text)?;
    Ok(report.units.iter().all(Service::is_fine))
}

impl DropIn {
    fn look(home: &Home, unit: &str) -> Result<DropIn, String> {
        let path = home.drop_in(unit);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => Some(text.map_err(|error| format!("{}: {error}", path.display()))?),
        };
        let version = text.as_deref().and_then(unit::version_of).map(str::to_owned);
        let (mut problems, mut notes) = (Vec::new(), Vec::new());
        let state = match (&text, &version) {
            (None, _) => {
                match home.read(unit) {
                    Ok(unit) => notes.extend(unit::left(home, &unit)),
                    Err(why) => problems.push(why),
                }
                State::Missing
            }
            (_, None) => State::Foreign,
            (Some(text), _) => match Plan::make(home, unit) {
                Ok(plan) => {
                    notes = plan.notes;
                    if plan.text == *text {
                        State::Current
                    } else {
                        State::Outdated
                    }
                }
                Err(why) => {
                    problems = why;
                    State::Broken
                }
            },
        };
        Ok(DropIn { path, state, version, problems, notes })
    }

    /// In words, with what to do.
    fn told(&self, unit: &str, user: bool) -> String {
        let enable = format!("dp enable {}{unit}", if user { "--user-manager " } else { "" });
        let version = self.version.as_deref().unwrap_or("");
        match self.state {
            State::Current => format!("current ({version})"),
            State::Outdated => format!("of {version}, and not what is needed now: {enable}"),
            State::Broken => {
                format!("of {version}, and dp would refuse the unit now: {}", self.problems.join("; "))
            }
            State::Missing if self.problems.is_empty() => format!("none: {enable}"),
            State::Missing => format!("none: {}", self.problems.join("; ")),
            State::Foreign => format!("{} is not one that dp made", self.path.display()),
        }
    }
}

impl Service {
    fn look(home: &Home, unit: String, families: &[Family]) -> Result<Service, String> {
        let drop_in = DropIn::look(home, &unit)?;
        let written = fs::metadata(&drop_in.path).and_then(|data| data.modified()).ok();
        let found = if home.is_live() { processes::of(home, &unit, written)? } else { Vec::new() };
        let wanted = matches!(drop_in.state, State::Current | State::Outdated | State::Broken);
        let has = |family: &&Family| {
            family.processes.iter().any(|p| found.iter().any(|program| program.pid == p.pid))
        };
        let mut service = Service {
            restart: found.iter().any(|program| program.needs_restart(wanted)),
            restart_name: unit::instances(&unit),
            unit,
            user_manager: home.user,
            drop_in,
            processes: Vec::new(),
            channels: 0,
            channels_ever: 0,
            tcp: 0,
            on_tcp: BTreeMap::new(),
        };
        for family in families.iter().filter(has) {
            let open = |channel: bool| {
                family.connections.iter().filter(|c| (c.state == "channel") == channel).count()
            };
            service.channels += open(true);
            service.tcp += open(false);
            service.channels_ever += family.channels;
            for (reason, n) in &family.on_tcp {
                *service.on_tcp.entry(reason).or_default() += n;
            }
        }
        service.processes = found;
        Ok(service)
    }

    fn is_fine(&self) -> bool {
        self.drop_in.state == State::Current && !self.restart
    }

    fn told(&self) -> String {
        let mut text =
            format!("{}\n  drop-in     {}\n", self.unit, self.drop_in.told(&self.unit, self.user_manager));
        for note in &self.drop_in.notes {
            text += &format!("  note        {note}\n");
        }
        let counted = [
            (Shim::Loaded, "with the shim"),
            (Shim::Replaced, "with one that was replaced since"),
            (Shim::Absent, "started without it"),
            (Shim::Unseen, "not to be seen: ask as root"),
            (Shim::Unfit, "that cannot have it (dp doctor PID tells why)"),
            (Shim::Disabled, "with DP_DISABLE set, which keeps it from doing anything"),
        ]
        .map(|(shim, words)| (self.processes.iter().filter(|p| p.shim == shim).count(), words));
        let counted: Vec<String> =
            counted.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")).collect();
        text += &format!(
            "  processes   {}\n",
            if counted.is_empty() { "none".into() } else { counted.join(", ") }
        );
        if self.restart {
            text += &format!(
                "  restart     needed: systemctl{} restart {}\n",
                if self.user_manager { " --user" } else { "" },
                self.restart_name
            );
        }
        if self.channels_ever > 0 || self.tcp > 0 || !self.on_tcp.is_empty() {
            text += &format!("  channels    {} open, {} so far\n", self.channels, self.channels_ever);
            let reasons: Vec<String> =
                self.on_tcp.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
            let so_far = if reasons.is_empty() { "none".into() } else { reasons.join(", ") };
            text += &format!("  on TCP      {} open; so far: {so_far}\n", self.tcp);
        }
        text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_unit_that_is_not_there_it_is_not_said_that_it_be_enabled() {
        let tree = std::env::temp_dir();
        let home = Home::new(Some(&tree), false).unwrap();
        let service = Service::look(&home, "nosuch-dp.service".into(), &[]).unwrap();
        let told = service.told();
        assert!(told.contains("none: there is no such unit") && !told.contains("dp enable"), "{told}");
        assert!(told.contains(&format!("systemctl --root={} list-unit-files", tree.display())), "{told}");
    }

    #[test]
    fn of_a_template_all_instances_are_to_be_restarted() {
        let tree = std::env::temp_dir();
        let home = Home::new(Some(&tree), false).unwrap();
        let mut service = Service::look(&home, "pg@.service".into(), &[]).unwrap();
        service.restart = true;
        assert!(service.told().contains("systemctl restart pg@*.service\n"), "{}", service.told());
        let json = serde_json::to_value(&service).unwrap();
        assert_eq!((&json["unit"], &json["restart_name"]), (&"pg@.service".into(), &"pg@*.service".into()));
    }

    #[test]
    fn json_has_the_documented_fields() {
        let home = Home::new(Some(&std::env::temp_dir()), false).unwrap();
        let mut service = Service::look(&home, "nosuch-dp.service".into(), &[]).unwrap();
        let shim = Shim::Loaded;
        service.processes =
            vec![Program { program: "nginx".into(), pid: 7, shim, version: None, is_due: false }];
        let report = serde_json::to_value(Report { version: 1, dp: "0.1.0", units: vec![service] }).unwrap();
        assert_eq!(report["units"][0]["processes"][0]["shim"], "loaded");
        // Reasons are dp-preload(7)'s.
        crate::page::documents(include_str!("../../../man/dp-status.1"), &report, &["on_tcp"]);
    }
}
