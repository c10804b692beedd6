//! A row of the table of targets: a baseline, DP beside it, and what was promised.

use dp_measure::stats::{median, Interval, Spread};
use serde::Serialize;

use super::{deviation, number, percent, Cell, Style, Title};
use crate::measure::kit::Setup;
use crate::measure::turns::Turns;

/// One comparison with its target.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What `--only` takes.
    pub name: &'static str,
    /// The comparison in words.
    pub what: String,
    /// Of the values.
    pub unit: &'static str,
    /// What was promised.
    pub target: Target,
    /// What DP is compared with; null if nothing was measured.
    pub baseline: Option<Column>,
    /// DP itself.
    pub dp: Option<Column>,
    /// AF_UNIX, of programs that have it.
    pub unix: Option<Column>,
    /// DP / baseline, the rounds' own ratios.
    pub ratio: Option<Interval>,
    /// Whether the target is met; null if nothing was measured.
    pub met: Option<bool>,
    /// The part of the bytes that went through DP by the product's counters, 0 to 1; null where it does not apply.
    pub dp_part: Option<f64>,
    /// Why nothing was measured, or what is to be known about the numbers.
    pub notes: Vec<String>,
}

/// What one side of a comparison came to.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// What it is.
    pub name: String,
    /// The rounds' values.
    pub value: Spread,
    /// All of them, in the order of the rounds.
    pub samples: Vec<f64>,
    /// Median CPU seconds of the server in one round; null where the program does not tell.
    pub server_cpu_s: Option<f64>,
    /// Median CPU seconds of the client in one round.
    pub client_cpu_s: Option<f64>,
}

/// A promise about DP and its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "test", content = "value", rename_all = "snake_case")]
pub enum Target {
    /// The median ratio is not below this.
    RatioAtLeast(f64),
    /// The ratio's whole 95 % interval is not below this.
    IntervalAtLeast(f64),
    /// The ratio's 95 % interval is not wholly above this: where DP costs the same, half of all medians are.
    NotAbove(f64),
    /// The value is not above the baseline plus this.
    BaselinePlus(f64),
}

impl Target {
    fn met(self, baseline: f64, dp: f64, ratio: &Interval) -> bool {
        match self {
            Target::RatioAtLeast(least) => ratio.median >= least,
            Target::IntervalAtLeast(least) => ratio.low >= least,
            Target::NotAbove(most) => ratio.low <= most,
            Target::BaselinePlus(more) => dp <= baseline + more,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Target::RatioAtLeast(least) => format!(">= {least}x"),
            Target::IntervalAtLeast(least) => format!("95 % >= {least}x"),
            Target::NotAbove(most) => format!("not above {most}x"),
            Target::BaselinePlus(more) => format!("<= + {more} {unit}"),
        }
    }
}

impl Row {
    /// A row without numbers yet.
    pub fn new(name: &'static str, what: impl Into<String>, unit: &'static str, target: Target) -> Row {
        let (what, notes) = (what.into(), Vec::new());
        Row {
            name,
            what,
            unit,
            target,
            baseline: None,
            dp: None,
            unix: None,
            ratio: None,
            met: None,
            dp_part: None,
            notes,
        }
    }

    /// With what was measured of these two setups.
    pub fn with(mut self, turns: &Turns, baseline: Setup, dp: Setup) -> Row {
        self.ratio = turns.ratio(dp, baseline, |sample| sample.value);
        self.baseline = Column::of(turns, baseline);
        self.dp = Column::of(turns, dp);
        self.judged()
    }

    /// With AF_UNIX beside them, if it had its turns.
    pub fn with_unix(mut self, turns: &Turns) -> Row {
        self.unix = Column::of(turns, Setup::Unix);
        self
    }

    /// With what another program measured, in rounds of its own.
    pub fn with_columns(mut self, baseline: Column, dp: Column) -> Row {
        self.ratio = Interval::of(&[dp.value.median / baseline.value.median]);
        (self.baseline, self.dp) = (Some(baseline), Some(dp));
        self.judged()
    }

    /// With the product's own word on how much went through DP, and a note where that is too little for the
    /// numbers to mean anything.
    pub fn with_part(mut self, part: Option<f64>, elsewhere: &str) -> Row {
        self.dp_part = part;
        match part {
            None => self.note("the server has no shim by `dp ls`: these are not numbers of DP"),
            Some(part) if part < 0.9 => {
                self.note(format!("only {} of the bytes went through DP: {elsewhere}", percent(part)));
            }
            Some(_) => {}
        }
        self
    }

