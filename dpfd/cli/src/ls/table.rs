//! The listing as people read it: endpoints, their edges, other nodes, flows with their endpoints, connections, then a line a
//! family.

use dp_node::status::{Flow, Other, Raw};

use super::endpoints::{Edge, Endpoint};
use super::families::{Connection, Family, State};
use super::Listing;

use humansize::{format_size, BINARY};

const CONNECTIONS: [Column; 8] = [
    Column::left("PROGRAM"),
    Column::right("PID"),
    Column::left("LOCAL"),
    Column::left("PEER"),
    Column::left("STATE"),
    Column::right("TX"),
    Column::right("RX"),
    Column::left("REASON"),
];

const FAMILIES: [Column; 9] = [
    Column::left("PROGRAM"),
    Column::right("PID"),
    Column::left("SHIM"),
    Column::right("PROCESSES"),
    Column::right("CHANNELS"),
    Column::right("TX"),
    Column::right("RX"),
    Column::right("BACK"),
    Column::left("ON TCP"),
];

const ENDPOINTS: [Column; 13] = [
    Column::right("DPID"),
    Column::left("PROGRAM"),
    Column::right("PID"),
    Column::left("DRIVER"),
    Column::left("MODE"),
    Column::right("TARGET"),
    Column::right("POOL"),
    Column::right("LEFT"),
    Column::right("HELD"),
    Column::right("SENT"),
    Column::right("BYTES"),
    Column::right("RECEIVED"),
    Column::right("BYTES"),
];

const EDGES: [Column; 6] = [
    Column::right("FROM"),
    Column::right("TO"),
    Column::left("STATE"),
    Column::right("WAITING"),
    Column::right("MESSAGES"),
    Column::right("BYTES"),
];

const NODES: [Column; 8] = [
    Column::right("NODE"),
    Column::left("NAME"),
    Column::left("STATE"),
    Column::left("BY"),
    Column::right("ROUND TRIP"),
    Column::right("FLOWS"),
    Column::right("REFUSED"),
    Column::right("UNSENT"),
];

const FLOWS: [Column; 12] = [
    Column::right("HERE"),
    Column::right("THERE"),
    Column::left("STATE"),
    Column::right("ROUND TRIP"),
    Column::right("WINDOW"),
    Column::right("FLYING"),
    Column::right("WAITING"),
    Column::right("SENT"),
    Column::right("RECEIVED"),
    Column::right("REPEATS"),
    Column::right("LOSS"),
    Column::right("RESTARTS"),
];

const RAW: [Column; 8] = [
    Column::right("HERE"),
    Column::right("THERE"),
    Column::right("SENT RAW"),
    Column::right("DROPPED"),
    Column::right("RECEIVED"),
    Column::right("LOST"),
    Column::right("NO ROOM"),
    Column::right("FRAMES LOST"),
];

struct Column {
    title: &'static str,
    right: bool,
}

impl Column {
    const fn left(title: &'static str) -> Column {
        Column { title, right: false }
    }
    const fn right(title: &'static str) -> Column {
        Column { title, right: true }
    }
}

/// Bytes as they are written: exactly, or for people.
#[derive(Clone, Copy)]
pub struct Bytes {
    exactly: bool,
}

impl Bytes {
    pub const FOR_PEOPLE: Bytes = Bytes { exactly: false };

    pub fn of(self, n: u64) -> String {
        // Below that people read a number as quickly.
        const SHORT: u64 = 10 * 1024;
        if self.exactly || n < SHORT {
            n.to_string()
        } else {
            format_size(n, BINARY.space_after_value(false).decimal_places(1))
        }
    }

    fn or_dash(self, n: Option<u64>) -> String {
        or_dash(n.map(|n| self.of(n)))
    }
}

/// The tables that have lines; the empty string when there is nothing to list.
pub fn text(listing: &Listing, exactly: bool) -> String {
    let bytes = Bytes { exactly };
    let mut tables = Vec::new();
    let endpoints: Vec<_> = listing.graph.endpoints.iter().map(|of| endpoint(of, bytes)).collect();
    if !endpoints.is_empty() {
        tables.push(table(&ENDPOINTS, &endpoints));
    }
    let edges: Vec<_> = listing.graph.edges.iter().map(|of| edge(of, bytes)).collect();
    if !edges.is_empty() {
        tables.push(table(&EDGES, &edges));
    }
    if let Some(gateway) = &listing.gateway {
        tables.push(table(&NODES, &gateway.nodes.iter().map(node).collect::<Vec<_>>()));
        let all = || gateway.nodes.iter().flat_map(|node| node.flows.iter().map(move |of| (of, node)));
        let flows = all().filter(|(of, _)| !of.is_raw_alone()).map(|(of, node)| flow(of, node));
        let flows: Vec<_> = flows.collect();
        if !flows.is_empty() {
            tables.push(table(&FLOWS, &flows));
        }
        let raw: Vec<_> = all().filter_map(|(of, _)| Some(raw(of, of.raw?))).collect();
        if !raw.is_empty() {
            tables.push(table(&RAW, &raw));
        }
    }
    if !listing.families.is_empty() {
        let connections: Vec<_> =
            listing.families.iter().flat_map(|f| &f.connections).map(|of| connection(of, bytes)).collect();
        if !connections.is_empty() {
            tables.push(table(&CONNECTIONS, &connections));
        }
        let families: Vec<_> = listing.families.iter().map(|of| family(of, bytes)).collect();
        tables.push(table(&FAMILIES, &families));
    }
    tables.join("\n")
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_string(), |v| v.to_string())
}

