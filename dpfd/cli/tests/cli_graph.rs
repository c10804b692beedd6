//! `dp graph`: what it says, draws and compiles, and what a program does that is given a graph.

mod kit;
mod page;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dpfd::driver::Driver;
use dpfd::{Addr, Endpoint};
use kit::{until, Folder};
use serde_json::{json, Value};

const PAGE: &str = include_str!("../../../man/dp-graph.1");
const FIGURE1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/figure1.toml");

fn dp(folder: &Folder, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.arg("graph").args(words).current_dir(&folder.path);
    command
        .env("DP_RUNTIME_DIR", folder.path.join("endpoints"))
        .env("DP_DRIVER", "user")
        .env_remove("DP_NID");
    command.output().unwrap()
}

/// Standard output of what succeeds and says nothing else.
fn said(folder: &Folder, words: &[&str]) -> String {
    let out = dp(folder, words);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && errors.is_empty(), "{}: {errors}", out.status);
    String::from_utf8(out.stdout).unwrap()
}

/// Exit status and standard error of what fails.
fn failed(folder: &Folder, words: &[&str]) -> (i32, String) {
    let out = dp(folder, words);
    (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
}

fn broken(folder: &Folder) -> PathBuf {
    let text =
        fs::read_to_string(FIGURE1).unwrap().replace("[5, 6]", "[5, 6, 2]").replace("\"3/3\"", "\"3/9\"");
    folder.file("broken.toml", &text)
}

#[test]
fn a_sound_graph_is_counted() {
    let folder = Folder::new("sound");
    let text = said(&folder, &["check", FIGURE1]);
    assert!(text.ends_with("figure1.toml: 3 nodes, 4 processes, 10 endpoints, 5 edges\n"), "{text}");
    let report: Value = serde_json::from_str(&said(&folder, &["check", FIGURE1, "--json"])).unwrap();
    assert_eq!(
        (&report["version"], &report["sound"], &report["strict"]),
        (&json!(1), &json!(true), &json!(false))
    );
    assert_eq!((&report["endpoints"], &report["faults"]), (&json!(10), &json!([])));
    page::documents(PAGE, &report, &[]);
    folder.file("one.toml", "strict = true\n[[node]]\nnid = 1\n");
    let text = said(&folder, &["check", "one.toml"]);
    assert_eq!(text, "one.toml: 1 node, 0 processes, 0 endpoints, 0 edges, strict\n");
}

/// Two nodes with an address each, and these lines about security.
fn cluster(folder: &Folder, lines: &str) -> PathBuf {
    let node = |nid| format!("[[node]]\nnid = {nid}\nroutes = [\"udp:192.0.2.{nid}:7100\", \"sim:{nid}\"]\n");
    folder.file("cluster.toml", &format!("{lines}{}{}", node(1), node(2)))
}

#[test]
fn a_key_is_made_once_and_for_its_owner_alone() {
    let folder = Folder::new("key");
    assert_eq!(said(&folder, &["key", "cluster.key"]), "");
    let path = folder.path.join("cluster.key");
    let key = fs::read_to_string(&path).unwrap();
    assert_eq!((key.len(), fs::metadata(&path).unwrap().permissions().mode() & 0o777), (65, 0o600));
    let (status, told) = failed(&folder, &["key", "cluster.key"]);
    assert!(status == 1 && told.starts_with("dp graph: cluster.key: it exists"), "{told}");
    assert_eq!(fs::read_to_string(&path).unwrap(), key);
}

#[test]
fn a_check_looks_at_the_key_and_says_what_holds_on_each_route() {
    let folder = Folder::new("trust");
    cluster(&folder, "");
    let (status, told) = failed(&folder, &["check", "cluster.toml"]);
    assert!(
        status == 1 && told.contains("cluster.toml:3:11: frames on udp are to be authenticated"),
        "{told}"
    );
    assert!(told.contains("`dp graph key cluster.key`") && told.contains("security = \"none\""), "{told}");
    cluster(&folder, "[security]\nkey = \"keys/a\"\n");
    let (_, told) = failed(&folder, &["check", "cluster.toml"]);
    assert!(told.starts_with("cluster.toml:2:7: \"keys/a\": there is no such file\n"), "{told}");
    fs::create_dir(folder.path.join("keys")).unwrap();
    said(&folder, &["key", "keys/a"]);
    let text = said(&folder, &["check", "cluster.toml"]);
    let (counts, routes) = text.split_once('\n').unwrap();
    assert_eq!(counts, "cluster.toml: 2 nodes, 0 processes, 0 endpoints, 0 edges");
    let lines: Vec<_> = routes.lines().collect();
    let udp = "cluster.toml: route udp: security authenticate, users squash";
    assert_eq!(lines, [udp, "cluster.toml: route sim: security none, users squash"]);
    // The name is seen from the graph's own folder.
    let above = folder.path.join("cluster.toml");
    let out = Command::new(env!("CARGO_BIN_EXE_dp"))
        .args(["graph", "check", "--json"])
        .arg(&above)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["routes"][0], json!({"route": "udp", "security": "authenticate", "users": "squash"}));
    page::documents(PAGE, &report, &[]);
    fs::set_permissions(folder.path.join("keys/a"), fs::Permissions::from_mode(0o644)).unwrap();
    let (_, told) = failed(&folder, &["check", "cluster.toml"]);
    assert!(told.contains("its mode is 0644") && told.contains("= make a new one"), "{told}");
    // Drawing needs no key.
    said(&folder, &["draw", "cluster.toml"]);
}

