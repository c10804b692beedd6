//! `dp bench`, `dp logp` and `dp cost` to another node: two nodes at ports of the loopback, and two network namespaces with two
//! routes between them. No number is judged here: the machine may be busy.

#[path = "../kit/mod.rs"]
mod kit;
#[path = "../page/mod.rs"]
mod page;
mod picture;
mod refused;
mod two;

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use kit::until;
use two::{Running, Two};

/// How far a field of a field is indented in a manual page, at most; what is further in says more of the one above.
const DEEPEST: usize = 4;
const TRUSTED: &str = "[route.udp]\nsecurity = \"none\"\n";
/// A measurement that says something after a moment.
const SHORT: &str = "--seconds 0.1 --rounds 2 --json";

fn ways(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|one| one["way"].as_str().unwrap()).collect()
}

/// The manual page tells of each field.
#[track_caller]
fn documented(page: &str, of: &Value) {
    let told = page::fields(page, DEEPEST);
    for field in of.as_object().unwrap().keys() {
        assert!(told.contains(&field.as_str()), "the page does not tell of {field}");
    }
}

const BENCH: &str = include_str!("../../../../man/dp-bench.1");

#[test]
fn a_route_is_measured_to_who_serves_on_another_node() {
    let nodes = Two::at_ports("one");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let lat = nodes.report(&format!("bench lat --node 2 --size 8,100000 {SHORT}"));
    assert!(lat["node"] == 2 && lat.get("cores").is_none(), "{lat}");
    assert_eq!(ways(&lat["results"]), ["udp", "udp"]);
    for one in lat["results"].as_array().unwrap() {
        let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|field| one[field].as_f64().unwrap());
        // Nothing is as near as another core.
        assert!(p50 > 500.0 && p50 <= 1e10 && p99 <= p999, "{one}");
        documented(BENCH, one);
    }
    documented(BENCH, &lat);
    for what in ["rate", "bw"] {
        let flood = nodes.report(&format!("bench {what} --node 2 --route udp {SHORT}"));
        for one in flood["results"].as_array().unwrap() {
            let [rate, bytes] = ["messages_per_s", "bytes_per_s"].map(|field| one[field].as_f64().unwrap());
            assert!(one["messages"].as_u64() > Some(0) && rate > 0.0 && bytes > rate, "{one}");
        }
    }
    let (code, text, said) = nodes.ended("bench lat --node 2 --seconds 0.1 --rounds 2");
    assert!(code == Some(0) && text.contains("to node 2") && text.contains("\nudp "), "{text}{said}");
    // Nothing stands beside a route.
    assert!(text.contains("CPU s") && !text.contains("OVER FLOOR"), "{text}");
}

#[test]
fn the_parameters_of_logp_are_those_of_the_route() {
    let nodes = Two::at_ports("logp");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "--dpid 5000");
    let report = nodes.report("logp --node 2/5000 --route udp --quick --seconds 2 --sizes 8,4096 --json");
    assert!(report["node"] == 2 && report["p"] == 2 && report.get("cores").is_none(), "{report}");
    documented(include_str!("../../../../man/dp-logp.1"), &report);
    assert_eq!(ways(&report["ways"]), ["udp"]);
    let way = &report["ways"][0];
    let trip = way["rtt"]["ns"].as_f64().unwrap();
    let [o_s, l, o_r] = ["o_s", "l", "o_r"].map(|name| way[name]["ns"].as_f64().unwrap());
    assert!(o_s > 0.0 && trip > 1000.0, "{way}");
    assert!((o_s + l + o_r - trip / 2.0).abs() <= 1.0, "that is how L is defined: {way}");
    assert_eq!(way["bulk"].as_array().unwrap().len(), 2);
    assert!(way["k_to_1"].as_array().unwrap().is_empty());
    nodes.told("logp --node 2 --senders 2", 2, &["--senders", "one machine", "Usage: dp logp"]);
}

#[test]
fn the_cost_model_is_that_of_the_route() {
    let nodes = Two::at_ports("cost");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let report = nodes.report("cost --node 2 --quick --seconds 1 --longest 65536 --packet 4096 --json");
    assert!(report["node"] == 2 && report.get("cores").is_none(), "{report}");
    let page = include_str!("../../../../man/dp-cost.1");
    documented(page, &report);
    assert_eq!(ways(&report["ways"]), ["udp"]);
    let way = &report["ways"][0];
    documented(page, way);
    assert_eq!(way["driver"], "user");
    let parameters = way["parameters"].as_array().unwrap();
    let names: Vec<_> = parameters.iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["O_s", "g_s", "L", "g_r", "O_r", "U_r", "T"]);
    let pieces = parameters[0]["pieces"].as_array().unwrap();
    assert!(pieces.iter().any(|piece| piece["piece"] == "frame" && piece["to"] == 1400), "{way}");
    for message in way["messages"].as_array().unwrap() {
        assert!(message["measured"].as_f64().unwrap() > 500.0, "{message}");
    }
    // More lies between two gateways than one packet.
    let room = way["b_l"]["packets"].as_array().unwrap();
    assert!(!room.is_empty(), "{way}");
    for packets in room {
        assert!(packets[1].as_f64().unwrap() > 1.0, "{packets}");
    }
    for test in way["bandwidth"].as_array().unwrap() {
        assert!(test["exchange_threads"]["mb_per_s"].as_f64().unwrap() > 0.0, "{test}");
    }
}

