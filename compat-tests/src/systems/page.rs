//! The report: one object for programs, one page of Markdown for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dp_measure::stats::Spread;
use serde::Serialize;

use super::goals::Goal;
use super::machine::Machine;
use super::numbers::Numbers;
use super::states::State;
use super::survey::{Metric, Missing, Row, Survey};
use super::{Family, System, What, SYSTEMS};
use crate::measure::report::{self, deviation, number};

/// Everything that was measured.
#[derive(Serialize)]
pub struct Report {
    /// Of this layout.
    pub version: u32,
    /// What was typed.
    pub command: String,
    /// Where.
    pub machine: Machine,
    /// The side that measures, or sends; and the one that answers, or receives.
    pub cores: [usize; 2],
    /// Turns of each system at each size.
    pub rounds: usize,
    /// Of one turn.
    pub seconds: f64,
    /// How long all of it took.
    pub took_s: f64,
    /// How far apart the cores were, most frequent first; rows of `systems` belong to one of these each.
    pub states: Vec<State>,
    /// What was promised.
    pub goals: Vec<Goal>,
    /// Systems by size.
    pub systems: Vec<Row>,
    /// What their number costs.
    pub numbers: Numbers,
    /// The kernel driver's figures, of its guest; empty if it was left out.
    pub kernel: Vec<String>,
    /// Unmodified programs; empty if they were left out.
    pub programs: Vec<report::Row>,
    /// What could not be measured.
    pub missing: Vec<Missing>,
}

/// Lengths by which tables and plots are made.
pub struct View<'a> {
    /// What was measured while the cores were as far apart as they mostly were.
    pub survey: &'a Survey,
    /// The same of the other distance, if there was one.
    pub elsewhere: Option<&'a Survey>,
    /// Lengths, ascending.
    pub sizes: &'a [usize],
    /// Files of plots beside the page, and their titles.
    pub plots: &'a [(String, String)],
}

impl Report {
    /// The page.
    pub fn markdown(&self, view: &View) -> String {
        let mut page = String::from("# Systems that carry messages between two processes of one machine\n\n");
        self.head(&mut page, view);
        self.promises(&mut page);
        section(&mut page, "8 bytes one way", "");
        eight_bytes(&mut page, view.survey);
        let long: Vec<usize> = view.sizes.iter().copied().filter(|size| *size >= 1024).collect();
        let short: Vec<usize> = view.sizes.iter().copied().filter(|size| *size < 65_536).collect();
        section(
            &mut page,
            "One way, p50",
            "Half a round trip. Of libfabric the mean, because its program tells no median.",
        );
        matrix(&mut page, view, What::Latency, Metric::Middle, view.sizes, |ns, _| time(ns));
        section(&mut page, "One way, p99", "");
        matrix(&mut page, view, What::Latency, Metric::P99, view.sizes, |ns, _| time(ns));
        section(&mut page, "One way, p99.9", "");
        matrix(&mut page, view, What::Latency, Metric::P999, view.sizes, |ns, _| time(ns));
        section(&mut page, "Messages in a second, one sender, one receiver", "Millions.");
        matrix(&mut page, view, What::Flood, Metric::Rate, &short, |rate, _| number(rate / 1e6));
        section(&mut page, "Bandwidth, one sender, one receiver", "GB/s.");
        bandwidth(&mut page, view, &long);
        section(&mut page, "CPU seconds for each GiB", "Of both processes.");
        matrix(&mut page, view, What::Flood, Metric::Cpu, &long, |cpu, _| number(cpu));
        waiting(&mut page, view.survey);
        self.numbers(&mut page);
        self.programs(&mut page);
        self.kernel(&mut page);
        if let Some(survey) = view.elsewhere {
            let view = View { survey, ..*view };
            section(&mut page, "While the cores were as far apart as in fewer turns", "");
            eight_bytes(&mut page, survey);
            section(&mut page, "Bandwidth, GB/s", "");
            bandwidth(&mut page, &view, &long);
        }
        self.missing(&mut page);
        page.push_str(HOW);
        page
    }

