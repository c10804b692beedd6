//! Lines of the screen and of `--batch`: one for each thing that is listed, with how fast it goes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;

use super::rates::{Key, Meter, Rates, BACK, BELLS, IN, OUT, REPEATS, RX, TX};
use crate::ls::families::{Connection, Family, State};
use crate::ls::Listing;

/// What a line is of; the views of the screen, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Program,
    Connection,
    Endpoint,
    Edge,
    Route,
    Flow,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Program, Kind::Connection, Kind::Endpoint, Kind::Edge, Kind::Route, Kind::Flow];
}

/// One line. What is not known, or does not apply, is `None`.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Row {
    pub kind: Kind,
    /// Name up to 15 bytes.
    pub program: Option<String>,
    pub pid: Option<u32>,
    /// This end: an address, an endpoint, a route.
    pub from: Option<String>,
    /// The other end.
    pub to: Option<String>,
    /// As `dp ls` has it.
    pub state: String,
    pub tx_bytes_per_second: Option<f64>,
    pub rx_bytes_per_second: Option<f64>,
    pub tx_messages_per_second: Option<f64>,
    pub rx_messages_per_second: Option<f64>,
    /// Wake-ups over TCP that it sent.
    pub doorbells_per_second: Option<f64>,
    pub hand_backs_per_second: Option<f64>,
    pub repeats_per_second: Option<f64>,
    /// So far.
    pub tx_bytes: Option<u64>,
    pub rx_bytes: Option<u64>,
    /// Of a program: processes; channels and connections on TCP that are open.
    pub processes: Option<usize>,
    pub channels: Option<usize>,
    pub tcp: Option<usize>,
    /// Messages that are not with their receiver, or that the receiver holds.
    pub waiting: Option<u64>,
    /// Of a flow.
    pub round_trip_ns: Option<u64>,
    /// Why it is on TCP.
    pub reason: Option<String>,
    /// Of a program: why its connections are on TCP, or went back to it, and how many.
    pub on_tcp: Option<BTreeMap<&'static str, u64>>,
}

impl Row {
    fn new(kind: Kind, state: &str, rates: Rates) -> Row {
        Row {
            kind,
            program: None,
            pid: None,
            from: None,
            to: None,
            state: state.to_string(),
            tx_bytes_per_second: rates[TX],
            rx_bytes_per_second: rates[RX],
            tx_messages_per_second: rates[OUT],
            rx_messages_per_second: rates[IN],
            doorbells_per_second: rates[BELLS],
            hand_backs_per_second: rates[BACK],
            repeats_per_second: rates[REPEATS],
            tx_bytes: None,
            rx_bytes: None,
            processes: None,
            channels: None,
            tcp: None,
            waiting: None,
            round_trip_ns: None,
            reason: None,
            on_tcp: None,
        }
    }
}

/// All lines of what is listed, kind by kind.
pub fn all(listing: &Listing, meter: &Meter) -> Vec<Row> {
    let families = listing.families.iter();
    let mut rows: Vec<Row> = families.clone().map(|f| family(f, meter.rates(&Key::family(f)))).collect();
    for f in families {
        rows.extend(f.connections.iter().map(|c| connection(c, meter.rates(&Key::connection(c, f)))));
    }
    for e in &listing.graph.endpoints {
        rows.push(Row {
            program: e.program.clone(),
            pid: u32::try_from(e.pid).ok(),
            from: Some(e.dpid.to_string()),
            to: e.target.clone(),
            tx_bytes: e.sent_bytes,
            rx_bytes: e.received_bytes,
            waiting: e.held.map(|n| n as u64),
            ..Row::new(Kind::Endpoint, e.mode, meter.rates(&Key::Endpoint(e.dpid, e.pid, e.driver)))
        });
    }
    for e in &listing.graph.edges {
        let rates = meter.rates(&Key::Edge(e.from.clone(), e.to.clone()));
        rows.push(Row {
            from: Some(e.from.clone()),
            to: Some(e.to.clone()),
            tx_bytes: e.bytes,
            waiting: e.waiting,
            ..Row::new(Kind::Edge, e.state, rates)
        });
    }
    if let Some(gateway) = &listing.gateway {
        for route in &gateway.routes {
            rows.push(Row {
                program: None,
                pid: Some(gateway.pid),
                from: Some(route.address.clone()),
                tx_bytes: Some(route.sent_bytes),
                rx_bytes: Some(route.received_bytes),
                reason: route.remark.clone(),
                ..Row::new(Kind::Route, "open", meter.rates(&Key::Route(route.address.clone())))
            });
        }
        for (node, f) in gateway.nodes.iter().flat_map(|node| node.flows.iter().map(move |flow| (node, flow)))
        {
            rows.push(Row {
                from: Some(f.here.clone()),
                to: Some(f.there.clone()),
                waiting: Some(f.waiting),
                round_trip_ns: Some(f.round_trip_ns).filter(|&ns| ns > 0),
                ..Row::new(
                    Kind::Flow,
                    f.state(node),
                    meter.rates(&Key::Flow(f.here.clone(), f.there.clone())),
                )
            });
        }
    }
    rows
}

