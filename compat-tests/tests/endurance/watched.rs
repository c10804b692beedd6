//! `dp top` and `dp graph live` say what is so of programs on channels.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use compat_tests::tools::TempDir;
use compat_tests::{programs, Combo, Job};
use serde_json::Value;

use crate::product;

/// A client that exchanges one byte with a server again and again, both with the shim, and the server's port.
fn exchange(folder: &TempDir) -> (Job, Job, u16) {
    let side = |words: &[&str]| {
        let mut command = Combo::shimmed().server_command(Path::new("/usr/bin/python3"), folder.path());
        command.arg(programs::python("exchanges.py")).arg(words[0]).arg(folder.path().join("port"));
        command.args(&words[1..]);
        Job::start(&words.join("-"), command, folder.path())
    };
    let (server, client) = (side(&["server"]), side(&["client", "1000000000"]));
    assert!(product::becomes_channel(client.pid().as_raw(), Duration::from_secs(20)), "{}", client.doing());
    let port = std::fs::read_to_string(folder.path().join("port")).expect("the server's port");
    (server, client, port.parse().expect("a number"))
}

fn dp(words: &[&str]) -> String {
    let dp = programs::target_dir().join("release/dp");
    let said = Command::new(&dp).args(words).output().expect("dp: run `cargo build --release` first");
    assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).expect("text")
}

#[test]
fn rates_and_stays_of_a_channel_are_told() {
    let folder = TempDir::new();
    let (server, client, port) = exchange(&folder);
    let end = format!("127.0.0.1:{port}");
    let look = |seconds: &str| {
        let text = dp(&["top", "--batch=1", "-d", seconds, "--json-lines", "--latency", &end]);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (text, lines)
    };
    // On a busy machine the two may sleep whenever they are looked at.
    let idle = |(_, lines): &(String, Vec<Value>)| lines.iter().any(|line| line["portions"] == 0);
    let (text, lines) = Some(look("2")).filter(|seen| !idle(seen)).unwrap_or_else(|| look("20"));
    let rate = |line: &Value, field: &str| line[field].as_f64().unwrap_or(-1.0);
    for job in [&server, &client] {
        let of = |kind| {
            let mut lines = lines.iter().filter(|line| line["kind"] == kind);
            lines.find(|line| line["pid"] == job.pid().as_raw()).unwrap_or_else(|| panic!("{kind}: {text}"))
        };
        let (program, connection) = (of("program"), of("connection"));
        assert_eq!((&program["channels"], &connection["state"]), (&1.into(), &"channel".into()), "{text}");
        for line in [program, connection] {
            let (sent, received) = (rate(line, "tx_bytes_per_second"), rate(line, "rx_bytes_per_second"));
            // As many bytes go as come back.
            assert!(sent > 10.0 && (0.5..2.0).contains(&(sent / received)), "{line}");
        }
    }
    let stays: Vec<_> = lines.iter().filter(|line| line["kind"] == "latency").collect();
    assert_eq!(stays.len(), 2, "{text}");
    assert_eq!((&stays[0]["from"], &stays[1]["to"]), (&Value::from(end.clone()), &Value::from(end.clone())));
    for stay in stays {
        assert!(stay["over"].is_null() && stay["portions"].as_u64() > Some(0), "{stay}");
        // Of one byte each way, there is one in the ring at most.
        assert!(stay["waiting_bytes"].as_u64() <= Some(1) && rate(stay, "mean_ns") > 0.0, "{stay}");
        assert!(rate(stay, "p50_ns") <= rate(stay, "p99_ns") && rate(stay, "p50_ns") < 1e9, "{stay}");
    }
}

#[test]
fn the_channel_between_two_programs_is_an_edge_of_the_live_graph() {
    let folder = TempDir::new();
    let (server, client, port) = exchange(&folder);
    let text = dp(&["graph", "live", "--only", "channels", "--json"]);
    let graph: Value = serde_json::from_str(&text).expect("JSON");
    let channels = graph["channels"].as_array().expect("a list");
    let ours = channels.iter().find(|c| c["client"] == client.pid().as_raw());
    let ours = ours.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(
        (&ours["server"], &ours["ports"]),
        (&server.pid().as_raw().into(), &vec![port].into()),
        "{text}"
    );
    assert_eq!(ours["channels"], 1, "{text}");
    assert!(ours["client_bytes"].as_u64() > Some(0) && ours["server_bytes"].as_u64() > Some(0), "{text}");
    let dot = dp(&["graph", "live", "--only", "channels"]);
    for job in [&server, &client] {
        assert!(dot.contains(&format!("python3 {}", job.pid())), "{dot}");
    }
    assert!(dot.contains(&format!("label=\":{port}\"")) && dot.contains("label=\"1 channel, "), "{dot}");
}
