//! The counts in Prometheus' text format.

use std::collections::BTreeMap;

use prometheus::core::Collector;
use prometheus::{Encoder, GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use crate::ls::endpoints::{Edge, Endpoint};
use crate::ls::families::{Family, State};
use crate::ls::Listing;

mod nodes;

/// A family is told by its first process.
const FAMILY: &[&str] = &["program", "pid"];
const ENDPOINT: &[&str] = &["dpid", "program", "pid", "driver"];
const EDGE: &[&str] = &["from", "to"];

/// All there is to count. `complete`: endpoints could be listed. `silent`: there is a gateway that does not answer.
pub fn of(listing: &Listing, complete: bool, silent: bool) -> String {
    let counts = Counts { registry: Registry::new() };
    counts
        .gauge("dp_endpoints_listed", "Whether endpoints could be listed.", &[])
        .with_label_values(&[] as &[&str])
        .set(complete.into());
    counts.families(&listing.families);
    counts.endpoints(&listing.graph.endpoints);
    counts.edges(&listing.graph.edges);
    if listing.gateway.is_some() || silent {
        counts
            .gauge("dp_gateway_listed", "Whether the gateway of this node answers.", &[])
            .with_label_values(&[] as &[&str])
            .set((!silent).into());
    }
    listing.gateway.iter().for_each(|gateway| counts.gateway(gateway));
    let mut text = Vec::new();
    TextEncoder::new().encode(&counts.registry.gather(), &mut text).expect("memory takes it");
    String::from_utf8(text).expect("names and labels are text")
}

struct Counts {
    registry: Registry,
}

impl Counts {
    fn counter(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.keep(IntCounterVec::new(Opts::new(name, help), labels).expect("a sound name"))
    }

    fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.keep(IntGaugeVec::new(Opts::new(name, help), labels).expect("a sound name"))
    }

    fn seconds(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.keep(GaugeVec::new(Opts::new(name, help), labels).expect("a sound name"))
    }

    fn keep<T: Collector + Clone + 'static>(&self, made: T) -> T {
        self.registry.register(Box::new(made.clone())).expect("each name once");
        made
    }

    fn families(&self, families: &[Family]) {
        let with = |label: &'static str| [FAMILY, &[label]].concat();
        let info = self.gauge(
            "dp_family_info",
            "A program with the shim and what it forked; its shim's version, and whether it takes part: on, idle, disabled, unreadable.",
            &[FAMILY, &["shim", "state"]].concat(),
        );
        let processes = self.gauge("dp_family_processes", "Processes of the family that are alive.", FAMILY);
        let open = self.gauge("dp_family_connections", "Open connections by state.", &with("state"));
        let channels = self.counter("dp_family_channels_total", "Connections that became channels.", FAMILY);
        let bytes = self.counter(
            "dp_family_ring_bytes_total",
            "Bytes through rings, sent and received.",
            &with("direction"),
        );
        let bells = self.counter("dp_family_doorbells_total", "Wake-ups sent over TCP, a byte each.", FAMILY);
        let back = self.counter(
            "dp_family_hand_backs_total",
            "Times a sender went back to TCP, for a while or for good.",
            FAMILY,
        );
        let lost = self.counter(
            "dp_family_lost_wakeups_total",
            "Waits that slept over something that had come; a fault of the shim.",
            FAMILY,
        );
        let on_tcp = self.counter(
            "dp_family_tcp_connections_total",
            "Connections that stayed on TCP or went back to it for good, by reason.",
            &with("reason"),
        );
        for family in families {
            let first = &family.processes[0];
            let (program, pid) = (first.program.as_str(), first.pid.to_string());
            let labels = [program, pid.as_str()];
            let and = |more: &str| [program.to_owned(), pid.clone(), more.to_owned()];
            let state = serde_json::to_value(family.state).expect("a word");
            let shim = family.shim.as_deref().unwrap_or("");
            info.with_label_values(&[program, &pid, shim, state.as_str().unwrap_or("")]).set(1);
            processes.with_label_values(&labels).set(family.processes.len() as i64);
            // Of the others nothing is known.
            if family.state != State::On {
                continue;
            }
            let mut states: BTreeMap<&str, i64> = BTreeMap::new();
            family.connections.iter().for_each(|c| *states.entry(c.state).or_default() += 1);
            for (state, n) in states {
                open.with_label_values(&and(state)).set(n);
            }
            channels.with_label_values(&labels).inc_by(family.channels);
            bytes.with_label_values(&and("sent")).inc_by(family.tx_bytes);
            bytes.with_label_values(&and("received")).inc_by(family.rx_bytes);
            bells.with_label_values(&labels).inc_by(family.doorbells);
            back.with_label_values(&labels).inc_by(family.hand_backs);
            lost.with_label_values(&labels).inc_by(family.lost_wakeups);
            for (reason, &n) in &family.on_tcp {
                on_tcp.with_label_values(&and(reason)).inc_by(n);
            }
        }
    }

    fn endpoints(&self, endpoints: &[Endpoint]) {
        let with = [ENDPOINT, &["direction"]].concat();
        let pool = self.gauge("dp_endpoint_pool_bytes", "Bytes of the endpoint's pool.", ENDPOINT);
        let left = self.gauge(
            "dp_endpoint_pool_left_bytes",
            "Bytes of the pool that no edge or message has.",
            ENDPOINT,
        );
        let held = self.gauge(
            "dp_endpoint_held_messages",
            "Messages that the program has and did not release.",
            ENDPOINT,
        );
        let messages = self.counter("dp_endpoint_messages_total", "Messages sent and received.", &with);
        let bytes = self.counter("dp_endpoint_bytes_total", "Bytes of messages sent and received.", &with);
        for e in endpoints {
            let (dpid, pid) = (e.dpid.to_string(), e.pid.to_string());
            let labels = [dpid.as_str(), e.program.as_deref().unwrap_or(""), &pid, e.driver];
            let set = |gauge: &IntGaugeVec, n: Option<usize>| {
                if let Some(n) = n {
                    gauge.with_label_values(&labels).set(n as i64);
                }
            };
            set(&pool, e.pool_bytes);
            set(&left, e.pool_left);
            set(&held, e.held);
            for (counter, direction, n) in [
                (&messages, "sent", e.sent_messages),
                (&messages, "received", e.received_messages),
                (&bytes, "sent", e.sent_bytes),
                (&bytes, "received", e.received_bytes),
            ] {
                if let Some(n) = n {
                    counter
                        .with_label_values(&[labels[0], labels[1], labels[2], labels[3], direction])
                        .inc_by(n);
                }
            }
        }
    }

    fn edges(&self, edges: &[Edge]) {
        let waiting =
            self.gauge("dp_edge_waiting_messages", "Messages that are not with the receiver yet.", EDGE);
        let messages = self.counter("dp_edge_messages_total", "Messages that are with the receiver.", EDGE);
        let bytes = self.counter("dp_edge_bytes_total", "Bytes of those.", EDGE);
        for edge in edges {
            let labels = [edge.from.as_str(), edge.to.as_str()];
            if let Some(n) = edge.waiting {
                waiting.with_label_values(&labels).set(n as i64);
            }
            for (counter, n) in [(&messages, edge.messages), (&bytes, edge.bytes)] {
                if let Some(n) = n {
                    counter.with_label_values(&labels).inc_by(n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
