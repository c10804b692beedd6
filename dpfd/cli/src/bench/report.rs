//! What is printed: a table for people, JSON for programs.

use dp_measure::origin::{Origin, Place};
use dp_measure::printed::{self, round, Printed};
use dp_measure::stats::{median, quartile_half};
use serde::Serialize;

use super::series::{Series, Turn};
use super::{Args, What};
use crate::pair::transport::Transport;

/// The layout of what `--json` prints.
pub const VERSION: u32 = 2;

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize)]
pub struct Report {
    version: u32,
    origin: Origin,
    what: What,
    #[serde(flatten)]
    place: Place,
    seconds: f64,
    rounds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<usize>,
    /// Endpoints with the first length, in short.
    #[serde(flatten)]
    short: Short,
    results: Vec<Outcome>,
}

#[derive(Serialize, Default)]
#[serde(default)]
struct Short {
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    over_floor_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unix_dgram_messages_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times_unix_dgram: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_times_unix_seqpacket: Option<f64>,
}

/// One way with one length.
#[derive(Serialize)]
struct Outcome {
    size: usize,
    way: String,
    #[serde(skip)]
    transport: Transport,
    #[serde(flatten)]
    numbers: Numbers,
    /// CPU time of the process that sends first, and of the other one, over all turns.
    cpu_s: [f64; 2],
}

#[derive(Serialize, Clone, Copy)]
#[serde(untagged)]
enum Numbers {
    Lat {
        p50_ns: f64,
        /// Half of the distance between the quartiles of the turns' medians, as all halves here; none of one turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        p50_half_ns: Option<f64>,
        p99_ns: f64,
        p999_ns: f64,
        /// Median over the turns of the difference to the floor of the same turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        over_floor_ns: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        over_floor_half_ns: Option<f64>,
        /// Of messages that wait, where the receiver had not waited for those before.
        #[serde(skip_serializing_if = "Option::is_none")]
        unawaited_p50_ns: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        unawaited_half_ns: Option<f64>,
    },
    Flood {
        messages_per_s: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        half_messages_per_s: Option<f64>,
        bytes_per_s: f64,
        /// Over all turns, as the CPU time.
        messages: u64,
    },
}

/// All ways with one length.
pub struct Size {
    outcomes: Vec<Outcome>,
}

impl Size {
    /// Whether no way takes messages of this length.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    pub fn new(size: usize, series: Vec<Series>) -> Size {
        let floor = series.iter().find(|s| s.transport() == Transport::Floor).map(Series::p50);
        let outcome = |s: Series| {
            let cpu_s = [0, 1].map(|i| round(s.turns.iter().map(|(_, cpu)| cpu[i]).sum(), 1e3));
            Outcome {
                size,
                way: s.name().into(),
                transport: s.transport(),
                numbers: Numbers::of(&s, size, floor.as_deref()),
                cpu_s,
            }
        };
        Size { outcomes: series.into_iter().map(outcome).collect() }
    }
}

/// Half of the distance between the quartiles of turns; `None` of a single one, which says nothing of others.
pub fn half(turns: &[f64], unit: f64) -> Option<f64> {
    Some(quartile_half(turns)).filter(|half| half.is_finite()).map(|half| round(half, unit))
}

impl Numbers {
    fn of(series: &Series, size: usize, floor: Option<&[f64]>) -> Numbers {
        let medians = series.p50();
        if medians.is_empty() {
            let flood = |(turn, _): &(Turn, _)| match turn {
                Turn::Flood { rate, messages } => (*rate, *messages),
                Turn::Lat(_) => (f64::NAN, 0),
            };
            let (rates, messages): (Vec<f64>, Vec<u64>) = series.turns.iter().map(flood).unzip();
            let messages_per_s = median(&rates).round();
            let bytes_per_s = messages_per_s * size as f64;
            let (half_messages_per_s, messages) = (half(&rates, 1.0), messages.iter().sum());
            return Numbers::Flood { messages_per_s, half_messages_per_s, bytes_per_s, messages };
        }
        let over: Vec<f64> = match floor.filter(|_| series.transport() != Transport::Floor) {
            Some(floor) => medians.iter().zip(floor).map(|(ours, floor)| ours - floor).collect(),
            None => Vec::new(),
        };
        let some = |of: &[f64]| Some(median(of)).filter(|ns| ns.is_finite()).map(|ns| round(ns, 10.0));
        let unawaited = series.unawaited();
        Numbers::Lat {
            p50_ns: round(median(&medians), 10.0),
            p50_half_ns: half(&medians, 10.0),
            p99_ns: round(series.percentile(990), 10.0),
            p999_ns: round(series.percentile(999), 10.0),
            over_floor_ns: some(&over),
            over_floor_half_ns: half(&over, 10.0),
            unawaited_p50_ns: some(&unawaited),
            unawaited_half_ns: half(&unawaited, 10.0),
        }
    }
}

impl Report {
    pub fn new(args: &Args, origin: Origin, place: Place, sizes: Vec<Size>) -> Report {
        let short = sizes.first().map(|first| short(args.what, &first.outcomes)).unwrap_or_default();
        Report {
            version: VERSION,
            origin,
            what: args.what,
            place,
            seconds: args.seconds(),
            rounds: args.rounds(),
            ring: args.ring,
            short,
            results: sizes.into_iter().flat_map(|size| size.outcomes).collect(),
        }
    }

