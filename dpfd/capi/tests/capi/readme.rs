//! The programs in C and Python that README.md shows do what it says. The one in Rust is a test of the documentation of
//! `dpfd`.

use std::fs;

use compat_tests::tools::needed;

use crate::kit::{release, root, Linked, Place};

/// The only block of README in this language, as a file of this name.
fn block(place: &Place, language: &str, name: &str) -> std::path::PathBuf {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    let blocks: Vec<&str> = text
        .split(&format!("\n```{language}\n"))
        .skip(1)
        .map(|rest| rest.split("\n```\n").next().expect("its end"))
        .collect();
    assert_eq!(blocks.len(), 1, "blocks in {language}");
    let path = place.path().join(name);
    fs::write(&path, format!("{}\n", blocks[0])).expect("our folder");
    path
}

#[test]
fn the_program_in_c_says_hello() {
    let place = Place::new();
    let source = block(&place, "c", "hello.c");
    let program = place.compile(&source, Linked::Shared);
    let ended = place.ended("hello", place.command(&program));
    assert!(ended.ok() && ended.transcript == "hello\n", "{}", ended.text());
}

#[test]
fn the_program_in_python_says_hello() {
    let place = Place::new();
    let script = block(&place, "python", "hello.py");
    let mut command = place.command(&needed("python3", "python3"));
    command.arg(script).env("LD_LIBRARY_PATH", release());
    let ended = place.ended("hello", command);
    assert!(ended.ok() && ended.transcript == "hello\n", "{}", ended.text());
}