    fn head(&self, page: &mut String, view: &View) {
        let machine = &self.machine;
        let kind = if machine.virtual_machine { "virtual machine" } else { "machine" };
        let floor = self.floor(view);
        let _ = write!(
            page,
            "`{}`, {}: {:.0} minutes, {} rounds, turns of {} s.\n\n\
             - {kind} with {} processors, {}, Linux {}\n\
             - cores {} (measures, sends) and {} (answers, receives)\n\
             - floor (a cache line from one core to the other): {floor}\n\
             - others at work: load average {:.2} at the begin and {:.2} at the end (this run is about 2 of it); the \
             processors worked {} % of the time, the host took {} % away\n\n\
             Times are of this machine at this hour; every system has its turn in every round, so the ratios between \
             rows hold better than the numbers do. A number is the median over the rounds, ± is how far the farthest \
             round was off, - is what a system does not have.\n",
            self.command,
            machine.date,
            self.took_s / 60.0,
            self.rounds,
            self.seconds,
            machine.processors,
            machine.processor,
            machine.kernel,
            self.cores[0],
            self.cores[1],
            machine.load[0],
            machine.load[1],
            machine.busy[0],
            machine.busy[1],
        );
        for (file, title) in view.plots {
            let _ = write!(page, "\n![{title}]({file})\n");
        }
    }

    /// What it was, and how it moved.
    fn floor(&self, view: &View) -> String {
        let measured = |survey: &Survey| {
            let floor = survey.spread(What::Latency, 8, "floor", Metric::Middle)?;
            let (low, high) = (number(floor.low), number(floor.high));
            Some(format!("{} ns, from {low} to {high} ns in single rounds", number(floor.median)))
        };
        let mut text = measured(view.survey).unwrap_or_else(|| "not measured".into());
        if let [main, others @ ..] = &self.states[..] {
            let all: usize = self.states.iter().map(|state| state.turns).sum();
            let percent = |state: &State| format!("{:.0} %", 100.0 * state.turns as f64 / all as f64);
            let other = |state: &State| {
                format!("{} to {} ns in {}", number(state.low), number(state.high), percent(state))
            };
            if !others.is_empty() {
                let others: Vec<String> = others.iter().map(other).collect();
                let _ = write!(
                    text,
                    ". The cores were as far apart in {} of all turns, and the tables are of those; the floor was {}: see the \
                     end",
                    percent(main),
                    others.join(", ")
                );
            }
        }
        text
    }

    fn promises(&self, page: &mut String) {
        section(
            page,
            "What was promised",
            "In brackets the 95 % interval of the median, or all rounds if they are few. At the other distance: while the cores \
             were as far apart as in fewer turns.",
        );
        line(page, &["what", "measured", "target", "", "at the other distance", "beside"].map(String::from));
        line(page, &["---", "---:", "---", "---", "---", "---"].map(String::from));
        for goal in &self.goals {
            let cells = [
                goal.what.clone(),
                goal.value_text(),
                goal.limit_text(),
                goal.verdict(),
                goal.elsewhere_text(),
                goal.beside.clone(),
            ];
            line(page, &cells);
        }
    }

