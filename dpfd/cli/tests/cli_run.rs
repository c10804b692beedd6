//! What `dp run` says of the environment before it becomes the program. The shim itself is silent.

mod kit;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kit::{skip, Folder};

/// `dp run` of a program that says "ran", with these variables.
fn run(environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_dp"), "run", "--", "/bin/echo", "ran"]);
    // This file is no shim, and the loader ignores it with a word of its own; what `dp` says comes before.
    command.env("DP_SHIM", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    command.envs(environment.iter().copied()).output().unwrap()
}

#[track_caller]
fn told(environment: &[(&str, &str)], words: &str) {
    let out = run(environment);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{environment:?}: {said}");
    assert!(said.contains(words), "{words:?} is not in {said:?}");
    assert!(out.stdout.is_empty(), "{environment:?}: it ran");
}

#[test]
fn a_number_that_the_shim_would_not_take_is_an_error() {
    told(
        &[("DP_AFTER", "many")],
        "dp run: DP_AFTER=many: not a whole number; 0 to 1048576 calls can stand there, the default is 3: correct it, or \
         unset DP_AFTER",
    );
    told(&[("DP_RING", "1024")], "DP_RING=1024: too small; 4096 to 67108864 bytes");
    told(&[("DP_RING_LONG", "4M")], "DP_RING_LONG=4M: not a whole number; 0 to 67108864 bytes");
    told(&[("DP_SPIN", "1000001")], "DP_SPIN=1000001: too large; 0 to 1000000 nanoseconds");
    told(&[("DP_CHAOS", "-1")], "DP_CHAOS=-1: not a whole number");
    told(
        &[("DP_LOG", "stdout")],
        "dp run: DP_LOG=stdout: no place to write to; stderr, journal or the absolute path",
    );
    told(
        &[("DP_LOG", "stderr:debgu")],
        "DP_LOG=stderr:debgu: what stands behind the colon is no level; warning, info",
    );
    told(&[("DP_LOG", "/nonexistent/dp")], "dp run: DP_LOG: /nonexistent/dp: No such file or directory");
    told(&[("DP_NID", "0")], "DP_NID=0: too small; 1 to 65534");
}

#[test]
fn numbers_in_their_range_and_empty_ones_are_taken() {
    for environment in [
        &[("DP_AFTER", "0"), ("DP_RING", "4096"), ("DP_RING_LONG", "0"), ("DP_SPIN", "1000000")][..],
        &[("DP_AFTER", ""), ("DP_RING", " 8192 "), ("DP_CHAOS", "7")],
        &[("DP_LOG", ""), ("DP_LONG", "1")],
        &[("DP_LOG", "stderr:debug")],
        // Without the shim nothing reads them.
        &[("DP_AFTER", "many"), ("DP_DISABLE", "1")],
    ] {
        let out = run(environment);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.stdout, b"ran\n", "{environment:?}: {said}");
        assert!(!said.contains("dp run"), "{said}");
    }
}

