//! The examples of `examples/` run, and say what they should; none is longer than 100 lines.

use std::fs;

use compat_tests::tools::needed;

use crate::kit::{release, root, Linked, Place};

/// Compiles and runs an example; what it prints.
fn says(name: &str, arguments: &[&str]) -> String {
    let place = Place::new();
    let program = place.compile(&root().join("examples").join(name), Linked::Shared);
    let mut command = place.command(&program);
    command.args(arguments);
    let ended = place.ended("example", command);
    assert!(ended.ok(), "{name}: {}", ended.text());
    ended.transcript
}

#[test]
fn pingpong_plain() {
    assert!(says("pingpong_plain.c", &["1000"]).contains("1000 round trips"));
}

#[test]
fn inplace() {
    assert_eq!(says("inplace.c", &[]), "1000 messages, 499500 bytes, none copied by the receiver\n");
}

#[test]
fn select() {
    assert_eq!(says("select.c", &[]), "left: 500 messages\nright: 500 messages\n");
}

#[test]
fn threads() {
    assert_eq!(says("threads.c", &[]), "sent 10000, received 10000, sum 49995000\n");
}

#[test]
fn epoll100() {
    assert_eq!(says("epoll100.c", &[]), "100 endpoints, 1000 answers\n");
}

#[test]
fn python_reads_and_writes_an_inherited_endpoint() {
    let python = needed("python3", "python3-minimal");
    let script = root().join("examples/plain_fd.py");
    let said = says("give_endpoint.c", &[&python.to_string_lossy(), &script.to_string_lossy()]);
    assert_eq!(said, "echo: one\necho: two\necho: three\n");
}

/// Runs an example in Python that opens endpoints itself; what it prints.
fn python_says(script: &str) -> String {
    let place = Place::new();
    let mut command = place.command(&needed("python3", "python3"));
    command.arg(root().join("examples").join(script)).env("LD_LIBRARY_PATH", release());
    let ended = place.ended("example", command);
    assert!(ended.ok(), "{script}: {}", ended.text());
    ended.transcript
}

#[test]
fn python_opens_endpoints() {
    assert_eq!(python_says("ctypes_pingpong.py"), "100 round trips\n");
}

#[test]
fn asyncio_waits_for_endpoints() {
    assert_eq!(python_says("asyncio_echo.py"), "1000 answers to 10 clients\n");
}

#[test]
fn examples_are_short() {
    for entry in fs::read_dir(root().join("examples")).expect("examples").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "c" || e == "py" || e == "rs") {
            let lines = fs::read_to_string(&path).expect("text").lines().count();
            assert!(lines <= 100, "{}: {lines} lines", path.display());
        }
    }
}
