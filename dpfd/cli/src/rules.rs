//! `dp rules`: the rules that choose connections, looked at before a program goes by them, and told to those that run.

use std::path::PathBuf;
use std::process::ExitCode;

use dp_rules::config::{self, environment, ConfigError, Found, Source};
use dp_rules::Rules;
use serde::Serialize;

use crate::say::{self, Lines};

pub mod explain;
pub mod log;
mod reload;

/// The rules cannot be used, or nobody can be told of them.
const UNUSABLE: u8 = 1;

/// Rules for connections: dp-preload.conf(5).
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Check rules, and list them in the order in which they are asked.
    Check(Check),
    /// Tell which rule decides about a connection, and why those before it do not.
    Explain(explain::Args),
    /// Check rules, and have running programs read them anew for the connections that they begin from now on.
    Reload(reload::Args),
}

#[derive(clap::Args)]
struct Check {
    /// A file of rules; without it, what a program would go by that was started now, and the numbers in DP_ variables.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub fn main(args: Args) -> ExitCode {
    let done = match args.what {
        What::Check(check) => check.run(),
        What::Explain(args) => explain::run(&args),
        What::Reload(args) => reload::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dp rules: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Rules, and where they were found.
fn load(file: Option<&PathBuf>) -> Result<(Rules, Found), ConfigError> {
    let mut rules = Rules::DEFAULT;
    let found = match file {
        Some(file) => config::load_file(file, &mut rules)?,
        None => config::load(&mut rules)?,
    };
    Ok((rules, found))
}

impl Check {
    fn run(&self) -> Result<(), String> {
        if self.file.is_none() {
            crate::warn_of_slips("rules");
            let mut numbers = environment::OF_SHIM.into_iter();
            numbers.try_for_each(|number| number.check()).map_err(|error| error.to_string())?;
            log::check()?;
        }
        let (rules, found) = load(self.file.as_ref()).map_err(|error| error.to_string())?;
        if self.json {
            let all = (0..rules.iter().len()).filter_map(|i| Line::of(&rules, i, Some(&found.source)));
            say::text(&json(&Checked { version: VERSION, rules: all.collect() }))
        } else {
            let mut lines = Lines::default();
            list(&rules, Some(&found.source), &mut lines);
            lines.end()
        }
    }
}

/// Fields of JSON may be added; none changes its meaning while this stays.
const VERSION: u32 = 1;

/// What `check --json` prints.
#[derive(Serialize)]
struct Checked {
    version: u32,
    rules: Vec<Line>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("strings and numbers") + "\n"
}

/// A rule as people and programs are shown it.
#[derive(Serialize)]
pub struct Line {
    /// As it would be written.
    pub rule: String,
    action: &'static str,
    /// File, `DP_RULES`; null: in no text, the rule completes the list.
    text: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

impl Line {
    pub fn of(rules: &Rules, i: usize, source: Option<&Source>) -> Option<Line> {
        let (rule, origin) = rules.get(i)?;
        let stands = source.filter(|_| origin.line > 0);
        Some(Line {
            rule: rule.to_string(),
            action: rule.action().word(),
            text: stands.map(|source| source.text(origin.text)),
            line: stands.map(|_| origin.line),
            column: stands.map(|_| origin.column),
        })
    }

    pub fn place(&self) -> String {
        match (&self.text, self.line, self.column) {
            (Some(text), Some(line), Some(column)) => format!("{text}:{line}:{column}"),
            _ => "(added)".into(),
        }
    }
}

/// Prints the rules in order, each with the place where it stands. `source`: none, they are those of the command line.
pub fn list(rules: &Rules, source: Option<&Source>, lines: &mut Lines) {
    for line in (0..rules.iter().len()).filter_map(|i| Line::of(rules, i, source)) {
        match source {
            Some(_) => lines.say(format!("{}: {}", line.place(), line.rule)),
            None => lines.say(line.rule),
        }
    }
}
