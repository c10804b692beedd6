//! What the gateway tells: its routes, other nodes, flows.

use dp_node::status::{Flow, Gateway, Other, Route};

use super::Counts;

const ROUTE: &[&str] = &["address", "direction"];
const NODE: &[&str] = &["node", "name"];
const NODE_ROUTE: &[&str] = &["node", "name", "address", "security"];
/// `there` names the node as well; by `node` alone flows are added up.
const FLOW: &[&str] = &["node", "here", "there"];

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Counts {
    /// All of a gateway's counts.
    pub fn gateway(&self, gateway: &Gateway) {
        let (node, pid) = (gateway.nid.to_string(), gateway.pid.to_string());
        let info = self.gauge("dp_gateway_info", "The gateway: its node and its process.", &["node", "pid"]);
        info.with_label_values(&[&node, &pid]).set(1);
        let dropped = self.counter(
            "dp_gateway_dropped_frames_total",
            "Frames that were no node's, by why: from an unknown address, unsound, or foreign (of another graph).",
            &["why"],
        );
        let why = [("unknown", gateway.unknown), ("unsound", gateway.unsound), ("foreign", gateway.foreign)];
        for (why, n) in why {
            dropped.with_label_values(&[why]).inc_by(n);
        }
        let crowded = self.counter(
            "dp_gateway_crowded_total",
            "Times that frames waited since the gateway may have no more descriptors for endpoints of their node.",
            &[],
        );
        crowded.with_label_values(&[] as &[&str]).inc_by(gateway.crowded);
        let unkept = self.counter(
            "dp_gateway_unkept_total",
            "Messages of flows for which there was no room in gateway.places; they can come twice if the gateway is killed.",
            &[],
        );
        unkept.with_label_values(&[] as &[&str]).inc_by(gateway.unkept);
        self.routes(&gateway.routes);
        self.nodes(&gateway.nodes);
        self.flows(&gateway.nodes);
    }

    fn routes(&self, routes: &[Route]) {
        let frames = self.counter("dp_route_frames_total", "Frames by a route of this node.", ROUTE);
        let bytes = self.counter("dp_route_bytes_total", "Bytes of those.", ROUTE);
        for route in routes {
            for (counter, direction, n) in [
                (&frames, "sent", route.sent),
                (&frames, "received", route.received),
                (&bytes, "sent", route.sent_bytes),
                (&bytes, "received", route.received_bytes),
            ] {
                counter.with_label_values(&[route.address.as_str(), direction]).inc_by(n);
            }
        }
    }

    fn nodes(&self, nodes: &[Other]) {
        let up = self.gauge("dp_node_up", "Whether a route to the node works.", NODE);
        let flows = self.gauge("dp_node_flows", "Flows with endpoints of the node.", NODE);
        let dropped = self.counter(
            "dp_node_dropped_frames_total",
            "Frames of the node, or for it, by why: refused, crowded (for too many flows), unsent (no route carried them).",
            &[NODE, &["why"]].concat(),
        );
        let route_up = self.gauge("dp_node_route_up", "Whether that route to the node works.", NODE_ROUTE);
        let round_trip = self.seconds(
            "dp_node_route_round_trip_seconds",
            "Round trip of the last probe that was answered.",
            NODE_ROUTE,
        );
        let longest = self.gauge(
            "dp_node_route_longest_bytes",
            "The longest packet that comes through, where that is less than the route says.",
            NODE_ROUTE,
        );
        for node in nodes {
            let (nid, name) = (node.nid.to_string(), node.name.as_deref().unwrap_or(""));
            up.with_label_values(&[&*nid, name]).set(node.by.is_some().into());
            flows.with_label_values(&[&*nid, name]).set(node.flows.len() as i64);
            for (why, n) in [("refused", node.refused), ("crowded", node.crowded), ("unsent", node.unsent)] {
                dropped.with_label_values(&[&*nid, name, why]).inc_by(n);
            }
            for route in &node.routes {
                let labels = [&*nid, name, &route.address, &route.security];
                route_up.with_label_values(&labels).set(route.alive.into());
                if let Some(bytes) = route.longest {
                    longest.with_label_values(&labels).set(bytes as i64);
                }
                if route.round_trip_ns > 0 {
                    round_trip.with_label_values(&labels).set(seconds(route.round_trip_ns));
                }
            }
        }
    }

    fn flows(&self, nodes: &[Other]) {
        let with = |label: &'static str| [FLOW, &[label]].concat();
        let info = self.gauge(
            "dp_flow_info",
            "A flow; the route by which it leaves, and its state: open, greeting, down.",
            &[FLOW, &["route", "state"]].concat(),
        );
        let round_trip = self.seconds("dp_flow_round_trip_seconds", "Smoothed round trip.", FLOW);
        let gauge = |name, help| self.gauge(name, help, FLOW);
        let gauges = [
            gauge("dp_flow_window_parts", "Parts that may be on their way."),
            gauge("dp_flow_flying_parts", "Parts that are."),
            gauge("dp_flow_room_parts", "Parts beyond those that the other end has room for."),
            gauge("dp_flow_waiting_messages", "Messages from here that are not acknowledged."),
        ];
        let messages = self.counter(
            "dp_flow_messages_total",
            "Messages sent that are acknowledged, and received that are with their receiver.",
            &with("direction"),
        );
        let frames = self.counter("dp_flow_frames_total", "Frames sent and received.", &with("direction"));
        let counter = |name, help| self.counter(name, help, FLOW);
        let counters = [
            counter("dp_flow_repeats_total", "Parts that were sent more than once."),
            counter("dp_flow_duplicates_total", "Parts that came more than once."),
            counter("dp_flow_timeouts_total", "Times that nothing was answered in time."),
            counter("dp_flow_early_timeouts_total", "Times of those that answers had only been late."),
            counter("dp_flow_refused_frames_total", "Frames that were dropped."),
            counter("dp_flow_restarts_total", "How often one side began anew."),
        ];
        self.raw(nodes);
        for (node, flow) in nodes.iter().flat_map(|node| node.flows.iter().map(move |flow| (node, flow))) {
            let nid = node.nid.to_string();
            let labels = [nid.as_str(), &flow.here, &flow.there];
            let and = |more: &'static str| [labels[0], labels[1], labels[2], more];
            let route = flow.route.as_deref().unwrap_or("");
            info.with_label_values(&[labels[0], labels[1], labels[2], route, flow.state(node)]).set(1);
            if flow.round_trip_ns > 0 {
                round_trip.with_label_values(&labels).set(seconds(flow.round_trip_ns));
            }
            for (gauge, n) in gauges.iter().zip(now(flow)) {
                gauge.with_label_values(&labels).set(n as i64);
            }
            for (counter, direction, n) in [
                (&messages, "sent", flow.messages_out),
                (&messages, "received", flow.messages_in),
                (&frames, "sent", flow.frames_out),
                (&frames, "received", flow.frames_in),
            ] {
                counter.with_label_values(&and(direction)).inc_by(n);
            }
            for (counter, n) in counters.iter().zip(so_far(flow)) {
                counter.with_label_values(&labels).inc_by(n);
            }
        }
    }
}

