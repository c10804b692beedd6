use super::*;
use crate::ls::tests::{listing, GATEWAY};

fn values(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' ')).collect()
}

/// One of each thing that can be listed.
fn everything() -> Listing {
    let mut listing = listing();
    listing.gateway = Some(serde_json::from_str(GATEWAY).unwrap());
    let endpoint = Endpoint {
        dpid: 5000,
        program: Some("worker".into()),
        pid: 73,
        uid: Some(1000),
        driver: "user",
        mode: "pool",
        target: None,
        pool_bytes: Some(4096),
        pool_left: Some(1024),
        held: Some(1),
        sent_messages: Some(1),
        sent_bytes: Some(8),
        received_messages: Some(2),
        received_bytes: Some(16),
    };
    let (from, to) = ("5000".into(), "5001".into());
    let edge = Edge { from, to, state: "edge", waiting: Some(1), messages: Some(2), bytes: Some(16) };
    (listing.graph.endpoints, listing.graph.edges) = (vec![endpoint], vec![edge]);
    listing
}

#[test]
fn what_is_listed_is_counted() {
    let text = of(&everything(), true, false);
    let values = values(&text);
    let family = r#"pid="71",program="redis-server""#;
    for (name, value) in [
        ("dp_endpoints_listed", "1"),
        (&*format!("dp_family_processes{{{family}}}"), "2"),
        (&*format!("dp_family_channels_total{{{family}}}"), "5"),
        (&*format!("dp_family_ring_bytes_total{{direction=\"received\",{family}}}"), "34560"),
        (&*format!("dp_family_connections{{{family},state=\"channel\"}}"), "1"),
        (&*format!("dp_family_tcp_connections_total{{{family},reason=\"no-offer\"}}"), "3"),
        (&*format!("dp_family_info{{{family},shim=\"0.1.0\",state=\"on\"}}"), "1"),
    ] {
        assert_eq!(values.get(name), Some(&value), "{name}\n{text}");
    }
}

#[test]
fn each_name_says_what_it_is() {
    let text = of(&everything(), true, false);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
}

#[test]
fn a_program_cannot_write_lines_of_its_own() {
    let mut listing = listing();
    listing.families[0].processes[0].program = "a\"} 1\nb{x=\"".into();
    let text = of(&listing, true, false);
    assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("dp_")), "{text}");
}

#[test]
fn of_a_program_without_connections_nothing_is_counted() {
    let mut listing = listing();
    listing.families[0].state = State::Idle;
    let text = of(&listing, false, false);
    assert!(text.contains("state=\"idle\"") && !text.contains("dp_family_channels_total{"), "{text}");
    assert!(text.contains("dp_endpoints_listed 0"));
}

