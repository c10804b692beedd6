//! `dp node` as people run it: two nodes at ports of the loopback, a line from one to the other, what `dp ls` tells of them,
//! and what is said where it cannot be.

mod kit;

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use kit::{until, Folder};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;

/// What a graph says of UDP where all machines are trusted.
const TRUSTED: &str = "[route.udp]\nsecurity = \"none\"\n";

fn dp(folder: &Path, nid: u16, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(words).env("DP_RUNTIME_DIR", folder.join(nid.to_string())).env("DP_NID", nid.to_string());
    command
}

fn node(folder: &Path, nid: u16) -> Child {
    let graph = folder.join("graph.toml");
    let words = ["node", "--graph", graph.to_str().unwrap(), "--node", &nid.to_string()];
    let child =
        dp(folder, nid, &words).env("DP_GRAPH", "/nonexistent").stderr(Stdio::piped()).spawn().unwrap();
    until("a gateway", || folder.join(nid.to_string()).join("gateway").is_symlink());
    child
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_line_goes_from_one_node_to_another_and_ls_tells_of_it() {
    let folder = Folder::new("line");
    let port = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let node_of = |nid| format!("[[node]]\nnid = {nid}\nroutes = [\"udp:127.0.0.1:{}\"]\n", port());
    fs::write(folder.path.join("graph.toml"), format!("{TRUSTED}{}{}", node_of(1), node_of(2))).unwrap();
    let nodes = [node(&folder.path, 1), node(&folder.path, 2)];
    let receiver = dp(&folder.path, 2, &["recv", "5000", "--lines", "--count", "2", "--timeout", "20"]);
    let receiver = { receiver }.stdout(Stdio::piped()).spawn().unwrap();
    let mut sender =
        dp(&folder.path, 1, &["send", "2/5000", "--lines"]).stdin(Stdio::piped()).spawn().unwrap();
    sender.stdin.take().unwrap().write_all(b"hello\nagain\n").unwrap();
    assert!(sender.wait().unwrap().success());
    let heard = receiver.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&heard.stdout), "hello\nagain\n");
    let listing = dp(&folder.path, 1, &["ls", "--json"]).output().unwrap();
    let listing: Value = serde_json::from_slice(&listing.stdout).unwrap();
    let flow = &listing["gateway"]["nodes"][0]["flows"][0];
    assert_eq!(flow["messages_out"], 2, "{listing}");
    assert!(flow["there"] == "2/5000" && flow["round_trip_ns"].as_u64() > Some(0), "{listing}");
    let table = dp(&folder.path, 1, &["ls"]).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("ROUND TRIP") && table.contains("2/5000"), "{table}");
    let metrics = dp(&folder.path, 1, &["metrics"]).output().unwrap();
    let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
    let mut counts =
        metrics.lines().filter(|line| line.starts_with("dp_flow_messages_total{direction=\"sent\""));
    assert!(counts.any(|line| line.ends_with(",node=\"2\",there=\"2/5000\"} 2")), "{metrics}");
    assert!(metrics.contains("dp_node_up{name=\"\",node=\"2\"} 1\n"), "{metrics}");
    // A second one is told who is there; one that is told to end says that nothing was lost.
    let graph = folder.path.join("graph.toml");
    let second = ["node", "--graph", graph.to_str().unwrap(), "--node", "1"];
    let second = dp(&folder.path, 1, &second).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    for node in nodes {
        kill(Pid::from_raw(node.id() as i32), Signal::SIGTERM).unwrap();
        let out = node.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", said(&out));
        assert!(said(&out).contains("1 other node"), "{}", said(&out));
    }
    assert!(!folder.path.join("1/gateway").is_symlink());
}

#[test]
fn what_is_wrong_is_said_with_a_way_out() {
    let folder = Folder::new("wrong");
    let graph = folder.path.join("graph.toml");
    let run = |words: &[&str]| {
        let all: Vec<&str> = [&["node", "--graph", graph.to_str().unwrap()], words].concat();
        let out = dp(&folder.path, 1, &all).output().unwrap();
        (out.status.code(), said(&out))
    };
    let absent = run(&[]).1;
    assert!(
        absent.contains("No such file") && absent.contains("dp-graph.toml(5) tells how to write one"),
        "{absent}"
    );
    assert!(absent.contains("--graph FILE"), "{absent}");
    fs::write(&graph, "[[node]]\nnid = 0\n").unwrap();
    let (code, text) = run(&[]);
    assert!(code == Some(1) && text.contains("graph.toml:2:"), "{text}");
    let nodes = "[[node]]\nnid = 1\n[[node]]\nnid = 7\nroutes = [\"udp:203.0.113.9:7411\"]\n";
    let both = nodes.replace("nid = 1\n", "nid = 1\nroutes = [\"udp:203.0.113.8:7411\"]\n");
    fs::write(&graph, format!("[security]\nkey = \"a.key\"\n{both}")).unwrap();
    let (code, text) = run(&["--node", "7"]);
    assert!(code == Some(1) && text.contains("a.key"), "without the key nothing is sent: {text}");
    fs::write(folder.path.join("a.key"), "not a key").unwrap();
    fs::set_permissions(folder.path.join("a.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let (code, text) = run(&["--node", "7"]);
    assert!(code == Some(1) && text.contains("a.key"), "{text}");
    fs::write(&graph, format!("{TRUSTED}{nodes}")).unwrap();
    for (words, code, expected) in [
        (&["--node", "1"][..], 1, "node 1 has no addresses"),
        (&["--node", "2"], 1, "node 2 is not in the graph; it has 1, 7"),
        (&[], 1, "--node NID"),
        (&["--node", "7"], 1, "DP_NID"),
        (&["--node", "0"], 2, "--node"),
        (&["--spin", "many"], 2, "--spin"),
    ] {
        let (got, text) = run(words);
        assert!(got == Some(code) && text.contains(expected), "{words:?}: {got:?} {text}");
    }
}
