//! A program of another C library, as those of Alpine are: it is told so in words, and runs on TCP as ever.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use compat_tests::programs::target_dir;
use compat_tests::tools::{needed, TempDir};

const SOURCE: &str = "#include <stdio.h>\nint main(void) { return puts(\"ran\") < 0; }\n";

/// A dynamically linked program of musl's, where musl is.
fn program(folder: &TempDir) -> PathBuf {
    let (source, program) = (folder.file("ran.c"), folder.file("ran"));
    fs::write(&source, SOURCE).expect("a source");
    let mut compiler = Command::new(needed("musl-gcc", "musl-tools"));
    let out = compiler.arg("-o").args([&program, &source]).output().expect("musl-gcc runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    program
}

/// Exit status, standard output, standard error.
fn said(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it is started");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn dp() -> Command {
    let mut dp = Command::new(target_dir().join("release/dp"));
    dp.env_remove("LD_PRELOAD").env("DP_SHIM", target_dir().join("release/libdp_preload.so"));
    dp
}

#[test]
fn it_is_refused_and_runs_anyway_without_the_shim() {
    let folder = TempDir::new();
    let program = program(&folder);
    let why =
        ["uses the loader /lib/ld-musl-", "of musl", "the shim is for glibc's", "take its build for glibc"];
    for dry in [&[][..], &["--dry-run"]] {
        let (code, out, err) = said(dp().arg("run").args(dry).arg("--").arg(&program));
        assert_eq!(code, Some(126), "{out}{err}");
        assert!(!out.starts_with("ran"), "{out}");
        let way_out = ["it was not started", "dp run --anyway starts it without the shim"];
        for words in why.iter().chain(&way_out) {
            assert!(err.contains(words), "{words:?} is not in {err:?}");
        }
    }
    let (code, out, err) = said(dp().args(["run", "--anyway", "--"]).arg(&program));
    assert_eq!((code, out.as_str()), (Some(0), "ran\n"), "{err}");
    for words in why {
        assert!(err.contains(words), "{words:?} is not in {err:?}");
    }
    let (code, out, err) = said(dp().args(["run", "--anyway", "--dry-run", "--"]).arg(&program));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("shim: none, ") && out.contains("of musl"), "{out}");
}

#[test]
fn doctor_tells_the_way_out() {
    let folder = TempDir::new();
    let program = program(&folder);
    let (code, out, err) = said(dp().arg("doctor").arg(&program));
    assert_eq!(code, Some(1), "{err}");
    assert!(
        out.contains("BAD   program: ")
            && out.contains("of musl")
            && out.contains("-> take its build for glibc"),
        "{out}"
    );
}

#[test]
fn a_service_of_such_a_program_is_not_enabled() {
    let (folder, tree) = (TempDir::new(), TempDir::new());
    let program = program(&folder);
    for (path, bytes) in [
        ("usr/lib/dp/libdp_preload.so", Vec::new()),
        ("usr/bin/ran", fs::read(program).expect("the program")),
        ("usr/lib/systemd/system/ran.service", b"[Service]\nExecStart=/usr/bin/ran\n".to_vec()),
    ] {
        let file = tree.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        fs::write(file, bytes).expect("a file");
    }
    let (code, _, err) = said(dp().env_remove("DP_SHIM").args(["enable", "ran", "--root"]).arg(tree.path()));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("of musl") && err.contains("take its build for glibc"), "{err}");
    assert!(!tree.path().join("etc/systemd/system/ran.service.d").exists());
}
