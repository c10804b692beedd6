//! Where, when and by what something was measured: without that a figure says nothing a month later.

use serde::Serialize;

/// A part of each report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The machine's name.
    pub host: String,
    /// Its processor, as it calls itself.
    pub cpu: String,
    /// The kernel's name and release.
    pub kernel: String,
    /// When measuring began, UTC, as in 2026-11-25T10:56:07Z.
    pub date: String,
    /// The version of `dp`.
    pub dp: String,
}

impl Origin {
    /// One line for people.
    pub fn line(&self) -> String {
        let Origin { host, cpu, kernel, date, dp } = self;
        format!("{host}, {cpu}, {kernel}, {date}, dp {dp}")
    }
}

/// Between which two processes something was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Of one machine, on these cores: that of the first, and of the other.
    Cores([usize; 2]),
    /// Of this node, and of that with this number.
    Node(u16),
}

impl Place {
    /// For people.
    pub fn words(&self) -> String {
        match self {
            Place::Cores([a, b]) => format!("between cores {a} and {b}"),
            Place::Node(nid) => format!("to node {nid}"),
        }
    }
}

/// A time, in seconds since 1970 began, as [`Origin::date`] has it.
pub fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counted from the 1st of March of the year 0, so that a leap day is the last of its year, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months of 31, 30, 31, 30, 31 days, again and again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * era + year + next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The processor's name in the text of /proc/cpuinfo: of x86, of POWER, of other machines' boards.
pub fn cpu(info: &str) -> Option<&str> {
    let field = |name: &str| {
        let found = info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then_some(value.trim())
        });
        found.filter(|value| !value.is_empty())
    };
    ["model name", "cpu", "Model", "Hardware"].into_iter().find_map(field)
}