fn family(of: &Family, rates: Rates) -> Row {
    let first = of.processes.first();
    let in_state = |state| of.connections.iter().filter(|c| c.state == state).count();
    let known = of.state != State::Unreadable;
    let state = match of.state {
        State::On => "on",
        State::Idle => "idle",
        State::Disabled => "disabled",
        State::Unreadable => "unreadable",
    };
    let rates = if known { rates } else { Rates::default() };
    Row {
        program: first.map(|process| process.program.clone()),
        pid: first.map(|process| process.pid),
        tx_bytes: known.then_some(of.tx_bytes),
        rx_bytes: known.then_some(of.rx_bytes),
        processes: Some(of.processes.len()),
        channels: known.then(|| in_state("channel")),
        tcp: known.then(|| of.connections.len() - in_state("channel")),
        on_tcp: known.then(|| of.on_tcp.clone()),
        ..Row::new(Kind::Program, state, rates)
    }
}

fn connection(of: &Connection, rates: Rates) -> Row {
    Row {
        program: Some(of.program.clone()),
        pid: Some(of.pid),
        from: Some(of.local.to_string()),
        to: Some(of.peer.to_string()),
        tx_bytes: Some(of.tx_bytes),
        rx_bytes: Some(of.rx_bytes),
        reason: of.reason.map(str::to_string),
        ..Row::new(Kind::Connection, of.state, rates)
    }
}

/// By what lines stand in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Bytes a second both ways; where these are not known or equal, messages.
    Rate,
    /// Bytes a second that it sends.
    Tx,
    /// Bytes a second that it receives.
    Rx,
    /// Messages a second both ways.
    Messages,
    /// Wake-ups over TCP a second.
    Bells,
    /// Bytes so far, both ways.
    Total,
    /// Messages that wait.
    Waiting,
    /// The program's name.
    Program,
    /// The process's number.
    Pid,
    /// Its state, then the reason to be on TCP.
    State,
}

impl Sort {
    /// In the order of the keys < and >.
    pub fn next(self, back: bool) -> Sort {
        let all = Sort::value_variants();
        let at = all.iter().position(|&one| one == self).unwrap_or(0);
        all[(at + if back { all.len() - 1 } else { 1 }) % all.len()]
    }

    pub fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// The most, or the first of names, before others; equal ones as they were.
    fn order(self, a: &Row, b: &Row) -> Ordering {
        let most = |of: &dyn Fn(&Row) -> Option<f64>| {
            let value = |row| of(row).unwrap_or(-1.0);
            value(b).total_cmp(&value(a))
        };
        let sum = |a: Option<f64>, b: Option<f64>| a.or(b).map(|_| a.unwrap_or(0.0) + b.unwrap_or(0.0));
        let count = |n: Option<u64>| n.map(|n| n as f64);
        let messages = |row: &Row| sum(row.tx_messages_per_second, row.rx_messages_per_second);
        match self {
            Sort::Rate => most(&|row| sum(row.tx_bytes_per_second, row.rx_bytes_per_second))
                .then_with(|| most(&messages)),
            Sort::Tx => most(&|row| row.tx_bytes_per_second),
            Sort::Rx => most(&|row| row.rx_bytes_per_second),
            Sort::Messages => most(&messages),
            Sort::Bells => most(&|row| row.doorbells_per_second),
            Sort::Total => most(&|row| sum(count(row.tx_bytes), count(row.rx_bytes))),
            Sort::Waiting => most(&|row| count(row.waiting)),
            Sort::Program => a.program.cmp(&b.program),
            Sort::Pid => a.pid.cmp(&b.pid),
            Sort::State => (&a.state, &a.reason).cmp(&(&b.state, &b.reason)),
        }
    }
}

/// Puts lines in order, kinds apart.
pub fn sort(rows: &mut [Row], by: Sort, reverse: bool) {
    rows.sort_by(|a, b| {
        let order = by.order(a, b);
        a.kind.cmp(&b.kind).then(if reverse { order.reverse() } else { order })
    });
}

#[cfg(test)]
mod tests;
