//! Another node behind this node's gateway: which one is measured, by which of its routes, and whether messages go by those.
//!
//! A route that is named and does not work is replaced by the next one, so what was measured is looked up in the gateway's
//! flows, before a turn and behind it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use dp_node::status::{Flow, Gateway, Other};
use dpfd::addr::OWN_NID;
use dpfd::{Addr, Dpid, Nid};

use super::line::Line;
use super::peer::Peer;
use super::{finish, progress, Result};
use crate::ls::flows;

/// Where `dp bench serve` is, unless it is told another number.
pub const SERVE: Dpid = 1990;
/// How long this node's gateway may take to answer: on a busy machine it is not its turn at once.
const ANSWER: Duration = Duration::from_secs(5);
/// The folder of the gateway that dp-node.service runs.
const OF_THE_UNIT: &str = "/run/dp";

/// Another node behind this one's gateway, on the command line. For one behind the kernel driver see
/// [`OtherNode`](super::nodes::OtherNode).
#[derive(clap::Args)]
pub struct FarNode {
    /// Measure the routes to this node, where `dp bench serve` runs, and not this machine.
    #[arg(long, value_name = "NID[/DPID]", value_parser = place, conflicts_with_all = ["ways", "cores"])]
    node: Option<Addr>,
    /// Routes to that node, measured side by side [default: all that work].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "node")]
    route: Vec<String>,
}

fn place(text: &str) -> std::result::Result<Addr, String> {
    let addr = if text.contains('/') { text.to_string() } else { format!("{text}/{SERVE}") };
    let wrong = || format!("a node, as in 2, or with the number of dp bench serve there, as in 2/{SERVE}");
    addr.parse().map_err(|_| wrong())
}

/// Why nothing can be measured.
enum Wrong {
    /// The command line names what is not there.
    Asked(String),
    /// It could be there.
    Failed(String),
}

impl FarNode {
    /// The node, if one is named: this node's gateway knows it, and those routes to it. If not, the verb says why, and ends with
    /// this status.
    pub fn look(&self, verb: &str) -> std::result::Result<Option<Far>, ExitCode> {
        let Some(at) = self.node else { return Ok(None) };
        crate::check_environment(verb)?;
        match gateway().map_err(Wrong::Failed).and_then(|gateway| self.known(at, &gateway)) {
            Ok(far) => Ok(Some(far)),
            Err(Wrong::Asked(why)) => crate::asked(Err(why)),
            Err(Wrong::Failed(why)) => Err(finish(verb, Err(why.into()))),
        }
    }

    /// Whether one is named.
    pub fn is_named(&self) -> bool {
        self.node.is_some()
    }

    fn known(&self, at: Addr, gateway: &Gateway) -> std::result::Result<Far, Wrong> {
        let nid = at.nid;
        if nid == gateway.nid {
            let why =
                format!("node {nid} is this one: name another, or leave --node out to measure one machine");
            return Err(Wrong::Asked(why));
        }
        let Some(node) = gateway.nodes.iter().find(|node| node.nid == nid) else {
            let others: Vec<_> = gateway.nodes.iter().map(|node| node.nid.to_string()).collect();
            let others = if others.is_empty() { "no other".into() } else { others.join(", ") };
            return Err(Wrong::Asked(format!(
                "node {nid} is not in the graph that the gateway of this node was started with; it has {others}"
            )));
        };
        let all = routes_of(node);
        if let Some(name) = self.route.iter().find(|name| !all.contains(*name)) {
            let all = all.join(", ");
            return Err(Wrong::Asked(format!(
                "no route {name:?} leads to node {nid}; by the graph these do: {all}"
            )));
        }
        let by_name = !self.route.is_empty();
        let routes = if by_name { each_once(self.route.iter().map(String::as_str)) } else { all };
        Ok(Far { at, routes, by_name })
    }
}

/// What this node's gateway tells.
///
/// # Errors
///
/// None runs, or it does not answer, or programs here take themselves for another node's; in words.
pub fn gateway() -> std::result::Result<Gateway, String> {
    let gateway = flows::ask_within(ANSWER)?.ok_or_else(|| {
        let way_out = if Gateway::runs_in(Path::new(OF_THE_UNIT)) {
            format!(
                "one runs for {OF_THE_UNIT}: set DP_RUNTIME_DIR={OF_THE_UNIT}, or start another (dp node)"
            )
        } else {
            "start one in this DP_RUNTIME_DIR (dp node)".into()
        };
        format!("this node has no gateway, without which no other node is reached; {way_out}")
    })?;
    let (nid, told) = (gateway.nid, OWN_NID.told().unwrap_or(OWN_NID.default));
    if told != u64::from(nid) {
        return Err(format!(
            "the gateway's node is {nid}, and programs here are told that they are on node {told}; set DP_NID={nid}"
        ));
    }
    Ok(gateway)
}

/// Names of the routes to a node, in the order in which they are wanted.
fn routes_of(node: &Other) -> Vec<String> {
    each_once(node.routes.iter().map(|way| way.address.split(':').next().unwrap_or_default()))
}

fn each_once<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

/// A node that can be measured, if somebody serves there.
pub struct Far {
    /// Where `dp bench serve` is.
    at: Addr,
    routes: Vec<String>,
    /// They were named.
    by_name: bool,
}

impl Far {
    pub fn nid(&self) -> Nid {
        self.at.nid
    }