    fn numbers(&self, page: &mut String) {
        let crowds = &self.numbers.crowds;
        if !crowds.is_empty() {
            section(
                page,
                "One that is used beside many that are not",
                "8 bytes one way, p50, by the number of endpoints or connections that both processes have. The second \
                 process waits with epoll for all of them, except by dp_recvfrom, where it looks at the one. Memory is for each of \
                 the others: resident in the waiting process, and of the kernel for both ends.",
            );
            let counts: BTreeSet<usize> = crowds.iter().map(|row| row.endpoints).collect();
            let mut head = vec![String::new()];
            head.extend(counts.iter().map(|count| report::count(*count as u64)));
            head.extend(["resident", "kernel"].map(String::from));
            line(page, &head);
            line(
                page,
                &head
                    .iter()
                    .map(|title| if title.is_empty() { "---" } else { "---:" }.into())
                    .collect::<Vec<_>>(),
            );
            for system in SYSTEMS {
                let rows: Vec<_> = crowds.iter().filter(|row| row.system == system.key).collect();
                let Some(most) = rows.last() else { continue };
                let cell = |count: &usize| {
                    let row = rows.iter().find(|row| row.endpoints == *count);
                    row.map_or("-".into(), |row| with_deviation(&row.p50_ns, &time(row.p50_ns.median)))
                };
                let mut cells = vec![system.name.to_string()];
                cells.extend(counts.iter().map(cell));
                let kib = |bytes: Option<f64>| {
                    bytes.map_or("-".into(), |bytes| format!("{} KiB", number(bytes / 1024.0)))
                };
                cells.extend([kib(most.resident_bytes_each), kib(most.kernel_bytes_each)]);
                line(page, &cells);
            }
        }
        if let Some(idle) = &self.numbers.idle {
            let _ = write!(
                page,
                "\n{} idle endpoints: {} KiB resident each, with a pool {} KiB; in {} s {} us of processor time and {} \
                 context switches; one beside them is {} % slower than alone.\n",
                report::count(idle.endpoints as u64),
                number(idle.bytes_per_endpoint / 1024.0),
                number(idle.bytes_per_pool_endpoint / 1024.0),
                idle.seconds,
                number(idle.idle_cpu_us),
                idle.idle_context_switches,
                idle.slower_percent,
            );
        }
    }

    fn kernel(&self, page: &mut String) {
        if self.kernel.is_empty() {
            return;
        }
        section(
            page,
            "The kernel driver",
            "In its guest, whose processor is emulated: a system call costs there what many memory accesses do, and with one \
             processor time is a count of instructions, caches left out. Only figures of this table can be compared with \
             each other.",
        );
        self.kernel.iter().for_each(|figure| {
            let _ = writeln!(page, "- {figure}");
        });
    }

    fn programs(&self, page: &mut String) {
        if self.programs.is_empty() {
            return;
        }
        section(
            page,
            "Unmodified programs",
            "The same binaries over TCP and over DP; ratio is DP / baseline.",
        );
        line(page, &report::Row::TITLES.map(|title| title.text().to_string()));
        line(page, &report::Row::TITLES.map(|_| "---".to_string()));
        for row in &self.programs {
            let cells: Vec<String> = row.cells().iter().map(|cell| cell.text().to_string()).collect();
            line(page, &cells);
        }
        for row in self.programs.iter().filter(|row| !row.notes.is_empty()) {
            let _ = write!(page, "\n- {}: {}", row.what, row.notes.join("; "));
        }
        page.push('\n');
    }

    fn missing(&self, page: &mut String) {
        section(page, "What is missing", if self.missing.is_empty() { "Nothing." } else { "" });
        for Missing { what, why } in &self.missing {
            let _ = writeln!(page, "- {what}: {why}");
        }
    }
}

const HOW: &str = "
## How it was measured

- Before and after each turn the distance of the two cores is measured, for the host of a virtual machine moves them; a turn
  in which it changed is repeated, and only turns with the same distance are compared.
- Each turn starts two processes anew, one on each core; starting and ending are not in the times, but in the CPU seconds
  of UCX.
- DP and the kernel's ways: `dp bench`. The median comes from batches of 16 round trips, percentiles from single ones, less
  what reading the clock takes (clock_gettime). Receivers of DP look all the time unless the row says asleep; those of the
  kernel's ways sleep unless the row says spinning. Read in place: every word of a message is added up where it lies.
- UCX: `ucx_perftest` over its shared-memory transports (UCX_TLS=sm), timed by the processor's counter; its percentiles
  are of the last 2048 messages of a run. Received messages are not looked at.
- Open MPI (ob1, vader) and MPICH (over UCX, UCX_TLS=sm): a program of 170 lines that does what `dp bench` does, with the
  same clock; floods are windows of 64 non-blocking messages, as in the OSU benchmarks, always the same buffer.
- libfabric: `fi_pingpong -p shm -e rdm`, which tells the mean, with two digits of microseconds.
- memcpy: one core copies one buffer to another, the same two again and again.
- POSIX message queues and datagrams end at the kernel's limits.
";

