//! The gateway of this node, where one runs: what keeps messages from other nodes.

use dp_node::status::Gateway;

use super::Finding;
use crate::ls::flows;

/// All that there is to say.
pub fn examine() -> Vec<Finding> {
    told(flows::ask())
}

fn told(answer: Result<Option<Gateway>, String>) -> Vec<Finding> {
    let gateway = match answer {
        Ok(Some(gateway)) => gateway,
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
        let found = told(Ok(Some(serde_json::from_str(GATEWAY).unwrap())));
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
        assert_eq!(told(Ok(None))[0].verdict, Verdict::Fine);
        let found = told(Err("the gateway does not answer: timed out".into()));
        assert!(found.len() == 1 && found[0].verdict == Verdict::Bad && found[0].way_out.is_some());
    }
}