    /// The process that serves there, and the routes that work.
    ///
    /// # Errors
    ///
    /// Nobody serves, or the node is down. A route that was named does not work, or none does.
    pub fn connect(self, verb: &str) -> Result<(Peer, Vec<String>)> {
        progress(&format!("node {}", self.at.nid));
        let line = Line::open(self.at).map_err(|why| format!("endpoint {}: {why}", self.at))?;
        let Some(line) = line else { return Err(self.nobody()?.into()) };
        let mut peer = Peer::of_node(line);
        let (mut work, mut down) = (Vec::new(), Vec::new());
        for name in self.routes {
            match peer.open_by(&name, None) {
                Ok(_) => work.push(name),
                Err(why) if self.by_name => return Err(why),
                Err(why) => down.push(why),
            }
            peer.close()?;
        }
        if work.is_empty() {
            return Err(down
                .pop()
                .unwrap_or_else(|| format!("no route leads to node {}", self.at.nid).into()));
        }
        progress("");
        down.iter().for_each(|why| eprintln!("dp {verb}: warning: left out: {why}"));
        Ok((peer, work))
    }

    /// Why there was no answer.
    fn nobody(&self) -> std::result::Result<String, String> {
        let (gateway, Addr { nid, dpid }) = (gateway()?, self.at);
        let node = gateway.nodes.iter().find(|node| node.nid == nid);
        if let Some(node) = node.filter(|node| node.by.is_none()) {
            let tried: Vec<&str> = node.routes.iter().map(|way| way.address.as_str()).collect();
            return Ok(format!(
                "node {nid} is down; tried: {}; see whether dp node runs there, and whether a filter lets these addresses \
                 through",
                tried.join(", ")
            ));
        }
        let number = if dpid == SERVE { String::new() } else { format!(" --dpid {dpid}") };
        Ok(format!(
            "nobody serves at endpoint {nid}/{dpid}: run `dp bench serve{number}` on node {nid}, with the DP_RUNTIME_DIR and \
             the DP_NID of its gateway; if somebody does, the graph maps users there (users = \"map\", dp-graph.toml(5)), and \
             this one is none of those who are let in"
        ))
    }
}

/// Whether what endpoint `here` of this node sends `there` leaves by this route.
///
/// # Errors
///
/// It does not, or the gateway is gone; in words.
pub fn goes_by(name: &str, here: Dpid, there: Addr) -> std::result::Result<(), String> {
    let gateway = gateway()?;
    let by = match flow(&gateway, here, there).map(|flow| flow.route.as_deref()) {
        Some(Some(by)) if by == name => return Ok(()),
        Some(Some(by)) => format!("messages went by {by}"),
        Some(None) => "the node is down".into(),
        None => "its gateway has no such flow".into(),
    };
    Err(format!(
        "route {name} from node {} to node {} does not work: {by}; `dp ls` shows the routes between nodes",
        gateway.nid, there.nid
    ))
}

/// How many messages of endpoint `here` are with their receiver `there`, and whether the gateway has no others.
///
/// # Errors
///
/// The gateway is gone; in words.
pub fn arrived(here: Dpid, there: Addr) -> std::result::Result<(u64, bool), String> {
    let gateway = gateway()?;
    Ok(flow(&gateway, here, there).map_or((0, true), |flow| (flow.messages_out, flow.waiting == 0)))
}

/// The flow between the two, seen from here.
fn flow(gateway: &Gateway, here: Dpid, there: Addr) -> Option<&Flow> {
    let node = gateway.nodes.iter().find(|node| node.nid == there.nid)?;
    let [here, there] = [here.to_string(), there.to_string()];
    node.flows.iter().find(|flow| flow.here == here && flow.there == there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ls::tests::GATEWAY;

    fn looked_up(nid: Nid, route: &[&str]) -> std::result::Result<Far, Wrong> {
        let node = Addr { nid, dpid: SERVE };
        let route = route.iter().map(|name| (*name).to_string()).collect();
        FarNode { node: Some(node), route }.known(node, &serde_json::from_str(GATEWAY).unwrap())
    }

    #[test]
    fn a_node_is_named_with_or_without_the_number_of_who_serves() {
        assert_eq!(place("2"), Ok(Addr { nid: 2, dpid: SERVE }));
        assert_eq!(place("2/5000"), Ok(Addr { nid: 2, dpid: 5000 }));
        for wrong in ["", "0", "2/", "/5000", "2/0", "65536", "beta"] {
            assert!(place(wrong).is_err_and(|why| why.contains("2/1990")), "{wrong}");
        }
    }

    #[test]
    fn all_routes_of_a_node_are_measured_unless_some_are_named() {
        let Ok(far) = looked_up(2, &[]) else { panic!("node 2 is known") };
        assert!(!far.routes.is_empty() && !far.by_name);
        let name = far.routes[0].clone();
        assert!(looked_up(2, &[&name]).is_ok_and(|far| far.by_name && far.routes == [name.clone()]));
    }

    #[test]
    fn a_route_that_is_named_twice_is_measured_once() {
        assert_eq!(each_once(["udp", "eth", "udp", "udp"].into_iter()), ["udp", "eth"]);
        assert!(looked_up(2, &["udp", "udp"]).is_ok_and(|far| far.routes == ["udp"]));
    }

    #[test]
    fn what_is_not_there_is_named_beside_what_is() {
        for (nid, route, words) in
            [(7, "udp", "it has 2, 3"), (1, "udp", "this one"), (2, "pigeon", "these do: ")]
        {
            let Err(Wrong::Asked(why)) = looked_up(nid, &[route]) else { panic!("{nid} by {route}") };
            assert!(why.contains(words), "{why}");
        }
    }
}
