//! Routes of somebody else's: the example, and shared objects that lie.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use dp_route::library::{LoadError, Loaded};
use dp_route::{Frames, Received, Route};

use crate::contract;
use crate::kit::folder;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Builds a shared object with a C compiler.
fn build(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let out = folder("library").join(format!("{name}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]);
    compiler.arg(Path::new(HERE).join("include")).args(options).arg("-o").arg(&out);
    let done = compiler.arg(Path::new(HERE).join(source)).output().expect("cc, of Debian's gcc");
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    fs::set_permissions(&out, fs::Permissions::from_mode(0o755)).unwrap();
    out
}

#[test]
fn the_example_is_a_route() {
    let example = Loaded::load(&build("unix", "examples/route_unix.c", &[])).unwrap();
    assert_eq!(example.name(), "unix");
    let name = |end: &str| format!("{}-{end}", std::process::id());
    let (mut a, mut b) = (example.open(&name("a")).unwrap(), example.open(&name("b")).unwrap());
    contract::keeps(&mut a, &mut b);
    let taken = example.open(&name("a")).unwrap_err();
    assert_eq!(taken.raw_os_error(), Some(nix::errno::Errno::EADDRINUSE as i32));
    assert!(example.open("no spaces").is_err());
    drop(a);
    example.open(&name("a")).expect("it was closed");
}

/// One of the lies of `hostile.c`.
fn hostile(lie: &str) -> Result<Loaded, LoadError> {
    Loaded::load(&build(&format!("hostile-{lie}"), "tests/routes/hostile.c", &[&format!("-D{lie}")]))
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let all = [
        ("NO_TABLE", "gives no table"),
        ("OTHER_ABI", "version 2"),
        ("SHORT_TABLE", "its table has 16 bytes"),
        ("NO_NAME", "no name"),
        ("BAD_NAME", "\"a b\" cannot be its name"),
        ("TAKEN_NAME", "\"udp\" cannot be its name"),
        ("NO_FUNCTION", "a function is missing"),
        ("NO_SYMBOL", "dp_route_table"),
    ];
    for (lie, says) in all {
        let error = hostile(lie).expect_err(lie).to_string();
        assert!(error.contains(says), "{lie}: {error}");
    }
}

#[test]
fn answers_that_cannot_be_end_the_route() {
    for lie in ["NO_STATE", "BAD_DESCRIPTOR", "LONG_SLOT", "WILD_ERROR"] {
        let error = hostile(lie).unwrap().open("x").expect_err(lie);
        assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::EPROTO as i32), "{lie}: {error}");
    }
    let one = Frames::new(&[1], &[1]).unwrap();
    type Try = fn(&mut dyn Route, &mut Received, Frames<'_>) -> std::io::Result<usize>;
    let recv: Try = |route, room, _| route.recv(room);
    let send: Try = |route, _, one| route.send(&route.local(), one);
    let mtu: Try = |route, _, _| route.mtu(&route.local());
    let all = [
        ("MANY_SLOTS", recv),
        ("LONG_FRAME", recv),
        ("EMPTY_FRAME", recv),
        ("NO_EACH", recv),
        ("LONG_EACH", recv),
        ("ENDLESS_FROM", recv),
        ("BAD_FROM", recv),
        ("MANY_SENT", send),
        ("ZERO_MTU", mtu),
    ];
    for (lie, attempt) in all {
        let mut route = hostile(lie).unwrap().open("x").expect(lie);
        let mut room = Received::new(32, route.slot());
        for round in ["the first time", "and for good"] {
            let error = attempt(&mut route, &mut room, one).expect_err(lie);
            assert_eq!(
                error.raw_os_error(),
                Some(nix::errno::Errno::EPROTO as i32),
                "{lie}, {round}: {error}"
            );
            assert_eq!(room.iter().count(), 0);
        }
        assert!(route.remark().expect(lie).contains("the library's"), "{lie}");
        assert!(route.refresh().is_err(), "it is not called again");
    }
}

#[test]
fn files_that_are_no_route_are_refused() {
    let missing = Loaded::load(Path::new("/nowhere/route.so")).unwrap_err();
    assert!(matches!(missing, LoadError::File { .. }), "{missing}");
    let text = folder("library").join("text.so");
    fs::write(&text, "not a program").unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Loaded::load(&text).unwrap_err();
    assert!(matches!(error, LoadError::Linker { .. }), "{error}");
    let open = build("writable", "examples/route_unix.c", &[]);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Loaded::load(&open).unwrap_err();
    assert!(matches!(error, LoadError::Writable(_)), "{error}");
}

#[test]
fn the_header_is_c_and_cpp_and_says_what_the_loader_knows() {
    build("checks", "tests/routes/hostile.c", &["-DSIZES", "-pedantic"]);
    let source = folder("library").join("header.cc");
    fs::write(&source, "#include \"dp_route.h\"\nstatic_assert(DP_ROUTE_ABI == 1, \"\");\n").unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
    let status = compiler.arg(Path::new(HERE).join("include")).arg(&source).status();
    assert!(status.expect("c++, of Debian's g++").success());
}