#[test]
fn all_faults_are_told_with_their_lines() {
    let folder = Folder::new("faults");
    broken(&folder);
    let (status, told) = failed(&folder, &["check", "broken.toml"]);
    assert_eq!(status, 1);
    assert!(
        told.starts_with("broken.toml:25:20: endpoint 2 of process P2 is one of process P1 already"),
        "{told}"
    );
    assert!(told.contains("broken.toml:51:6: the edge 2/8 -> 3/9 ends at 3/9"), "{told}");
    assert!(told.ends_with("\ndp graph: broken.toml: no graph: 2 faults\n"), "{told}");
    // Whoever wants something else of it hears the same.
    for verb in ["draw", "compile", "live"] {
        assert_eq!(failed(&folder, &[verb, "broken.toml"]), (1, told.clone()));
    }
    let out = dp(&folder, &["check", "broken.toml", "--json"]);
    assert_eq!((out.status.code(), &out.stderr[..]), (Some(1), &b""[..]));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&report["sound"], &report["nodes"]), (&json!(false), &Value::Null));
    let fault = &report["faults"][0];
    assert_eq!(
        (&fault["rule"], &fault["line"], &fault["column"]),
        (&json!("shared-endpoint"), &json!(25), &json!(20))
    );
    page::documents(PAGE, &report, &[]);
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let folder = Folder::new("named");
    let (status, told) = failed(&folder, &["check", "absent.toml"]);
    let absent = "dp graph: absent.toml: No such file or directory (os error 2); dp-graph.toml(5) tells how to write one\n";
    assert_eq!((status, &*told), (1, absent));
    fs::write(folder.path.join("bytes.toml"), b"a\n\xff").unwrap();
    let (status, told) = failed(&folder, &["check", "bytes.toml"]);
    assert!(status == 1 && told.contains("bytes.toml: line 2 is not UTF-8"), "{told}");
    let (status, told) = failed(&folder, &["draw", FIGURE1, "--out", "no/such/folder.svg"]);
    assert!(status == 1 && told.contains("no/such/folder.svg: No such file"), "{told}");
    for name in ["picture", "picture.jpg"] {
        let (status, told) = failed(&folder, &["draw", FIGURE1, "--out", name]);
        assert!(
            status == 2 && told.contains(name) && told.contains(".svg") && told.contains("Usage"),
            "{told}"
        );
    }
}

