//! What runs, for programs.

use dp_graph::live::{Heard, Picture, Running};
use serde_json::{json, to_string_pretty};

/// The picture, with the channels' counts. Fields may be added; none changes its meaning while `version` stays.
pub fn text(running: &Running, picture: &Picture) -> String {
    let processes =
        picture.nodes.iter().flat_map(|node| node.processes.iter().map(move |process| (node.nid, process)));
    let processes = processes.map(|(nid, process)| {
        let endpoints =
            process.endpoints.iter().map(|(dpid, mark)| json!({"dpid": dpid, "mark": mark.word()}));
        json!({
            "node": nid,
            "title": process.title,
            "pids": process.pids.iter().filter(|&&pid| pid != 0).collect::<Vec<_>>(),
            "mark": process.mark.word(),
            "endpoints": endpoints.collect::<Vec<_>>(),
        })
    });
    let is_edge = |edge: &&dp_graph::live::DrawnEdge| matches!(edge.from, dp_graph::live::End::Endpoint(_));
    let edges = picture.edges.iter().filter(is_edge).map(
        |edge| json!({"from": edge.from.to_string(), "to": edge.to.to_string(), "mark": edge.mark.word()}),
    );
    let channels = running.channels.iter().filter(|_| !picture.legend).map(|channels| {
        let pid = |pid: i32| (pid != 0).then_some(pid);
        json!({
            "client": pid(channels.client),
            "server": pid(channels.server),
            "ports": channels.ports,
            "channels": channels.channels,
            "client_bytes": channels.client_bytes,
            "server_bytes": channels.server_bytes,
        })
    });
    let others = running.others.iter().map(|node| {
        let (heard, unheard) = match node.heard {
            Heard::Unsaid => (None, None),
            Heard::Never => (Some(false), None),
            Heard::Ago(time) => (Some(true), Some(time.as_nanos() as u64)),
        };
        json!({"nid": node.nid, "name": node.name, "up": node.is_up, "heard": heard, "unheard_ns": unheard})
    });
    let all = json!({
        "version": 1,
        "node": running.nid,
        "compared": picture.legend,
        "others": others.collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
    });
    to_string_pretty(&all).expect("plain data") + "\n"
}