    /// The same, with the reason why it has no numbers.
    pub fn with_note(mut self, note: impl ToString) -> Row {
        self.note(note.to_string());
        self
    }

    /// Something to be known about the numbers, or why there are none.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn judged(mut self) -> Row {
        if let (Some(baseline), Some(dp), Some(ratio)) = (&self.baseline, &self.dp, &self.ratio) {
            self.met = Some(self.target.met(baseline.value.median, dp.value.median, ratio));
        }
        self
    }

    /// The titles of [`Row::cells`].
    pub const TITLES: [Title; 10] = [
        Title::Left("WHAT"),
        Title::Right("BASELINE"),
        Title::Right("AF_UNIX"),
        Title::Right("DP"),
        Title::Left("UNIT"),
        Title::Right("RATIO"),
        Title::Left("95 %"),
        Title::Left("TARGET"),
        Title::Left(""),
        Title::Left("CPU s: BASELINE | DP"),
    ];

    /// As a line of the table.
    pub fn cells(&self) -> Vec<Cell> {
        let value = |column: &Column| {
            let spread = if column.samples.len() > 1 { deviation(&column.value) } else { String::new() };
            format!("{} {spread:>4}", number(column.value.median))
        };
        let baseline = self.baseline.as_ref().map(|column| format!("{} {}", column.name, value(column)));
        let [unix, dp] = [&self.unix, &self.dp].map(|column| column.as_ref().map(value));
        let ratio = self.ratio.as_ref();
        let interval =
            ratio.filter(|r| r.percent >= 95.0).map(|r| format!("{} - {}", times(r.low), times(r.high)));
        let cpu = [&self.baseline, &self.dp].map(|column| column.as_ref().and_then(Column::cpu));
        let verdict = match self.met {
            None => Cell::from("not measured"),
            Some(true) => Cell::styled("met", Style::Good),
            Some(false) => Cell::styled("MISSED", Style::Bad),
        };
        vec![
            self.what.as_str().into(),
            or_dash(baseline).into(),
            or_dash(unix).into(),
            or_dash(dp).into(),
            self.unit.into(),
            Cell::styled(or_dash(ratio.map(|r| format!("{}x", times(r.median)))), Style::Strong),
            or_dash(interval).into(),
            self.target.text(self.unit).into(),
            verdict,
            or_dash(cpu[0].as_ref().zip(cpu[1].as_ref()).map(|(b, d)| format!("{b} | {d}"))).into(),
        ]
    }
}

impl Column {
    fn of(turns: &Turns, setup: Setup) -> Option<Column> {
        let seconds = |values: Vec<f64>| Some(median(&values));
        Some(Column {
            name: setup.name().to_string(),
            value: turns.values(setup)?,
            samples: turns.each(setup, |sample| sample.value),
            server_cpu_s: seconds(turns.each(setup, |sample| sample.server.cpu.as_secs_f64())),
            client_cpu_s: seconds(turns.each(setup, |sample| sample.client.cpu.as_secs_f64())),
        })
    }

    /// One value, with the CPU seconds of server and client if they are known. None of what is no number.
    pub fn single(name: &str, value: f64, cpu_s: Option<[f64; 2]>) -> Option<Column> {
        let samples = vec![Some(value).filter(|value| value.is_finite())?];
        let value = Spread::of(&samples)?;
        let [server_cpu_s, client_cpu_s] = [0, 1].map(|i| cpu_s.map(|cpu_s| cpu_s[i]));
        Some(Column { name: name.to_string(), value, samples, server_cpu_s, client_cpu_s })
    }

    fn cpu(&self) -> Option<String> {
        let (server, client) = (self.server_cpu_s?, self.client_cpu_s?);
        // Of programs that do nothing, milliseconds count.
        let digits = if server + client < 0.1 { 4 } else { 2 };
        Some(format!("{server:.digits$} + {client:.digits$}"))
    }
}

/// A ratio; near 1 the third digit matters.
fn times(ratio: f64) -> String {
    if ratio < 2.0 {
        format!("{ratio:.3}")
    } else {
        format!("{ratio:.2}")
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_string())
}

#[cfg(test)]
mod tests;
