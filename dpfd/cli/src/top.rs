//! `dp top`: how fast programs, channels, endpoints and flows go, again and again.
//!
//! | file | holds |
//! |---|---|
//! | [`rates`] | how fast counters go, and when one that goes back is another thing's |
//! | [`rows`], [`table`] | a line for each thing; as text in columns |
//! | [`stay`], [`watch`], [`latency`] | how long bytes stay in a channel: the reckoning, who looks, as text |
//! | [`batch`] | without a terminal |
//! | [`screen`] | on one: [`keys`] is what they do, [`draw`] the picture, [`terminal`] what is taken and given back, [`looker`] looks meanwhile |

mod batch;
mod draw;
mod keys;
mod latency;
mod looker;
mod rates;
mod rows;
mod screen;
mod stay;
mod table;
mod terminal;
mod watch;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::ls::filter::Filter;
use crate::ls::{flows, Listing};
use rates::Meter;
use rows::{Kind, Row, Sort};
use watch::{Ends, Told, Watch};

/// Show how fast programs, channels, endpoints and flows go.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    filter: Filter,
    /// Seconds from one look to the next.
    #[arg(long, short = 'd', value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// By what lines are sorted.
    #[arg(long, value_enum, default_value = "rate")]
    sort: Sort,
    /// The other way round.
    #[arg(long)]
    reverse: bool,
    /// What to begin with; with --batch, the only one that is printed.
    #[arg(long, value_enum)]
    view: Option<Kind>,
    /// Follow how long bytes stay in the channel that has this end.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::rules::explain::address)]
    latency: Option<SocketAddr>,
    /// Print text instead, this many times, or until it is interrupted.
    #[arg(long, short = 'b', value_name = "N", num_args = 0..=1, value_parser = times)]
    batch: Option<Option<NonZeroU64>>,
    /// With --batch: print a JSON object in a line for each program, connection, endpoint, edge, route and flow.
    #[arg(long, requires = "batch")]
    json_lines: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    crate::seconds(text)
        .ok()
        .filter(|time| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(time))
        .ok_or_else(|| "a number of seconds from 0.1 to 3600, decimals allowed".into())
}

fn times(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| "a number of times, from 1 on".into())
}

pub fn main(args: Args) -> ExitCode {
    if let Err(code) = crate::check_environment("top") {
        return code;
    }
    match args.batch {
        Some(looks) => batch::run(&args, looks.map(NonZeroU64::get)),
        None => screen::run(args),
    }
}

/// What there is at a moment, and how fast it goes.
#[derive(Default)]
pub struct Look {
    listing: Listing,
    meter: std::sync::Arc<Meter>,
    unix_seconds: f64,
    /// What is missing, in words.
    said: Vec<String>,
    latency: Option<(Ends, Told)>,
}

impl Look {
    /// The lines that `filter` leaves.
    fn rows(&self, filter: &Filter, by: Sort, reverse: bool) -> Vec<Row> {
        let mut listing = self.listing.clone();
        filter.apply(&mut listing);
        let mut rows = rows::all(&listing, &self.meter);
        rows::sort(&mut rows, by, reverse);
        rows
    }
}

/// Whoever looks: remembers what it saw.
pub struct Eye {
    start: Instant,
    meter: Meter,
    wanted: Option<SocketAddr>,
    /// Whether another channel of that end is followed where this one is over: the end was named, and no line was chosen.
    any: bool,
    watch: Option<Watch>,
}

impl Eye {
    pub fn new(latency: Option<SocketAddr>) -> Eye {
        Eye { start: Instant::now(), meter: Meter::default(), wanted: latency, any: true, watch: None }
    }

    /// Looks at everything.
    ///
    /// # Errors
    ///
    /// When /proc cannot be listed; in words.
    pub fn look(&mut self) -> Result<Look, String> {
        let (mut listing, missing) = Listing::look()?;
        let mut said: Vec<String> =
            missing.map(|why| format!("{why}; endpoints are not listed")).into_iter().collect();
        match flows::ask() {
            Ok(gateway) => listing.gateway = gateway,
            Err(why) => said.push(why),
        }
        said.extend(listing.graph.gaps());
        self.meter.look(&listing, self.start.elapsed());
        self.follow(&listing, &mut said);
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let latency = self.watch.as_ref().map(|watch| (watch.ends, watch.told()));
        let meter = std::sync::Arc::new(self.meter.clone());
        Ok(Look { listing, meter, unix_seconds, said, latency })
    }

    /// Chooses a channel to follow; none: no more.
    pub fn choose(&mut self, end: Option<SocketAddr>) {
        self.wanted = end;
        self.any = false;
        self.watch = None;
    }

    /// Begins to look at the channel that was chosen, once it is there.
    fn follow(&mut self, listing: &Listing, said: &mut Vec<String>) {
        let over = self.watch.as_ref().is_some_and(|watch| watch.told().over.is_some());
        let free = self.watch.is_none() || self.any && over;
        let Some(wanted) = self.wanted.filter(|_| free) else { return };
        let channels =
            listing.families.iter().flat_map(|family| &family.connections).filter(|c| c.state == "channel");
        // Of a server's own address all of its channels are; one of them stands for them.
        let found = channels
            .filter(|c| c.local == wanted || c.peer == wanted)
            .max_by_key(|c| (c.local == wanted, c.tx_bytes + c.rx_bytes));
        match found {
            Some(c) => {
                let ends = Ends { local: c.local, peer: c.peer };
                self.watch = Some(Watch::start(&listing.families, ends));
            }
            // What was seen of the one that is over stays.
            None if over => {}
            None => said.push(format!("no channel has the end {wanted}; dp ls --state channel lists them")),
        }
    }
}

/// One line for all: sums over what is shown.
fn head(look: &Look, rows: &[Row]) -> String {
    let of = |kind| rows.iter().filter(move |row| row.kind == kind);
    let sum = |of: &dyn Fn(&Row) -> Option<usize>| rows.iter().filter_map(of).sum::<usize>();
    let rate = |of: &dyn Fn(&Row) -> Option<f64>| {
        let known: Vec<f64> = rows.iter().filter(|row| row.kind == Kind::Program).filter_map(of).collect();
        table::bytes_a_second((!known.is_empty()).then(|| known.iter().sum()))
    };
    let mut parts = vec![
        format!("{} programs", of(Kind::Program).count()),
        format!("{} channel ends", sum(&|row| row.channels)),
        format!("{} on TCP", sum(&|row| row.tcp)),
        format!("{}/s sent", rate(&|row| row.tx_bytes_per_second)),
    ];
    for (kind, name) in [(Kind::Endpoint, "endpoints"), (Kind::Flow, "flows")] {
        let count = of(kind).count();
        if count > 0 {
            parts.push(format!("{count} {name}"));
        }
    }
    format!("{}  {}", clock(look.unix_seconds), parts.join(", "))
}

/// Time of the day, UTC as far as nothing else is known without a C library's tables.
fn clock(unix_seconds: f64) -> String {
    let seconds = unix_seconds as u64 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