/// What goes to an endpoint of a measurement that it did not ask for, as a late message does which was for another.
#[test]
fn what_others_send_is_not_measured() {
    let nodes = Two::at_ports("others");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let line = "bench rate --node 2 --seconds 6 --rounds 1";
    let mut rate = Running(nodes.dp(1, line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut here = String::new();
    until("messages come", || {
        let flows = nodes.flows(2);
        let busy = flows.iter().find(|flow| flow["messages_in"].as_u64() > Some(1000));
        busy.is_some_and(|flow| {
            here = flow["here"].as_str().unwrap().into();
            true
        })
    });
    nodes.send(1, &format!("2/{here}"), b"\n\xff\nothers\n");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut rate.0.stderr.take().unwrap(), &mut said).unwrap();
    assert!(rate.0.wait().unwrap().success(), "{said}");
}

#[test]
fn who_asks_too_much_is_not_served_and_others_are() {
    let nodes = Two::at_ports("much");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let close = "{\"session\":7,\"version\":1,\"say\":{\"Do\":\"Close\"}}\n";
    let bye = "{\"session\":7,\"version\":1,\"say\":\"Bye\"}\n";
    nodes.send(1, "2/1990", (close.repeat(1500) + bye).as_bytes());
    nodes.served_in_the_end();
}

/// Who has nothing to measure: what he was answered would wait for whoever has his number next.
#[test]
fn nothing_is_answered_on_the_node_itself() {
    let nodes = Two::at_ports("itself");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let hello = "{\"session\":7,\"version\":1,\"say\":\"Hello\"}\n";
    nodes.send(2, "1990", hello.repeat(5000).as_bytes());
    nodes.report(&format!("bench lat --node 2 {SHORT}"));
}

#[test]
fn one_is_served_at_a_time_and_the_next_one_when_it_is_done() {
    let nodes = Two::at_ports("busy");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let long = "bench lat --node 2 --seconds 300";
    let first = Running(nodes.dp(1, long).stdout(Stdio::null()).spawn().unwrap());
    until("what the first one says and measures are two flows", || nodes.flows(1).len() > 1);
    let short = format!("bench lat --node 2 {SHORT}");
    nodes.told(&short, 1, &["is being served", "try again"]);
    drop(first);
    // Half a minute until the other side finds nothing coming.
    nodes.served_in_the_end();
    // At once behind one that is done.
    nodes.report(&short);
}

/// Sends have no room any more then, and no receive is under way whose time could be over.
#[test]
fn a_flood_ends_when_nobody_takes_it_any_more() {
    let nodes = Two::at_ports("flood");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let served = nodes.serve(2, "");
    let line = "bench rate --node 2 --seconds 100 --rounds 1";
    let mut rate = Running(nodes.dp(1, line).stderr(Stdio::piped()).spawn().unwrap());
    until("messages come", || nodes.flows(2).iter().any(|flow| flow["messages_in"].as_u64() > Some(1000)));
    drop(served);
    let begin = Instant::now();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut rate.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(rate.0.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("nothing came or went"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(80), "{:?}: that was its own end", begin.elapsed());
    let _again = nodes.serve(2, "");
    nodes.report(&format!("bench lat --node 2 {SHORT}"));
}

#[test]
fn each_route_between_two_namespaces_is_measured_and_one_that_is_down_is_not() {
    if !kit::namespaces_are_possible("dp bench over routes") {
        return;
    }
    let nodes = Two::on_cables("routes");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let both = nodes.report(&format!("bench lat --node 2 {SHORT}"));
    assert_eq!(ways(&both["results"]), ["eth", "udp"]);
    for route in ["eth", "udp"] {
        let one = nodes.report(&format!("bench rate --node 2 --route {route} {SHORT}"));
        assert_eq!(ways(&one["results"]), [route]);
    }
    let logp = nodes.report("logp --node 2 --route eth,udp --quick --seconds 2 --sizes 8 --json");
    assert_eq!(ways(&logp["ways"]), ["eth", "udp"]);
    nodes.networks[1].ip("link set dp0 down");
    // Whichever node finds it out.
    let words = ["route eth from node ", "does not work: messages went by udp", "dp ls"];
    nodes.told("bench lat --node 2 --route eth --seconds 0.1", 1, &words);
    let (code, printed, said) = nodes.ended(&format!("bench lat --node 2 {SHORT}"));
    assert!(code == Some(0) && said.contains("warning: left out: ") && said.contains(words[0]), "{said}");
    let rest: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(ways(&rest["results"]), ["udp"]);
}

/// In the middle of a turn: the number would be that of another route.
#[test]
fn a_route_that_ends_while_it_is_measured_ends_the_measurement() {
    if !kit::namespaces_are_possible("dp bench over routes") {
        return;
    }
    let nodes = Two::on_cables("ends");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    let lat =
        nodes.dp(1, "bench lat --node 2 --route eth --seconds 6 --rounds 1").stderr(Stdio::piped()).spawn();
    let mut lat = Running(lat.unwrap());
    until("a turn runs", || nodes.flows(2).iter().any(|flow| flow["messages_in"].as_u64() > Some(500)));
    nodes.networks[1].ip("link set dp0 down");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut lat.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(lat.0.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("route eth") && said.contains("went by udp"), "{said}");
}