    fn row(&self, first: &str, [a, b, beside, cpu]: &[String; 4]) -> String {
        // To another node there is nothing that the routes could stand beside.
        let beside = match self.place {
            Place::Cores(_) => format!("{beside:>12}"),
            Place::Node(_) => String::new(),
        };
        format!("{first:<16}{a:>22}{b:>12}{beside}{cpu:>8}\n")
    }

    fn cells(&self, one: &Outcome) -> [String; 4] {
        let cpu = format!("{:.2}", one.cpu_s[0] + one.cpu_s[1]);
        match one.numbers {
            Numbers::Lat { p50_ns, p50_half_ns, p99_ns, over_floor_ns, unawaited_p50_ns, .. } => [
                with_half(p50_ns, p50_half_ns),
                format!("{p99_ns:.0}"),
                match (over_floor_ns, unawaited_p50_ns) {
                    (Some(ns), _) => format!("{ns:+.0}"),
                    (None, Some(ns)) => format!("{ns:.0}"),
                    (None, None) => "-".into(),
                },
                cpu,
            ],
            Numbers::Flood { messages_per_s, half_messages_per_s, bytes_per_s, .. } => {
                let endpoint =
                    self.results.iter().find(|e| e.size == one.size && e.transport == Transport::Endpoint);
                let times = match endpoint.map(|e| e.numbers) {
                    Some(Numbers::Flood { messages_per_s: ours, .. })
                        if one.transport != Transport::Endpoint =>
                    {
                        format!("{:.1}x", ours / messages_per_s)
                    }
                    _ => "-".into(),
                };
                [
                    with_half(messages_per_s, half_messages_per_s),
                    format!("{:.1}", bytes_per_s / 1e6),
                    times,
                    cpu,
                ]
            }
        }
    }
}

impl Printed for Report {
    fn text(&self) -> String {
        let turn = self.seconds / f64::from(self.rounds);
        let what = match self.what {
            What::Lat => "nanoseconds one way (half a round trip)",
            What::Waiting => "nanoseconds to take a message that waits",
            _ => "one way at full speed",
        };
        let mut text =
            format!("{what}, {}, medians of {} turns of {turn:.3} s\n", self.place.words(), self.rounds);
        let mut size = 0;
        for one in &self.results {
            if one.size != size {
                size = one.size;
                let titles = match self.what {
                    What::Lat => ["P50", "P99", "OVER FLOOR", "CPU s"],
                    What::Waiting => ["P50", "P99", "UNAWAITED", "CPU s"],
                    _ => ["MESSAGES/s", "MB/s", "ENDPOINT IS", "CPU s"],
                };
                text += &format!("\n{}", self.row(&format!("{size} bytes"), &titles.map(str::to_string)));
            }
            text += &self.row(&one.way, &self.cells(one));
        }
        text + &format!(
            "\n\u{b1}: half of what lies between the quartiles of the turns\n{}\n",
            self.origin.line()
        )
    }
}

/// A median, and how sure it is.
pub fn with_half(middle: f64, half: Option<f64>) -> String {
    format!("{middle:.0} \u{b1} {}", printed::half(half.unwrap_or(f64::NAN)))
}

fn short(what: What, outcomes: &[Outcome]) -> Short {
    let find = |is: fn(Transport) -> bool| outcomes.iter().find(|o| is(o.transport));
    let mut short = Short { size: outcomes.first().map_or(0, |o| o.size), ..Short::default() };
    let rate = |o: &Outcome| match o.numbers {
        Numbers::Flood { messages_per_s, .. } => Some(messages_per_s),
        Numbers::Lat { .. } => None,
    };
    let lat = |o: &Outcome| match o.numbers {
        Numbers::Lat { p50_ns, .. } => Some(p50_ns),
        Numbers::Flood { .. } => None,
    };
    let seqpacket = find(|transport| transport == Transport::UnixSeqpacket).and_then(lat);
    if let Some((plain, unix)) = find(|transport| transport == Transport::Plain).and_then(lat).zip(seqpacket)
    {
        short.plain_times_unix_seqpacket = Some(round(plain / unix, 100.0));
    }
    let dgram = find(|transport| transport == Transport::UnixDgram).and_then(rate);
    match find(|transport| transport == Transport::Endpoint).map(|o| o.numbers) {
        Some(Numbers::Lat { p50_ns, p99_ns, over_floor_ns, .. }) => {
            short.p50_ns = Some(p50_ns);
            short.p99_ns = Some(p99_ns);
            short.over_floor_ns = over_floor_ns;
            if let Some(Numbers::Lat { p50_ns, .. }) =
                find(|transport| transport == Transport::Floor).map(|o| o.numbers)
            {
                short.floor_ns = Some(p50_ns);
            }
        }
        Some(Numbers::Flood { messages_per_s, bytes_per_s, .. }) => {
            short.messages_per_s = Some(messages_per_s);
            short.bytes_per_s = Some(bytes_per_s);
            if what == What::Rate {
                short.unix_dgram_messages_per_s = dgram;
                short.times_unix_dgram = dgram.map(|dgram| round(messages_per_s / dgram, 100.0));
            }
        }
        None => {}
    }
    short
}
