//! The gateway of this node, where one runs: what keeps messages from other nodes.

use std::path::Path;

use dp_node::serve::folder;
use dp_node::status::Gateway;

use super::Finding;
use crate::ls::flows;

/// The folder of the gateway that dp-node.service runs.
const OF_THE_UNIT: &str = "/run/dp";

/// All that there is to say.
pub fn examine() -> Vec<Finding> {
    if let Err(error) = folder() {
        let way_out = format!(
            "ask as its user, or as root; that of dp-node.service is {OF_THE_UNIT}: sudo DP_RUNTIME_DIR={OF_THE_UNIT} dp doctor --host"
        );
        return vec![Finding::bad("gateway", format!("not to be asked: {error}"), way_out)];
    }
    let runs_there = Gateway::runs_in(Path::new(OF_THE_UNIT));
    told(flows::ask(), runs_there)
}

/// `runs_there`: the unit has one, which may be another than the one that was asked.
fn told(answer: Result<Option<Gateway>, String>, runs_there: bool) -> Vec<Finding> {
    let gateway = match answer {
        Ok(Some(gateway)) => gateway,
        Ok(None) if runs_there => {
            let text = format!("none runs for this user's endpoints, and one for those of {OF_THE_UNIT}");
            let way_out = format!("to look at that one: sudo DP_RUNTIME_DIR={OF_THE_UNIT} dp doctor --host");
            return vec![Finding::note("gateway", text, way_out)];
        }
        Ok(None) => return vec![Finding::fine("gateway", "none runs: messages stay on this node")],
        Err(why) => return vec![Finding::bad("gateway", why, "restart it: systemctl restart dp-node")],
    };
    let flows: usize = gateway.nodes.iter().map(|node| node.flows.len()).sum();
    let (nid, pid, others) = (gateway.nid, gateway.pid, gateway.nodes.len());
    let mut found = vec![Finding::fine(
        "gateway",
        format!("node {nid}, process {pid}; other nodes: {others}, flows: {flows}"),
    )];
    for node in gateway.nodes.iter().filter(|node| node.by.is_none()) {
        let tried: Vec<&str> = node.routes.iter().map(|route| route.address.as_str()).collect();
        let name = node.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        let text = format!("node {}{name} is down; tried: {}", node.nid, tried.join(", "));
        let way_out = "see whether dp node runs there, and whether a filter lets these addresses through";
        found.push(Finding::note("gateway", text, way_out));
    }
    let strange = gateway.unknown + gateway.foreign;
    if strange > 0 {
        let text = format!("{strange} frames came from addresses that no node has, or named the wrong nodes");
        found.push(Finding::note("gateway", text, "see whether all nodes have the same graph"));
    }
    if gateway.crowded > 0 {
        let text = format!("frames waited {} times for want of descriptors", gateway.crowded);
        found.push(Finding::note("gateway", text, "raise LimitNOFILE= of its unit; see dp-node(8)"));
    }
    for route in &gateway.routes {
        if let Some(remark) = &route.remark {
            found.push(Finding::note("gateway", format!("{}: {remark}", route.address), "see dp-node(8)"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use crate::ls::tests::GATEWAY;

    #[test]
    fn a_node_that_is_down_is_named_with_the_addresses_that_were_tried() {
        let found = told(Ok(Some(serde_json::from_str(GATEWAY).unwrap())), true);
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "node 1, process 70; other nodes: 2, flows: 2",
                "node 3 is down; tried: udp:192.0.2.3:7411",
                "frames waited 4 times for want of descriptors",
            ]
        );
        assert!(found[1..].iter().all(|finding| finding.verdict == Verdict::Note));
    }

    #[test]
    fn none_is_fine_and_one_that_is_silent_is_not() {
        assert_eq!(told(Ok(None), false)[0].verdict, Verdict::Fine);
        let found = told(Err("the gateway does not answer: timed out".into()), true);
        assert!(found.len() == 1 && found[0].verdict == Verdict::Bad && found[0].way_out.is_some());
    }

    #[test]
    fn root_is_told_of_the_units_gateway_which_has_another_folder() {
        let found = told(Ok(None), true);
        assert!(found[0].verdict == Verdict::Note && found[0].text.contains("/run/dp"), "{}", found[0].text);
        assert!(found[0].way_out.as_ref().is_some_and(|way_out| way_out.contains("DP_RUNTIME_DIR=/run/dp")));
    }
}