fn endpoint(of: &Endpoint, bytes: Bytes) -> [String; 13] {
    [
        of.dpid.to_string(),
        printable(of.program.as_deref().unwrap_or("")),
        of.pid.to_string(),
        of.driver.to_string(),
        of.mode.to_string(),
        or_dash(of.target.as_ref()),
        bytes.or_dash(of.pool_bytes.map(|n| n as u64)),
        bytes.or_dash(of.pool_left.map(|n| n as u64)),
        or_dash(of.held),
        or_dash(of.sent_messages),
        bytes.or_dash(of.sent_bytes),
        or_dash(of.received_messages),
        bytes.or_dash(of.received_bytes),
    ]
}

fn edge(of: &Edge, bytes: Bytes) -> [String; 6] {
    [
        of.from.clone(),
        of.to.clone(),
        of.state.to_string(),
        or_dash(of.waiting),
        or_dash(of.messages),
        bytes.or_dash(of.bytes),
    ]
}

fn node(of: &Other) -> [String; 8] {
    let by = of.by.as_deref();
    let round_trip =
        of.routes.iter().find(|way| Some(&*way.address) == by).map_or(0, |way| way.round_trip_ns);
    [
        of.nid.to_string(),
        printable(of.name.as_deref().unwrap_or("")),
        if by.is_some() { "up" } else { "down" }.to_string(),
        by.unwrap_or("-").to_string(),
        time(round_trip),
        of.flows.len().to_string(),
        (of.refused + of.crowded).to_string(),
        of.unsent.to_string(),
    ]
}

fn flow(of: &Flow, with: &Other) -> [String; 12] {
    // Of what was sent; what was repeated though it had not been lost counts as well.
    let loss = of.repeats as f64 * 100.0 / of.frames_out.max(1) as f64;
    [
        of.here.clone(),
        of.there.clone(),
        of.state(with).to_string(),
        time(of.round_trip_ns),
        of.window.to_string(),
        of.flying.to_string(),
        of.waiting.to_string(),
        of.messages_out.to_string(),
        of.messages_in.to_string(),
        of.repeats.to_string(),
        format!("{loss:.1} %"),
        of.restarts.to_string(),
    ]
}

fn raw(of: &Flow, raw: Raw) -> [String; 8] {
    let [sent, dropped, received, lost, no_room, frames] =
        [raw.messages_out, raw.dropped, raw.messages_in, raw.lost, raw.no_room, raw.frames_lost]
            .map(|n| n.to_string());
    [of.here.clone(), of.there.clone(), sent, dropped, received, lost, no_room, frames]
}

fn time(ns: u64) -> String {
    match ns {
        0 => "-".to_string(),
        ns if ns < 10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        ns => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

fn connection(of: &Connection, bytes: Bytes) -> [String; 8] {
    [
        printable(&of.program),
        of.pid.to_string(),
        of.local.to_string(),
        of.peer.to_string(),
        of.state.to_string(),
        bytes.of(of.tx_bytes),
        bytes.of(of.rx_bytes),
        of.reason.unwrap_or("-").to_string(),
    ]
}

fn family(of: &Family, bytes: Bytes) -> [String; 9] {
    let first = of.processes.first();
    let counts: Vec<String> = of.on_tcp.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let or_unknown = |text: String| if of.state == State::Unreadable { "?".to_string() } else { text };
    let known = |n: u64| or_unknown(n.to_string());
    [
        first.map(|process| printable(&process.program)).unwrap_or_default(),
        first.map(|process| process.pid.to_string()).unwrap_or_default(),
        match of.state {
            State::Disabled => "off".to_string(),
            _ => of.shim.as_deref().map_or("?".to_string(), printable),
        },
        of.processes.len().to_string(),
        known(of.channels),
        or_unknown(bytes.of(of.tx_bytes)),
        or_unknown(bytes.of(of.rx_bytes)),
        known(of.hand_backs),
        match of.state {
            State::Unreadable => "?".to_string(),
            _ if counts.is_empty() => "-".to_string(),
            _ => counts.join(", "),
        },
    ]
}

/// A program gives itself its name; it must not be able to steer the terminal, or to add columns.
pub fn printable(name: &str) -> String {
    if name.is_empty() {
        return "-".to_string();
    }
    name.chars().map(|c| if c.is_control() || c.is_whitespace() { '?' } else { c }).collect()
}

fn table<const N: usize>(columns: &[Column; N], rows: &[[String; N]]) -> String {
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(|i| width(i).max(columns[i].title.len()));
    let titles: [String; N] = std::array::from_fn(|i| columns[i].title.to_string());
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let width = widths[i];
            let cell = if columns[i].right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str(&cell);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
