//! The listing as people read it: endpoints, their edges, connections, then a line a family.

use super::endpoints::{Edge, Endpoint};
use super::families::{Connection, Family, State};
use super::Listing;

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

/// The tables that have lines; the empty string when there is nothing to list.
pub fn text(listing: &Listing) -> String {
    let mut tables = Vec::new();
    let endpoints: Vec<_> = listing.graph.endpoints.iter().map(endpoint).collect();
    if !endpoints.is_empty() {
        tables.push(table(&ENDPOINTS, &endpoints));
    }
    let edges: Vec<_> = listing.graph.edges.iter().map(edge).collect();
    if !edges.is_empty() {
        tables.push(table(&EDGES, &edges));
    }
    if !listing.families.is_empty() {
        let connections: Vec<_> =
            listing.families.iter().flat_map(|f| &f.connections).map(connection).collect();
        if !connections.is_empty() {
            tables.push(table(&CONNECTIONS, &connections));
        }
        tables.push(table(&FAMILIES, &listing.families.iter().map(family).collect::<Vec<_>>()));
    }
    tables.join("\n")
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_string(), |v| v.to_string())
}

fn endpoint(of: &Endpoint) -> [String; 13] {
    [
        of.dpid.to_string(),
        printable(of.program.as_deref().unwrap_or("")),
        of.pid.to_string(),
        of.driver.to_string(),
        of.mode.to_string(),
        or_dash(of.target.as_ref()),
        or_dash(of.pool_bytes),
        or_dash(of.pool_left),
        or_dash(of.held),
        or_dash(of.sent_messages),
        or_dash(of.sent_bytes),
        or_dash(of.received_messages),
        or_dash(of.received_bytes),
    ]
}

fn edge(of: &Edge) -> [String; 6] {
    [
        of.from.clone(),
        of.to.clone(),
        of.state.word().to_string(),
        or_dash(of.waiting),
        or_dash(of.messages),
        or_dash(of.bytes),
    ]
}

fn connection(of: &Connection) -> [String; 8] {
    [
        printable(&of.program),
        of.pid.to_string(),
        of.local.to_string(),
        of.peer.to_string(),
        of.state.to_string(),
        of.tx_bytes.to_string(),
        of.rx_bytes.to_string(),
        of.reason.unwrap_or("-").to_string(),
    ]
}

fn family(of: &Family) -> [String; 9] {
    let first = of.processes.first();
    let counts: Vec<String> = of.on_tcp.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let known = |n: u64| if of.state == State::Unreadable { "?".to_string() } else { n.to_string() };
    [
        first.map(|process| printable(&process.program)).unwrap_or_default(),
        first.map(|process| process.pid.to_string()).unwrap_or_default(),
        match of.state {
            State::Disabled => "off".to_string(),
            _ => of.shim.as_deref().map_or("?".to_string(), printable),
        },
        of.processes.len().to_string(),
        known(of.channels),
        known(of.tx_bytes),
        known(of.rx_bytes),
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