/// A pipe that nobody writes to would be waited for, by a unit that is to start above all.
#[test]
fn a_pipe_by_its_name_is_no_graph_and_one_of_the_shell_is() {
    let folder = Folder::new("pipe");
    let pipe = folder.path.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for words in [&["check", "pipe"][..], &["check", "--json", "pipe"], &["draw", "pipe"], &["live", "pipe"]]
    {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "20", env!("CARGO_BIN_EXE_dp"), "graph"]).args(words);
        command.current_dir(&folder.path).env("DP_RUNTIME_DIR", folder.path.join("endpoints"));
        let out = command.env("DP_DRIVER", "user").stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.code() == Some(1) && told.contains("pipe: a pipe, and no file"),
            "{words:?}: {told}"
        );
    }
    let script = format!("cat {FIGURE1} | {0} graph check /dev/stdin", env!("CARGO_BIN_EXE_dp"));
    let out = Command::new("timeout").args(["-s", "KILL", "20", "sh", "-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.ends_with("/dev/stdin: 3 nodes, 4 processes, 10 endpoints, 5 edges\n"), "{said}");
}

#[test]
fn pictures_are_of_the_kind_that_their_name_says() {
    let folder = Folder::new("pictures");
    let dot = said(&folder, &["draw", FIGURE1]);
    assert!(dot.starts_with("digraph") && dot.contains("\"1/2\" -> \"2/2\""), "{dot}");
    for name in ["p.dot", "p.gv", "p.svg", "p.png"] {
        assert_eq!(said(&folder, &["draw", FIGURE1, "--out", name]), "");
    }
    let read = |name: &str| fs::read(folder.path.join(name)).unwrap();
    assert_eq!(read("p.dot"), dot.as_bytes());
    assert_eq!(read("p.gv"), dot.as_bytes());
    let svg = String::from_utf8(read("p.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    assert_eq!(svg.matches("<text").count(), 3 + 4 + 10, "nodes, processes, endpoints");
    assert_eq!(svg.matches("Z\" fill").count(), 5, "arrows");
    // `graph/raster/tests.rs` looks for what is in it.
    let drawn = png::Decoder::new(std::io::Cursor::new(read("p.png"))).read_info().unwrap();
    let of_svg = |name: &str| {
        let text = svg.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        text.unwrap().parse::<f64>().unwrap()
    };
    // Two pixels a unit, of what the one rounds up before that and the other after it.
    for (name, pixels) in [("width", drawn.info().width), ("height", drawn.info().height)] {
        assert!((2.0 * of_svg(name) - f64::from(pixels)).abs() <= 1.0, "{name}: {pixels}");
    }
}

fn strict(folder: &Folder) -> PathBuf {
    folder.file(
        "strict.toml",
        "strict = true\n[[node]]\nnid = 1\n[[process]]\nname = \"a\"\nnode = 1\nendpoints = [7301]\n[[process]]\nname = \
         \"b\"\nnode = 1\nendpoints = [7302, 7303]\n[[edge]]\nfrom = \"1/7301\"\nto = \"1/7302\"\n",
    )
}

/// One test, or endpoints of the one would be seen by the other: this process has one registry.
#[test]
fn what_runs_is_drawn_beside_the_file() {
    let folder = Folder::new("live");
    let file = strict(&folder);
    let file = file.to_str().unwrap();
    assert!(!said(&folder, &["live", "--only", "endpoints"]).contains("cluster"), "nothing runs");
    std::env::set_var("DP_RUNTIME_DIR", folder.path.join("endpoints"));
    let open = |dpid| Endpoint::open_on(Driver::User, dpid).unwrap();
    let (one, two, other) = (open(7301), open(7302), open(7309));
    one.send_to(b"x", Addr::local(7302)).unwrap();
    other.send_to(b"x", Addr::local(7302)).unwrap();

    let alone = said(&folder, &["live", "--only", "endpoints"]);
    assert!(alone.contains("\"1/7301\" -> \"1/7302\" [style=solid]"), "{alone}");
    let beside = said(&folder, &["live", file]);
    let has = |line: &str| assert!(beside.contains(line), "{line} in {beside}");
    has("\"1/7301\" [label=\"7301\"];");
    has("\"1/7303\" [label=\"7303\", style=dashed, color=gray40];");
    has("\"1/7309\" [label=\"7309\", style=bold, color=red3];");
    has("\"1/7301\" -> \"1/7302\" [style=solid];");
    has("\"1/7309\" -> \"1/7302\" [style=bold, color=red3];");
    has(&format!("label=\"a = {} {}\"", comm(), std::process::id()));
    for words in [&["live", "--json"][..], &["live", file, "--json"]] {
        let picture: Value = serde_json::from_str(&said(&folder, words)).unwrap();
        let lists = ["processes", "edges"].map(|list| picture[list].as_array().unwrap().len());
        assert!(lists.iter().all(|&n| n > 0), "{picture}");
        page::documents(PAGE, &picture, &[]);
    }
    said(&folder, &["live", file, "--out", "live.svg"]);
    let svg = fs::read_to_string(folder.path.join("live.svg")).unwrap();
    assert!(svg.contains("runs, and is not in the file") && svg.contains("does not run"), "{svg}");

    // An endpoint whose target is changed has an edge to the new one.
    two.target(Addr::local(7301)).unwrap();
    two.send(b"x").unwrap();
    assert!(said(&folder, &["live", file]).contains("\"1/7302\" -> \"1/7301\" [style=bold"));
    let next = open(7308);
    two.target(Addr::local(7308)).unwrap();
    two.send(b"x").unwrap();
    let retargeted = said(&folder, &["live", file]);
    assert!(retargeted.contains("\"1/7302\" -> \"1/7308\" [style=bold"), "{retargeted}");
    assert!(!retargeted.contains("\"1/7302\" -> \"1/7301\""), "the former edge: {retargeted}");
    // A sender that writes to the former target by its address has both edges.
    two.send_to(b"x", Addr::local(7301)).unwrap();
    let both = said(&folder, &["live", file]);
    for to in [7301, 7308] {
        assert!(both.contains(&format!("\"1/7302\" -> \"1/{to}\" [style=bold")), "{to}: {both}");
    }
    // As dp_target(3) says that an edge is ended, whatever made it.
    two.target(Addr::local(7301)).unwrap();
    two.target(Addr::local(7308)).unwrap();
    let ended = said(&folder, &["live", file]);
    assert!(ended.contains("\"1/7302\" -> \"1/7308\" [style=bold"), "{ended}");
    assert!(!ended.contains("\"1/7302\" -> \"1/7301\""), "the edge that was ended: {ended}");
    drop(next);

    // What ends is gone from the picture.
    drop(other);
    until("no endpoint that ended", || !said(&folder, &["live", file]).contains("7309"));
    drop((one, two));
}

fn comm() -> String {
    fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_string()
}

/// `dp send` with a graph, from 7301 to this endpoint: its status, and what it says.
fn send(folder: &Folder, graph: &Path, to: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["send", to, "--lines", "--from", "7301", "--timeout", "0.2"]).env("DP_GRAPH", graph);
    command.env("DP_RUNTIME_DIR", folder.path.join("others")).env("DP_DRIVER", "user").env_remove("DP_NID");
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(b"hello\n");
    let out = child.wait_with_output().unwrap();
    (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_program_with_a_strict_graph_sends_along_its_edges_only() {
    let folder = Folder::new("given");
    let file = strict(&folder);
    let (toml, compiled) = (file.to_str().unwrap(), folder.path.join("strict.dpg"));
    said(&folder, &["compile", toml, "--out", compiled.to_str().unwrap()]);
    let text = fs::read_to_string(&compiled).unwrap();
    assert_eq!(text, "dp-graph 1\nstrict\nedge 1/7301 1/7302\nend\n");
    assert_eq!(said(&folder, &["compile", toml]), text);

    // Nobody is there, which is another matter.
    assert_eq!(send(&folder, &compiled, "7302").0, 3);
    let (status, told) = send(&folder, &compiled, "7303");
    assert!(status == 1 && told.contains("no edge 1/7301 -> 1/7303"), "{status} {told}");
    let (status, told) = send(&folder, &file, "7302");
    assert!(
        status == 1
            && told.contains("strict.toml: no compiled graph; name a file that dp graph compile made"),
        "{told}"
    );
}
