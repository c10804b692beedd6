//! Other nodes, and flows with their endpoints: what this node's gateway tells.

use std::time::Duration;

use dp_node::serve::folder;
use dp_node::status::Gateway;

/// How long the gateway may take to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// What it tells; none if there is no gateway, or the folder cannot be used, which was told with the endpoints.
///
/// # Errors
///
/// It does not answer; in words.
pub fn ask() -> Result<Option<Gateway>, String> {
    if folder().is_err() {
        return Ok(None);
    }
    ask_within(ANSWER)
}

/// The same by one who lists no endpoints, and may be able to wait longer.
///
/// # Errors
///
/// It does not answer, or the folder cannot be used; in words.
pub fn ask_within(patience: Duration) -> Result<Option<Gateway>, String> {
    let Some(folder) = folder().map_err(|error| error.to_string())? else { return Ok(None) };
    Gateway::ask(&folder, patience).map_err(|error| {
        format!("the gateway does not answer: {error}; other nodes and flows are missing; see journalctl -u dp-node")
    })
}

/// The same; that it does not answer, `verb` tells.
pub fn look(verb: &str) -> Option<Gateway> {
    ask().unwrap_or_else(|why| {
        eprintln!("dp {verb}: {why}");
        None
    })
}

/// Says what the tables cannot.
pub fn explain(gateway: &Gateway) {
    let pid = gateway.pid;
    let (unknown, foreign) = (gateway.unknown, gateway.foreign);
    if unknown + foreign > 0 {
        eprintln!(
            "dp ls: the gateway ({pid}) dropped frames from addresses that no node of its graph has: {unknown}; that named \
             the wrong nodes: {foreign}; see whether all nodes have the same graph"
        );
    }
    if gateway.crowded > 0 {
        eprintln!(
            "dp ls: frames waited {} times, for the gateway ({pid}) may have no more descriptors for endpoints of their node; see \
             LimitNOFILE= of its unit, and dp-node(8)",
            gateway.crowded
        );
    }
    if gateway.unkept > 0 {
        eprintln!(
            "dp ls: the gateway ({pid}) took {} messages of flows for which there is no room in gateway.places; if it is killed, \
             such as are on their way then can come twice",
            gateway.unkept
        );
    }
    for (node, way) in
        gateway.nodes.iter().flat_map(|node| node.routes.iter().map(move |way| (node.nid, way)))
    {
        if let Some(longest) = way.longest {
            eprintln!(
                "dp ls: what is longer than {longest} bytes vanishes on the way to node {node} by {}, so frames are no longer",
                way.address
            );
        }
    }
    for route in &gateway.routes {
        if let Some(means) = &route.means {
            eprintln!("dp ls: the gateway receives on {} by {means}", route.address);
        }
        if let Some(remark) = &route.remark {
            eprintln!("dp ls: the gateway's route {}: {remark}", route.address);
        }
    }
}
