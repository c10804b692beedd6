//! `dp ls` over real processes: working, stopped, dead.

mod kit;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dpfd::{Addr, Endpoint};
use kit::{until, Folder};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

/// A folder of endpoints of its own for the test that asks; one test, or they would see each other.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("dp-ls-{}", std::process::id()))
}

fn ls() -> (Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    let out = command.args(["ls", "--json"]).env("DP_RUNTIME_DIR", folder()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{said}");
    (serde_json::from_slice(&out.stdout).unwrap(), said)
}

fn text() -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    let out = command.args(["ls"]).env("DP_RUNTIME_DIR", folder()).output().unwrap();
    (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
}

fn receiver(dpid: u16) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["recv", "--lines", &dpid.to_string()]).env("DP_RUNTIME_DIR", folder());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn of(listing: &Value, dpid: u16) -> Option<&Value> {
    listing["endpoints"].as_array().unwrap().iter().find(|e| e["dpid"] == dpid)
}

fn edge(listing: &Value, from: &str, to: &str) -> Option<Value> {
    listing["edges"].as_array().unwrap().iter().find(|e| e["from"] == from && e["to"] == to).cloned()
}

#[test]
fn endpoints_and_edges_are_listed_with_what_their_processes_say() {
    std::env::set_var("DP_RUNTIME_DIR", folder());
    assert_eq!(ls().0["endpoints"], json!([]));
    assert!(!folder().exists(), "looking makes nothing");

    let mine = Endpoint::open(6001).unwrap();
    let mut child = receiver(6002);
    mine.target(Addr::local(6002)).unwrap();
    for message in [&b"one"[..], b"", b"three"] {
        mine.send(message).unwrap();
    }
    mine.send_to(b"nobody", Addr::local(6003)).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.by_ref().take(3).map(Result::unwrap).collect::<Vec<_>>(), ["one", "", "three"]);
    // More than its pool: through memory of its own, and counted as what it is.
    mine.send(&vec![b'x'; 6 << 20]).unwrap();
    assert_eq!(lines.next().unwrap().unwrap().len(), 6 << 20);
    let (messages, bytes) = (4, 8 + (6 << 20));

    let all = ls().0;
    assert_eq!((&all["version"], &all["registry"]), (&json!(1), &json!(folder())));
    let (me, you) = (of(&all, 6001).unwrap(), of(&all, 6002).unwrap());
    assert_eq!(
        (&me["mode"], &me["target"], &me["pid"]),
        (&json!("plain"), &json!("6002"), &json!(std::process::id()))
    );
    assert_eq!((&me["sent_messages"], &me["sent_bytes"]), (&json!(messages), &json!(bytes)));
    assert_eq!((&me["pool_bytes"], &me["received_messages"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&you["mode"], &you["program"], &you["pid"]),
        (&json!("pool"), &json!("dp"), &json!(child.id()))
    );
    assert_eq!((&you["received_messages"], &you["received_bytes"]), (&json!(messages), &json!(bytes)));
    assert_eq!(you["pool_bytes"], 4 << 20);
    assert_eq!(you["pool_left"], 2 << 20, "one sender has half of it");
    let direct = edge(&all, "6001", "6002").unwrap();
    assert_eq!((&direct["state"], &direct["waiting"]), (&json!("edge"), &json!(0)));
    assert_eq!((&direct["messages"], &direct["bytes"]), (&json!(messages), &json!(bytes)));
    let waiting = edge(&all, "6001", "6003").unwrap();
    assert_eq!((&waiting["state"], &waiting["waiting"]), (&json!("absent"), &json!(1)));

    // Stopped: listed, in time, with what the registry says.
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    let start = Instant::now();
    let (all, _) = ls();
    assert!(start.elapsed() < Duration::from_secs(3));
    let you = of(&all, 6002).unwrap();
    assert_eq!(
        (&you["mode"], &you["pid"], &you["pool_bytes"]),
        (&json!("silent"), &json!(child.id()), &Value::Null)
    );
    let (table, said) = text();
    assert!(said.contains(&format!("did not answer within 200 ms: process {}", child.id())), "{said}");
    assert!(table.lines().any(|l| l.contains("6002") && l.contains("silent")), "{table}");
    kill(pid, Signal::SIGCONT).unwrap();

    // Closed, and dead: not listed.
    drop(mine);
    until("a closed endpoint", || of(&ls().0, 6001).is_none());
    assert!(of(&ls().0, 6002).is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(std::fs::read_link(folder().join("6002")).is_ok(), "its entry is still there");
    assert!(of(&ls().0, 6002).is_none());
    std::fs::remove_dir_all(folder()).unwrap();
}

#[test]
fn a_registry_that_cannot_be_read_does_not_end_a_watch() {
    use std::os::unix::fs::PermissionsExt;
    let open = Folder::new("open");
    std::fs::set_permissions(&open.path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["ls", "--watch=0.05", "--json-lines"]).env("DP_RUNTIME_DIR", &open.path);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = said.filter(|line| line.contains("open to everybody")).take(2).count();
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(told, 2, "it went on behind the first");
}

/// A list without lines is nothing to write, by which nobody could be told to be gone.
#[test]
fn a_watch_of_nothing_ends_where_nobody_reads() {
    let (read, write) = nix::unistd::pipe().unwrap();
    drop(read);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["ls", "--watch=0.05", "--program", "dp-no-such-program", "--state", "channel"]);
    let mut child = command.stdout(write).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