#[test]
fn nodes_and_flows_are_counted_as_they_are_listed() {
    let text = of(&everything(), true, false);
    let values = values(&text);
    let (node, down) = (r#"name="beta",node="2""#, r#"name="",node="3""#);
    let (flow, route) = (r#"here="5000",node="2",there="2/7000""#, r#"address="udp:192.0.2.1:7411""#);
    let raw = r#"here="5001",node="2",there="2/7001""#;
    let way = format!(r#"address="udp:192.0.2.2:7411",{node},security="encrypt""#);
    for (name, value) in [
        ("dp_gateway_listed", "1"),
        (r#"dp_gateway_info{node="1",pid="70"}"#, "1"),
        ("dp_gateway_crowded_total", "4"),
        ("dp_gateway_unkept_total", "6"),
        (r#"dp_gateway_dropped_frames_total{why="foreign"}"#, "0"),
        (&*format!("dp_route_frames_total{{{route},direction=\"sent\"}}"), "9"),
        (&*format!("dp_route_bytes_total{{{route},direction=\"received\"}}"), "800"),
        (&*format!("dp_node_up{{{node}}}"), "1"),
        (&*format!("dp_node_up{{{down}}}"), "0"),
        (&*format!("dp_node_flows{{{node}}}"), "2"),
        (&*format!("dp_node_dropped_frames_total{{{node},why=\"crowded\"}}"), "2"),
        (&*format!("dp_node_dropped_frames_total{{{down},why=\"unsent\"}}"), "7"),
        (&*format!("dp_node_route_up{{{way}}}"), "1"),
        (&*format!("dp_node_route_round_trip_seconds{{{way}}}"), "0.0000315"),
        (&*format!("dp_node_route_longest_bytes{{{way}}}"), "1188"),
        (r#"dp_flow_info{here="5000",node="2",route="udp",state="open",there="2/7000"}"#, "1"),
        (&*format!("dp_flow_round_trip_seconds{{{flow}}}"), "0.000045"),
        (&*format!("dp_flow_window_parts{{{flow}}}"), "20"),
        (&*format!("dp_flow_flying_parts{{{flow}}}"), "2"),
        (&*format!("dp_flow_room_parts{{{flow}}}"), "126"),
        (&*format!("dp_flow_waiting_messages{{{flow}}}"), "3"),
        (&*format!("dp_flow_messages_total{{direction=\"sent\",{flow}}}"), "100"),
        (&*format!("dp_flow_frames_total{{direction=\"received\",{flow}}}"), "150"),
        (&*format!("dp_flow_repeats_total{{{flow}}}"), "3"),
        (&*format!("dp_flow_restarts_total{{{flow}}}"), "1"),
        (&*format!("dp_raw_messages_total{{direction=\"sent\",{raw}}}"), "50"),
        (&*format!("dp_raw_messages_total{{direction=\"received\",{raw}}}"), "40"),
        (&*format!("dp_raw_lost_messages_total{{{raw},why=\"way\"}}"), "2"),
        (&*format!("dp_raw_lost_messages_total{{{raw},why=\"room\"}}"), "1"),
        (&*format!("dp_raw_lost_messages_total{{{raw},why=\"down\"}}"), "4"),
        (&*format!("dp_raw_lost_frames_total{{{raw}}}"), "2"),
    ] {
        assert_eq!(values.get(name), Some(&value), "{name}\n{text}");
    }
    assert_eq!(
        text.matches("dp_node_route_longest_bytes{").count(),
        1,
        "the other one is as long as it says"
    );
    // A round trip that nobody measured is none of 0.
    assert!(!text.contains(r#"dp_node_route_round_trip_seconds{address="udp:192.0.2.3:7411""#), "{text}");
    assert!(!of(&listing(), true, false).contains("dp_gateway"));
    let silent = of(&listing(), true, true);
    assert!(silent.contains("dp_gateway_listed 0\n") && !silent.contains("dp_node_up"), "{silent}");
}

/// Names of counts in a text.
fn names(text: &str) -> std::collections::BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let kinds = [
        "dp_family_",
        "dp_endpoint",
        "dp_edge_",
        "dp_gateway_",
        "dp_route_",
        "dp_node_",
        "dp_flow_",
        "dp_raw_",
    ];
    words.filter(|word| kinds.iter().any(|kind| word.starts_with(kind))).collect()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_is_counted_and_the_manual_lists_all_of_it() {
    let text = of(&everything(), true, false);
    let counted = names(&text);
    let dashboard = include_str!("../../../../../share/grafana/directed-point.json");
    let told: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(told["panels"].as_array().unwrap().len() > 15);
    let asked = names(dashboard);
    assert!(asked.len() > 15 && asked.is_subset(&counted), "{:?}", asked.difference(&counted));
    let alerts = names(include_str!("../../../../../share/prometheus/directed-point.rules.yml"));
    assert!(alerts.len() > 4 && alerts.is_subset(&counted), "{:?}", alerts.difference(&counted));
    let manual = names(include_str!("../../../../../man/dp-metrics.1"));
    assert_eq!(manual, counted);
}

/// Grafana asks for what is in `__inputs` when somebody imports a file, and not when it finds one in its own folders.
#[test]
fn the_dashboard_finds_its_data_source_however_it_came_there_and_asks_for_chosen_hosts_alone() {
    let dashboard = include_str!("../../../../../share/grafana/directed-point.json");
    let told: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(told.get("__inputs").is_none());
    let list = |of: &serde_json::Value| of.as_array().unwrap().clone();
    let variables = list(&told["templating"]["list"]);
    let kinds: Vec<_> = variables.iter().map(|of| (of["name"].as_str().unwrap(), &of["type"])).collect();
    let query = serde_json::json!("query");
    assert_eq!(kinds, [("datasource", &"datasource".into()), ("instance", &query), ("program", &query)]);
    let panels = list(&told["panels"]);
    let targets: Vec<_> = panels.iter().flat_map(|panel| list(&panel["targets"])).collect();
    for asks in variables[1..].iter().chain(&panels).chain(&targets) {
        assert_eq!(
            asks["datasource"],
            serde_json::json!({"type": "prometheus", "uid": "${datasource}"}),
            "{asks}"
        );
    }
    for target in &targets {
        let expr = target["expr"].as_str().unwrap();
        let chosen = expr.matches("{instance=~\"$instance\"").count();
        assert!(chosen > 0 && chosen == expr.matches("dp_").count(), "{expr}");
    }
}

#[test]
fn each_alert_has_a_line_on_what_to_do() {
    let rules = include_str!("../../../../../share/prometheus/directed-point.rules.yml");
    let operations = include_str!("../../../../../docs/OPERATIONS.md");
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 6, "{alerts:?}");
    for alert in &alerts {
        assert!(operations.contains(&format!("\n| `{alert}` | ")), "{alert}");
    }
    let lines = operations.lines().filter(|line| line.starts_with("| `DirectedPoint")).count();
    assert_eq!(lines, alerts.len(), "a line on an alert that is none");
}
