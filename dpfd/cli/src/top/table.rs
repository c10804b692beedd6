//! Lines as text: which columns each kind has, and which of them go where there is no room.

use super::rows::{Kind, Row};
use crate::ls::table::{printable, Bytes};

/// A column: its title, whether numbers stand at its right end, how long it is kept where there is no room (9: always),
/// and what a line has there.
pub struct Column {
    title: &'static str,
    right: bool,
    keep: u8,
    cell: fn(&Row) -> String,
}

const fn left(title: &'static str, keep: u8, cell: fn(&Row) -> String) -> Column {
    Column { title, right: false, keep, cell }
}

const fn right(title: &'static str, keep: u8, cell: fn(&Row) -> String) -> Column {
    Column { title, right: true, keep, cell }
}

const PROGRAM: Column = left("PROGRAM", 9, |row| printable(row.program.as_deref().unwrap_or("")));
const PID: Column = right("PID", 8, |row| or_dash(row.pid));
const STATE: Column = left("STATE", 5, |row| row.state.clone());
const TX_RATE: Column = right("TX/s", 9, |row| bytes_a_second(row.tx_bytes_per_second));
const RX_RATE: Column = right("RX/s", 9, |row| bytes_a_second(row.rx_bytes_per_second));
const TX: Column = right("TX", 2, |row| bytes(row.tx_bytes));
const RX: Column = right("RX", 2, |row| bytes(row.rx_bytes));
const BELLS: Column = right("BELLS/s", 4, |row| rate(row.doorbells_per_second));
const BACK: Column = right("BACK/s", 1, |row| rate(row.hand_backs_per_second));
const OUT: Column = right("OUT/s", 7, |row| rate(row.tx_messages_per_second));
const IN: Column = right("IN/s", 7, |row| rate(row.rx_messages_per_second));
const WAITING: Column = right("WAITING", 3, |row| or_dash(row.waiting));

/// A text that somebody else wrote: a gateway, a program.
fn foreign(text: Option<&String>) -> String {
    text.map_or("-".to_string(), |text| text.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

const PROGRAMS: [Column; 11] = [
    PROGRAM,
    PID,
    right("PROCESSES", 2, |row| or_dash(row.processes)),
    right("CHANNELS", 7, |row| or_dash(row.channels)),
    right("TCP", 6, |row| or_dash(row.tcp)),
    TX_RATE,
    RX_RATE,
    BELLS,
    TX,
    RX,
    left("ON TCP", 3, on_tcp),
];

const CONNECTIONS: [Column; 11] = [
    PROGRAM,
    PID,
    left("LOCAL", 6, |row| foreign(row.from.as_ref())),
    left("PEER", 7, |row| foreign(row.to.as_ref())),
    left("STATE", 9, |row| row.reason.clone().unwrap_or_else(|| row.state.clone())),
    TX_RATE,
    RX_RATE,
    BELLS,
    BACK,
    TX,
    RX,
];

const ENDPOINTS: [Column; 12] = [
    right("DPID", 9, |row| foreign(row.from.as_ref())),
    PROGRAM,
    PID,
    left("MODE", 3, |row| row.state.clone()),
    right("TARGET", 4, |row| foreign(row.to.as_ref())),
    OUT,
    IN,
    TX_RATE,
    RX_RATE,
    right("HELD", 3, |row| or_dash(row.waiting)),
    right("TX", 1, |row| bytes(row.tx_bytes)),
    right("RX", 1, |row| bytes(row.rx_bytes)),
];

const EDGES: [Column; 7] = [
    right("FROM", 9, |row| foreign(row.from.as_ref())),
    right("TO", 9, |row| foreign(row.to.as_ref())),
    STATE,
    WAITING,
    OUT,
    right("BYTES/s", 9, |row| bytes_a_second(row.tx_bytes_per_second)),
    right("BYTES", 2, |row| bytes(row.tx_bytes)),
];

const ROUTES: [Column; 8] = [
    left("ROUTE", 9, |row| foreign(row.from.as_ref())),
    right("FRAMES OUT/s", 6, |row| rate(row.tx_messages_per_second)),
    right("IN/s", 6, |row| rate(row.rx_messages_per_second)),
    TX_RATE,
    RX_RATE,
    TX,
    RX,
    left("REMARK", 1, |row| foreign(row.reason.as_ref())),
];

const FLOWS: [Column; 8] = [
    right("HERE", 9, |row| foreign(row.from.as_ref())),
    right("THERE", 9, |row| foreign(row.to.as_ref())),
    STATE,
    right("ROUND TRIP", 4, |row| row.round_trip_ns.map_or("-".to_string(), |ns| time(ns as f64))),
    OUT,
    IN,
    right("REPEATS/s", 4, |row| rate(row.repeats_per_second)),
    WAITING,
];

fn columns(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Program => &PROGRAMS,
        Kind::Connection => &CONNECTIONS,
        Kind::Endpoint => &ENDPOINTS,
        Kind::Edge => &EDGES,
        Kind::Route => &ROUTES,
        Kind::Flow => &FLOWS,
    }
}

/// A head and a line for each row, all of `kind`; no wider than `width` if columns can be left out for that.
pub fn lines(kind: Kind, rows: &[&Row], width: Option<usize>) -> Vec<String> {
    let columns = columns(kind);
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row)).collect()).collect();
    let long = |text: &str| text.chars().count();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| cells.iter().map(|row| long(&row[i])).max().unwrap_or(0).max(long(column.title)))
        .collect();
    let kept = fit(columns, &widths, width);
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_string()).collect();
    let line = |row: &Vec<String>| {
        let cell = |&i: &usize| {
            let (text, width) = (&row[i], widths[i]);
            if columns[i].right {
                format!("{text:>width$}")
            } else {
                format!("{text:<width$}")
            }
        };
        kept.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    std::iter::once(&titles).chain(&cells).map(line).collect()
}

/// The columns that there is room for: those to be kept least go first, the right one of two before the left.
fn fit(columns: &[Column], widths: &[usize], width: Option<usize>) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let needed = |kept: &[usize]| kept.iter().map(|&i| widths[i]).sum::<usize>() + 2 * (kept.len() - 1);
    while width.is_some_and(|width| needed(&kept) > width) {
        let goes = kept.iter().copied().filter(|&i| columns[i].keep < 9);
        let Some(goes) = goes.min_by_key(|&i| (columns[i].keep, std::cmp::Reverse(i))) else { break };
        kept.retain(|&i| i != goes);
    }
    kept
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}

fn bytes(n: Option<u64>) -> String {
    n.map_or("-".to_string(), |n| Bytes::FOR_PEOPLE.of(n))
}

/// Of something that hardly moves less than one, which is not nothing.
pub fn bytes_a_second(rate: Option<f64>) -> String {
    rate.map_or("-".to_string(), |rate| Bytes::FOR_PEOPLE.of(rate.ceil() as u64))
}

/// Calls, messages: whole ones from ten on.
fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_string(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// Nanoseconds as people read them.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

fn on_tcp(row: &Row) -> String {
    let counts = row.on_tcp.iter().flatten().map(|(reason, count)| format!("{count} {reason}"));
    let told = counts.collect::<Vec<_>>().join(", ");
    if told.is_empty() {
        "-".to_string()
    } else {
        told
    }
}

#[cfg(test)]
mod tests;
