//! Without a terminal.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{dp, Traffic};

fn run(words: &str) -> Output {
    dp().args(words.split_whitespace()).output().unwrap()
}

#[test]
fn rates_are_told_from_look_to_look() {
    let traffic = Traffic::start();
    let out = run(&format!("--batch 2 -d 0.3 --json-lines --pid {}", std::process::id()));
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    let looks = of("look");
    assert_eq!(looks.len(), 2);
    let [first, second] = [0, 1].map(|i| looks[i]["unix_seconds"].as_f64().unwrap());
    assert!(second - first > 0.25, "{text}");
    let (from, to) = (traffic.from.to_string(), traffic.to.to_string());
    let edges: Vec<_> =
        of("edge").into_iter().filter(|edge| edge["from"] == *from && edge["to"] == *to).collect();
    assert_eq!(edges.len(), 2, "{text}");
    for edge in edges {
        let [messages, bytes] =
            ["tx_messages_per_second", "tx_bytes_per_second"].map(|field| edge[field].as_f64().unwrap());
        assert!(messages > 0.0 && (bytes / messages - 10.0).abs() < 0.01, "{edge}");
    }
    let receiver = of("endpoint").into_iter().find(|endpoint| endpoint["from"] == *to).unwrap();
    assert!(receiver["rx_messages_per_second"].as_f64().unwrap() > 0.0, "{receiver}");
}

#[test]
fn text_has_tables_of_what_is_there() {
    let traffic = Traffic::start();
    let out = run(&format!("--batch=1 --interval 0.2 --pid {}", std::process::id()));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.contains(" UTC  0 programs"), "{text}");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        lines.iter().any(|line| line.starts_with(&["DPID", "PROGRAM", "PID", "MODE", "TARGET", "OUT/s"])),
        "{text}"
    );
    let (from, to) = (traffic.from.to_string(), traffic.to.to_string());
    assert!(lines.iter().any(|line| line.starts_with(&[&*from, &*to, "edge"])), "{text}");
    // Only what was asked for.
    let out = run(&format!("--batch=1 --interval 0.2 --view edge --pid {}", std::process::id()));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("FROM") && !text.contains("DPID"), "{text}");
}

#[test]
fn without_a_number_it_goes_on_until_it_is_ended() {
    let mut child = dp().args(["-b", "-d", "0.2"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reads = |out: &mut std::process::ChildStdout| std::io::Read::read(out, &mut [0; 1000]).unwrap();
    assert!(reads(&mut out) > 0 && reads(&mut out) > 0);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let start = Instant::now();
    let status = child.wait().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
    assert!(start.elapsed() < Duration::from_secs(5));
    // Nor for a reader who has seen enough.
    let mut child = dp().args(["-b", "-d", "0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    for (words, why) in [
        ("--interval", "a value is required"),
        ("--interval 0", "from 0.1 to 3600"),
        ("--interval 0.05", "from 0.1 to 3600"),
        ("--interval -1", "unexpected argument"),
        ("--interval 3601", "from 0.1 to 3600"),
        ("--interval soon", "from 0.1 to 3600"),
        ("--interval nan", "from 0.1 to 3600"),
        ("--interval inf", "from 0.1 to 3600"),
        ("--batch 0", "from 1 on"),
        ("--batch -1", "unexpected argument"),
        ("--batch 1.5", "from 1 on"),
        ("--batch many", "from 1 on"),
        ("--batch 99999999999999999999", "from 1 on"),
        ("--json-lines", "--batch"),
        ("--sort speed", "possible values: rate, tx"),
        ("--view programs", "possible values: program, connection"),
        ("--latency 7000", "an IP address with a port"),
        ("--latency localhost:x", "an IP address with a port"),
        ("--latency 127.0.0.1", "an IP address with a port"),
        ("--state live", "possible values: new, offered"),
        ("--reason none", "possible values: "),
        ("--pid redis", "the number of a process, as ps shows it"),
        ("--program a/b", "without white space"),
        ("--batch 1 --batch 2", "cannot be used multiple times"),
        ("71", "invalid value '71'|unexpected argument '71'"),
        ("--watch", "unexpected argument"),
        ("", "standard output is no terminal; --batch prints text"),
    ] {
        let out = run(words);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{words}: {said}");
        assert!(why.split('|').any(|why| said.contains(why)), "{words}: {said}");
    }
}

#[test]
fn a_channel_that_is_not_there_is_told_and_waited_for() {
    let out = run("--batch 1 -d 0.1 --latency 127.0.0.1:1 --view flow");
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.contains("no channel has the end 127.0.0.1:1"), "{text}");
}