#[test]
fn a_name_with_a_slip_is_a_warning() {
    let out = run(&[("DP_AFTR", "9"), ("DP_RINGLONG", "0"), ("DP_MY_OWN", "1"), ("DP_SKIPS", "")]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.stdout, b"ran\n", "{said}");
    for words in ["warning: DP_AFTR is not known, and does nothing; is it DP_AFTER?", "DP_RING_LONG?"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(said.matches("warning").count(), 2, "{said}");
}

/// What `script` prints, where `DP` is what stands before a program: nothing, or `dp run`.
fn printed(script: &str, dp: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "sh", "-c", script]).env("DP", dp);
    let out = command.env("DP_SHIM", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn the_program_begins_with_the_signals_and_descriptors_that_it_would_have_had() {
    for script in [
        // systemd ignores SIGPIPE for services.
        "trap '' PIPE; $DP grep SigIgn /proc/self/status",
        "$DP grep SigIgn /proc/self/status",
        // Descriptors that are closed are not there.
        "$DP /bin/sh -c 'test -e /proc/self/fd/0 || echo closed' <&-",
        "$DP /bin/sh -c 'test -e /proc/self/fd/2 || echo closed' 2>&-",
        "$DP /bin/sh -c 'test -e /proc/self/fd/0 && echo open' </dev/null",
    ] {
        let (natively, under) =
            (printed(script, ""), printed(script, concat!(env!("CARGO_BIN_EXE_dp"), " run --")));
        assert!(!natively.is_empty(), "{script}");
        assert_eq!(under, natively, "{script}");
    }
}

/// An executable file.
fn script(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let path = folder.file(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A program that says "ran" and what it has for `LD_PRELOAD`.
fn program(folder: &Folder, name: &str, options: &[&str]) -> PathBuf {
    program_with(folder, name, options, "")
}

/// The same, with this beside it.
fn program_with(folder: &Folder, name: &str, options: &[&str], beside: &str) -> PathBuf {
    const SOURCE: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { const char *preload = \
                          getenv(\"LD_PRELOAD\"); return printf(\"ran %s\\n\", preload ? preload : \"alone\") < 0; }\n";
    let (source, program) = (folder.file("source.c", &(SOURCE.to_owned() + beside)), folder.path.join(name));
    let out = Command::new("cc").args(options).arg("-o").args([&program, &source]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    program
}

const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

/// `dp run` with these options of this program.
fn dp_run(options: &[&str], program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_dp"), "run"]).args(options).arg("--").arg(program);
    // No test sees a shim of whoever runs it.
    command.env("DP_SHIM", SHIM).env_remove("LD_PRELOAD").env_remove("ASAN_OPTIONS");
    command
}

fn said(command: &mut Command) -> (Option<i32>, String, String) {
    let out = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// It is not run, and the same is told of a dry run; `words` tell why and the way out.
#[track_caller]
fn refused(program: &Path, words: &[&str]) {
    for options in [&[][..], &["--dry-run"]] {
        let (code, out, err) = said(&mut dp_run(options, program));
        assert_eq!(code, Some(126), "{out}{err}");
        assert!(!out.contains("ran "), "{out}");
        for words in words.iter().chain(&["; it was not started; way out: ", "dp run --anyway starts it "]) {
            assert!(err.contains(words), "{words:?} is not in {err:?}");
        }
    }
}

#[test]
fn a_program_that_loads_no_shim_is_refused_and_runs_anyway() {
    let folder = Folder::new("static");
    let program = program(&folder, "static", &["-static"]);
    let name = program.to_str().unwrap();
    refused(
        &program,
        &[name, "is statically linked", "linked dynamically", "with the shim for what it starts"],
    );
    let (code, out, err) = said(&mut dp_run(&["--anyway"], &program));
    assert_eq!((code, out), (Some(0), format!("ran {SHIM}\n")), "{err}");
    assert!(err.contains("warning: ") && err.contains("is statically linked"), "{err}");
    let (code, out, err) = said(&mut dp_run(&["--anyway", "--dry-run"], &program));
    assert!(code == Some(0) && out.contains("in vain: ") && !out.contains("ran"), "{out}{err}");
    let (code, out, err) = said(dp_run(&[], &program).env("DP_DISABLE", "1"));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "ran alone\n", ""));

    // A script is what its first line names.
    let plain = script(&folder, "script", &format!("#!{name} -x\n"));
    refused(&plain, &[name, "is statically linked"]);
    let by_env = script(&folder, "by-env", &format!("#!/usr/bin/env {name}\n"));
    refused(&by_env, &[name, "is statically linked"]);
    let of_script = script(&folder, "of-script", &format!("#!{}\n", plain.display()));
    refused(&of_script, &[name, "is statically linked"]);
}

#[test]
fn a_program_that_calls_past_the_c_library_or_is_for_another_machine_is_refused() {
    const NOTE: &str = r#"__asm__(".pushsection .note.go.buildid,\"a\",@note\n.long 4,4,4\n.ascii \"Go\\0\\0abcd\"\n.popsection");"#;
    let folder = Folder::new("others");
    let of_go = program_with(&folder, "of-go", &[], NOTE);
    refused(&of_go, &[of_go.to_str().unwrap(), "is a Go program", "with the shim for what it starts"]);
    let mut other = fs::read(program(&folder, "own", &[])).unwrap();
    other[18] ^= 0x7f;
    let machine = script(&folder, "other", "");
    fs::write(&machine, other).unwrap();
    refused(&machine, &[machine.to_str().unwrap(), "another kind of machine", "starts it without the shim"]);
    // What the C library makes of it, which takes it for a script, is not ours.
    let (_, _, err) = said(&mut dp_run(&["--anyway"], &machine));
    assert!(err.contains("warning: ") && err.contains("another kind of machine"), "{err}");
}

#[test]
fn a_program_with_more_rights_than_its_caller_is_refused() {
    let folder = Folder::new("setuid");
    let program = program(&folder, "setuid", &[]);
    if std::os::unix::fs::chown(&program, Some(4242), Some(4243)).is_err() {
        return skip("dp run of setuid programs: giving a file away needs root");
    }
    for (mode, words) in [(0o4755, "is setuid (user 4242)"), (0o2755, "is setgid (group 4243)")] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        refused(&program, &[program.to_str().unwrap(), words, "AmbientCapabilities="]);
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, _, err) = said(&mut dp_run(&[], &program));
    assert_eq!(code, Some(0), "{err}");
}

/// The linker tells whether there is such a library.
#[test]
fn a_program_with_a_sanitizer_is_refused_unless_that_may_be_second() {
    let folder = Folder::new("asan");
    let source = script(&folder, "try.c", "int main(void) { return 0; }\n");
    let options = ["-fsanitize=address", "-o"];
    let tried = Command::new("cc").args(options).arg(folder.path.join("try")).arg(&source).output().unwrap();
    if !tried.status.success() {
        return skip("dp run of programs with AddressSanitizer: this compiler has none");
    }
    let program = program(&folder, "asan", &options[..1]);
    refused(&program, &["needs libasan.so", "verify_asan_link_order=0", "starts it without the shim"]);
    let (code, out, err) = said(&mut dp_run(&["--anyway"], &program));
    assert_eq!((code, out.as_str()), (Some(0), "ran alone\n"), "{err}");
    let (code, out, err) = said(dp_run(&[], &program).env("ASAN_OPTIONS", "verify_asan_link_order=0"));
    assert_eq!((code, out), (Some(0), format!("ran {SHIM}\n")), "{err}");
}

/// Has a command run under a filter of system calls that does this to whoever calls memfd_create(2).
fn under_filter(command: &mut Command, action: u32) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_memfd_create as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, action),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: numbers, and a filter that outlives the calls.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        if done {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: it makes two system calls and nothing else.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_filter_that_kills_what_the_shim_does_is_told_before_the_program_is_killed() {
    let folder = Folder::new("filter");
    let program = program(&folder, "ran", &[]);
    for action in [libc::SECCOMP_RET_KILL_PROCESS, libc::SECCOMP_RET_KILL_THREAD, libc::SECCOMP_RET_TRAP] {
        let mut command = dp_run(&[], &program);
        under_filter(&mut command, action);
        let (code, out, err) = said(&mut command);
        assert_eq!((code, out.as_str()), (Some(126), ""), "{action:x}: {err}");
        for words in [
            program.to_str().unwrap(),
            "would be killed with the shim",
            "memfd_create",
            "Filters of system calls",
            "dp run --anyway starts it without the shim",
        ] {
            assert!(err.contains(words), "{words:?} is not in {err:?}");
        }
    }
    let mut command = dp_run(&["--anyway"], &program);
    under_filter(&mut command, libc::SECCOMP_RET_KILL_PROCESS);
    let (code, out, err) = said(&mut command);
    assert_eq!((code, out.as_str()), (Some(0), "ran alone\n"), "{err}");
    // By an error the shim is told, and leaves the connections on TCP.
    let mut command = dp_run(&[], &program);
    under_filter(&mut command, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let (code, out, err) = said(&mut command);
    assert_eq!((code, out), (Some(0), format!("ran {SHIM}\n")), "{err}");
}