fn bandwidth(page: &mut String, view: &View, sizes: &[usize]) {
    matrix(page, view, What::Flood, Metric::Rate, sizes, |rate, size| number(rate * size as f64 / 1e9));
}

fn eight_bytes(page: &mut String, survey: &Survey) {
    line(page, &["", "p50", "over the floor", "p99", "p99.9", "messages/s"].map(String::from));
    line(page, &["---", "---:", "---:", "---:", "---:", "---:"].map(String::from));
    for system in SYSTEMS {
        let of = |metric| survey.spread(What::Latency, 8, system.key, metric);
        let rate = survey.spread(What::Flood, 8, system.key, Metric::Rate);
        let Some(middle) = of(Metric::Middle) else { continue };
        let over = survey.compare((What::Latency, 8, Metric::Middle), [system.key, "floor"], |a, b| a - b);
        let over = over.filter(|_| system.key != "floor");
        let cells = [
            system.name.to_string(),
            with_deviation(&middle, &time(middle.median)),
            over.map_or("-".into(), |over| time(over.median)),
            of(Metric::P99).map_or("-".into(), |p99| time(p99.median)),
            of(Metric::P999).map_or("-".into(), |p999| time(p999.median)),
            rate.map_or("-".into(), |rate| format!("{} M", number(rate.median / 1e6))),
        ];
        line(page, &cells);
    }
}

fn waiting(page: &mut String, survey: &Survey) {
    section(
        page,
        "Taking a message that waits (U_r)",
        "Groups of eight 8-byte messages that lie there already. Before a group the receiver has waited for a message, or it \
         comes out of the blue: then an endpoint's descriptor had to tell poll that something is there.",
    );
    line(page, &["", "after waiting", "out of the blue"].map(String::from));
    line(page, &["---", "---:", "---:"].map(String::from));
    for system in SYSTEMS {
        let of = |metric| survey.spread(What::Waiting, 8, system.key, metric);
        let shown = |spread: Spread| with_deviation(&spread, &time(spread.median));
        let Some(awaited) = of(Metric::Middle) else { continue };
        let unawaited = of(Metric::Unawaited).map_or("-".into(), shown);
        line(page, &[system.name.to_string(), shown(awaited), unawaited]);
    }
}

/// Systems by size.
fn matrix(
    page: &mut String,
    view: &View,
    what: What,
    metric: Metric,
    sizes: &[usize],
    shown: impl Fn(f64, usize) -> String,
) {
    let cell = |system: &System, size: usize| {
        let spread = view.survey.spread(what, size, system.key, metric)?;
        Some(with_deviation(&spread, &shown(spread.median, size)))
    };
    let sized = |first: &str, of: &dyn Fn(usize) -> String| {
        let mut cells = vec![first.to_string()];
        cells.extend(sizes.iter().map(|size| of(*size)));
        cells
    };
    line(page, &sized("", &bytes));
    line(page, &sized("---", &|_| "---:".into()));
    for system in SYSTEMS.iter().filter(|s| s.family != Family::Floor || what == What::Flood) {
        let cells = sized(system.name, &|size| cell(system, size).unwrap_or_else(|| "-".into()));
        if cells[1..].iter().any(|cell| cell != "-") {
            line(page, &cells);
        }
    }
}

fn with_deviation(spread: &Spread, shown: &str) -> String {
    match spread.low == spread.high {
        true => shown.to_string(),
        false => format!("{shown} {}", deviation(spread)),
    }
}

fn section(page: &mut String, title: &str, words: &str) {
    let _ = write!(page, "\n## {title}\n\n");
    if !words.is_empty() {
        let _ = write!(page, "{words}\n\n");
    }
}

fn line(page: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "/")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

/// Nanoseconds in the unit that suits them.
pub fn time(ns: f64) -> String {
    match ns.abs() {
        size if size >= 1e6 => format!("{} ms", number(ns / 1e6)),
        size if size >= 1e4 => format!("{} us", number(ns / 1e3)),
        _ => format!("{} ns", number(ns)),
    }
}

/// A length in the unit that suits it.
pub fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size % (1 << 20) == 0 => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 && size % (1 << 10) == 0 => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests;
