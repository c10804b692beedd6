//! The header, the names, the links.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use compat_tests::tools::needed;

use crate::kit::{package, release, root, run, Linked, Place, WARNINGS};

fn compiles(compiler: &str, package_of: &str, language: &str, standard: &str) {
    let place = Place::new();
    let source = place.path().join("only_the_header");
    fs::write(&source, "#include <dp.h>\nint main(void) { return DP_OPT_SPIN - 1; }\n").expect("our folder");
    let mut command = Command::new(needed(compiler, package_of));
    command.args(["-x", language, standard, "-c", "-o", "/dev/null"]).args(WARNINGS);
    run(command.arg("-I").arg(package("include")).arg(source));
}

#[test]
fn the_header_is_c99() {
    compiles("gcc", "gcc", "c", "-std=c99");
}

#[test]
fn the_header_is_cpp17() {
    compiles("g++", "g++", "c++", "-std=c++17");
}

#[test]
fn the_library_exports_what_the_list_says() {
    let mut nm = Command::new(needed("nm", "binutils"));
    let out = run(nm.args(["-D", "--defined-only"]).arg(release().join("libdp.so")));
    let text = String::from_utf8(out.stdout).expect("names");
    let exported: BTreeSet<_> = text.lines().filter_map(|l| l.split_whitespace().nth(2)).collect();
    let golden = fs::read_to_string(package("tests/golden/exports.txt")).expect("the list");
    assert_eq!(exported, golden.lines().collect::<BTreeSet<_>>());
}

/// Every call has a declaration, a place in the version script, and a page.
#[test]
fn header_script_and_manual_agree() {
    let read = |path| fs::read_to_string(path).expect("a file of ours");
    let header = read(package("include/dp.h"));
    let (script, golden) = (read(package("libdp.map")), read(package("tests/golden/exports.txt")));
    for name in golden
        .lines()
        .filter_map(|l| l.split_once("@@").map(|(name, _)| name))
        .filter(|n| n.starts_with("dp_"))
    {
        assert!(header.contains(&format!("{name}(")), "{name} is not in dp.h");
        assert!(script.contains(&format!(" {name};")), "{name} is not in libdp.map");
        let page = read(root().join(format!("man/{name}.3")));
        for section in ["SYNOPSIS", "DESCRIPTION", "RETURN VALUES", "ERRORS", "EXAMPLES", "SEE ALSO"] {
            assert!(page.contains(&format!(".Sh {section}\n")), "{name}(3) has no {section}");
        }
    }
}

#[test]
fn the_shared_library_has_its_soname() {
    let mut readelf = Command::new(needed("readelf", "binutils"));
    let out = run(readelf.arg("-d").arg(release().join("libdp.so")));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("Library soname: [libdp.so.1]"), "{text}");
}

#[test]
fn programs_link_statically_and_shared() {
    for linked in [Linked::Static, Linked::Shared] {
        let place = Place::new();
        let program = place.compile(&package("tests/c/talk.c"), linked);
        place.passes(place.command(&program));
    }
}

#[test]
fn a_program_runs_with_the_shim_preloaded() {
    let shim = release().join("libdp_preload.so");
    assert!(shim.exists(), "{}: run make build", shim.display());
    let place = Place::new();
    let program = place.compile(&package("tests/c/talk.c"), Linked::Shared);
    let mut command = place.command(&program);
    command.env("LD_PRELOAD", shim);
    place.passes(command);
}
