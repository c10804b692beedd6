//! How long bytes stay in the rings of the chosen channel, as text and as JSON.

use serde_json::{json, Value};

use super::stay::Stay;
use super::table::time;
use super::watch::{Ends, Told};

/// Letters of the longest bar.
const BAR: usize = 40;

/// For people, one direction after the other.
pub fn lines(ends: Ends, told: &Told) -> Vec<String> {
    let mut lines = Vec::new();
    for (stay, (from, to)) in told.directions.iter().zip(both(ends)) {
        let waiting = stay.waiting;
        lines.push(format!("{from} -> {to}: {waiting} bytes wait"));
        lines.push(format!("  {}, {}", summary(stay), known(stay)));
        let octaves = stay.histogram.octaves();
        let most = octaves.iter().map(|octave| octave.1).max().unwrap_or(0);
        for (from, count) in octaves {
            let bar = bar(count, most, stay, BAR);
            lines.push(format!("  {} {bar}", range(from)).trim_end().to_string());
        }
    }
    lines.extend(told.over.map(|why| format!("no more is learned: {why}")));
    lines
}

/// Both directions beside each other, in so many columns and no more lines than that: then what there is least of at the
/// ends goes into one line with its neighbour.
pub fn pane(ends: Ends, told: &Told, width: usize, height: usize) -> Vec<String> {
    let [to, back] = &told.directions;
    let mut lines = vec![
        format!("-> {}  {}", ends.peer, summary(to)),
        format!("<- {}  {}", ends.peer, summary(back)),
        told.over.map_or_else(|| format!("-> {}", known(to)), |why| format!("no more is learned: {why}")),
    ];
    let mut rows = joined(&to.histogram.octaves(), &back.histogram.octaves());
    let room = height.saturating_sub(lines.len());
    let (mut low, mut high) = (false, false);
    while rows.len() > room.max(2) {
        let sum = |row: &(u64, [u64; 2])| row.1[0] + row.1[1];
        let last = rows.len() - 1;
        if sum(&rows[0]) <= sum(&rows[last]) {
            let gone = rows.remove(0);
            (0..2).for_each(|i| rows[0].1[i] += gone.1[i]);
            low = true;
        } else {
            let gone = rows.pop().expect("more than two");
            (0..2).for_each(|i| rows[last - 1].1[i] += gone.1[i]);
            high = true;
        }
    }
    let most = [0, 1].map(|i| rows.iter().map(|row| row.1[i]).max().unwrap_or(0));
    // A range, and twice an arrow and a share, with spaces between.
    let bars = (width.saturating_sub(19 + 2 * 14) / 2).min(BAR);
    let count = rows.len();
    for (n, (from, counts)) in rows.into_iter().enumerate() {
        let range = match n {
            0 if low => format!("{:>8} - {:<8}", "", time(2.0 * from as f64)),
            n if high && n + 1 == count => format!("{:>8} - {:<8}", time(from as f64), ""),
            _ => range(from),
        };
        let bar = |i: usize, stay| bar(counts[i], most[i], stay, bars);
        let line = format!("{range}  -> {:<room$}  <- {}", bar(0, to), bar(1, back), room = bars + 8);
        lines.push(line.trim_end().to_string());
    }
    lines.truncate(height);
    lines
}

/// All octaves from the first to the last of either.
fn joined(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, [u64; 2])> {
    let mut rows = Vec::new();
    let all = || a.iter().chain(b).map(|octave| octave.0);
    let (Some(first), Some(last)) = (all().min(), all().max()) else { return rows };
    let count = |of: &[(u64, u64)], at| of.iter().find(|octave| octave.0 == at).map_or(0, |octave| octave.1);
    let mut at = first;
    while at <= last {
        rows.push((at, [count(a, at), count(b, at)]));
        at *= 2;
    }
    rows
}

fn range(from: u64) -> String {
    format!("{:>8} - {:<8}", time(from as f64), time(2.0 * from as f64))
}

/// The share of all, and a bar.
fn bar(count: u64, most: u64, of: &Stay, room: usize) -> String {
    let part = 100.0 * count as f64 / of.histogram.count().max(1) as f64;
    let long = (count as f64 / most.max(1) as f64 * room as f64).ceil() as usize;
    format!("{part:>5.1} % {}", "#".repeat(long))
}

fn summary(stay: &Stay) -> String {
    let Some(mean) = stay.mean() else { return "nothing went through the ring yet".into() };
    let below = |part| stay.histogram.below(part).map_or("-".to_string(), |ns| time(ns as f64));
    format!("mean {}, half < {}, 99 % < {}, all < {}", time(mean), below(0.5), below(0.99), below(1.0))
}

/// How well it is known.
fn known(stay: &Stay) -> String {
    let (portions, unclear) = (stay.histogram.count(), stay.unclear);
    let every = time(stay.resolution().unwrap_or(0) as f64);
    format!("{portions} portions, {unclear} unclear, a look every {every}")
}

/// An object for each direction.
pub fn objects(ends: Ends, told: &Told) -> Vec<Value> {
    let object = |(stay, (from, to)): (&Stay, (String, String))| {
        let below = |part| stay.histogram.below(part);
        let octaves = stay.histogram.octaves();
        json!({
            "kind": "latency", "from": from, "to": to,
            "waiting_bytes": stay.waiting,
            "mean_ns": stay.mean(),
            "p50_ns": below(0.5), "p90_ns": below(0.9), "p99_ns": below(0.99), "most_ns": below(1.0),
            "portions": stay.histogram.count(), "unclear": stay.unclear,
            "look_every_ns": stay.resolution(),
            "histogram": octaves.iter().map(|(from, count)| json!({"from_ns": from, "portions": count})).collect::<Vec<_>>(),
            "over": told.over,
        })
    };
    told.directions.iter().zip(both(ends)).map(object).collect()
}

fn both(ends: Ends) -> [(String, String); 2] {
    let (local, peer) = (ends.local.to_string(), ends.peer.to_string());
    [(local.clone(), peer.clone()), (peer, local)]
}

#[cfg(test)]
mod tests;
