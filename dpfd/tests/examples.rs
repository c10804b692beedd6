//! The examples in Rust run, and say what they should. Those in C and Python are tested with libdp.
//!
//! Needs the feature `tokio`, as one of them does, and `cargo build --examples` with it before.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Runs an example, in a folder of endpoints of its own and for a minute at most; what it prints.
fn says(line: &str) -> String {
    let mut words = line.split_whitespace();
    let name = words.next().expect("an example's name");
    let test = std::env::current_exe().expect("this test");
    let program = test.ancestors().nth(2).expect("target/PROFILE").join("examples").join(name);
    assert!(
        program.exists(),
        "{}: not built, run cargo build --features tokio --examples",
        program.display()
    );
    let place = folder(line);
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(program).args(words).env("DP_RUNTIME_DIR", &place);
    let output = command.output().expect("timeout, of Debian's coreutils");
    let _ = std::fs::remove_dir_all(place);
    assert!(
        output.status.success(),
        "{line}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn folder(line: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dp-example-{}-{}", std::process::id(), line.replace(' ', "-")))
}

#[test]
fn epoll100() {
    assert_eq!(says("epoll100"), "100 endpoints, 1000 answers\n");
}

#[test]
fn figure1_sends_along_five_edges() {
    // Processes print when they get something: in any order.
    let said = says("figure1");
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let edges = [
        "P1 got <1,2> -> <3,1>",
        "P1 got <6,1> -> <1,1>",
        "P2 got <1,1> -> <5,1>",
        "P3 got <2,1> -> <2,2>",
        "P4 got <8,2> -> <3,3>",
    ];
    assert_eq!(lines, edges);
}

/// Whether this kernel lets us have an io_uring; says so if not.
fn uring_is_there() -> bool {
    let Err(e) = io_uring::IoUring::new(1) else { return true };
    if let Some(list) = std::env::var_os("DP_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).open(list).expect("the list of skips");
        writeln!(file, "SKIP: examples uring: no io_uring: {e}").expect("the list of skips");
    }
    false
}

#[test]
fn uring_reads_in_the_best_way_there_is_and_in_older_ones() {
    if !uring_is_there() {
        return;
    }
    let said = says("uring");
    let (how, rest) = said.split_once(": ").expect("how, and what came");
    assert!(["read-multishot", "recv-multishot", "read"].contains(&how), "{said}");
    assert_eq!(rest, "1000 messages\n");
    if how == "read-multishot" {
        assert_eq!(says("uring recv-multishot"), "recv-multishot: 1000 messages\n");
    }
    assert_eq!(says("uring read"), "read: 1000 messages\n");
}

#[test]
fn tokio_echo() {
    assert_eq!(says("tokio_echo"), "10 clients, 1000 answers\n");
}