/// What goes without a flow.
impl Counts {
    fn raw(&self, nodes: &[Other]) {
        let with = |label: &'static str| [FLOW, &[label]].concat();
        let messages = self.counter(
            "dp_raw_messages_total",
            "Raw messages whose frames were all written here, and received ones that are with their receiver.",
            &with("direction"),
        );
        let lost = self.counter(
            "dp_raw_lost_messages_total",
            "Raw messages that were lost, by why: way (on their way to here), room (their receiver here), down (dropped here).",
            &with("why"),
        );
        let frames = self.counter("dp_raw_lost_frames_total", "Raw frames that did not come here.", FLOW);
        let all = nodes.iter().flat_map(|node| node.flows.iter().map(move |flow| (node, flow)));
        for (node, flow, raw) in all.filter_map(|(node, flow)| Some((node, flow, flow.raw?))) {
            let nid = node.nid.to_string();
            let labels = [nid.as_str(), &flow.here, &flow.there];
            let and = |more: &'static str| [labels[0], labels[1], labels[2], more];
            messages.with_label_values(&and("sent")).inc_by(raw.messages_out);
            messages.with_label_values(&and("received")).inc_by(raw.messages_in);
            lost.with_label_values(&and("way")).inc_by(raw.lost.saturating_sub(raw.no_room));
            lost.with_label_values(&and("room")).inc_by(raw.no_room);
            lost.with_label_values(&and("down")).inc_by(raw.dropped);
            frames.with_label_values(&labels).inc_by(raw.frames_lost);
        }
    }
}

/// What the gauges of a flow show, in their order.
fn now(flow: &Flow) -> [u64; 4] {
    [flow.window.into(), flow.flying.into(), flow.room.into(), flow.waiting]
}

/// What its counters do.
fn so_far(flow: &Flow) -> [u64; 6] {
    [flow.repeats, flow.again, flow.timeouts, flow.early_timeouts, flow.refused, flow.restarts]
}
