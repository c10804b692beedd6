//! Libraries of two versions side by side, as while a host is upgraded, and a library that is replaced under programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::programs::{self, target_dir};
use compat_tests::tools::{await_that, TempDir};
use compat_tests::{Combo, Job};

use crate::product;

/// How the versions of layouts are found in the library's file: dp-channel's `layouts.rs`.
const MARK: &[u8] = b"dp-layouts-v2\0\0\0";
/// Behind it, in this order, of each the oldest and the newest that is spoken.
const LAYOUTS: [&str; 3] = ["hello", "arena", "family"];
/// Before that there was one number of each.
const MARK_OF_ONE: &[u8] = b"dp-layouts-v1\0\0\0";

fn shim() -> PathBuf {
    target_dir().join("release/libdp_preload.so")
}

/// Where what follows a mark is in a library's file.
fn behind(mark: &[u8], library: &[u8]) -> Option<usize> {
    let found: Vec<usize> =
        library.windows(mark.len()).enumerate().filter(|(_, w)| *w == mark).map(|(at, _)| at).collect();
    assert!(found.len() < 2, "the mark is there {} times", found.len());
    found.first().map(|at| at + mark.len())
}

fn number(library: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(library[at..at + 4].try_into().expect("four bytes"))
}

/// The versions that a library speaks, the oldest and the newest, in the order of [`LAYOUTS`]. None: it was built before they had
/// a mark.
fn versions(library: &Path) -> Option<[[u32; 2]; 3]> {
    let bytes = fs::read(library).expect("the shim: run `cargo build --release` first");
    let ranges = behind(MARK, &bytes);
    let ranges = ranges.map(|at| [0, 1, 2].map(|n| [0, 1].map(|k| number(&bytes, at + 8 * n + 4 * k))));
    ranges.or_else(|| {
        let at = behind(MARK_OF_ONE, &bytes)?;
        Some([0, 1, 2].map(|n| [number(&bytes, at + 4 * n); 2]))
    })
}

/// A library that differs from ours in the versions of one layout: a copy with other numbers in it, so much higher.
fn of_other_versions(layout: &str, higher: [u32; 2], folder: &TempDir) -> PathBuf {
    let mut bytes = fs::read(shim()).expect("the shim: run `cargo build --release` first");
    let at = behind(MARK, &bytes).expect("the mark")
        + 8 * LAYOUTS.iter().position(|name| *name == layout).expect("one of them");
    for (at, higher) in [at, at + 4].into_iter().zip(higher) {
        let number = number(&bytes, at) + higher;
        bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }
    let path = folder.file(&format!("libdp_preload-{layout}-{}-{}.so", higher[0], higher[1]));
    fs::write(&path, bytes).expect("a copy");
    path
}

fn start(role: &str, shim: &Path, folder: &TempDir, arguments: &[&str]) -> Job {
    let log = folder.file(&format!("{role}.log"));
    let _ = fs::remove_file(&log);
    let environment = [("LD_PRELOAD", shim.display().to_string()), ("DP_LOG", log.display().to_string())];
    product::start(&Combo::shimmed(), &programs::c("ping_pong"), role, folder.path(), arguments, &environment)
}

fn dp(arguments: &[&str]) -> String {
    let said = Command::new(target_dir().join("release/dp")).args(arguments).output().expect("dp");
    String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr)
}

/// What was seen of a server and a client with these libraries, while both had their connection open.
struct Seen {
    channels: usize,
    listed: String,
    /// What `dp doctor` says of the server, and of the client.
    doctor: [String; 2],
    /// Versions of layouts that the server and the client speak with each other.
    spoken: [Option<u32>; 2],
}

/// The version that is told of a connection that became a channel.
fn spoken(log: &Path) -> Option<u32> {
    let log = fs::read_to_string(log).unwrap_or_default();
    let live = log.lines().find(|line| line.contains(": live "))?;
    live.split("layout=").nth(1)?.trim().parse().ok()
}

fn between(server: &Path, client: &Path, folder: &TempDir) -> Seen {
    for name in ["port", "port.server-done", "port.client-done", "port.looked"] {
        let _ = fs::remove_file(folder.file(name));
    }
    let (mut server, mut client) = (
        start("server", server, folder, &["hold", "3000"]),
        start("client", client, folder, &["hold", "3000"]),
    );
    let [done, told] = ["port.server-done", "port.client-done"].map(|name| folder.file(name));
    await_that("the exchanges", Duration::from_secs(20), || {
        (done.exists() && told.exists()) || server.ended().is_some() || client.ended().is_some()
    });
    let port = fs::read_to_string(folder.file("port")).unwrap_or_default();
    let port = port.split_whitespace().nth(1).and_then(|port| port.parse().ok()).unwrap_or_default();
    let seen = Seen {
        channels: product::channel_ends(port),
        listed: [&server, &client].map(|job| dp(&["ls", "--pid", &job.pid().to_string()])).concat(),
        doctor: [&server, &client].map(|job| dp(&["doctor", &job.pid().to_string()])),
        spoken: ["server", "client"].map(|role| spoken(&folder.file(&format!("{role}.log")))),
    };
    product::mark(folder, "looked");
    let deadline = Instant::now() + Duration::from_secs(10);
    let (client, server) = (client.finish(deadline), server.finish(deadline));
    assert!(client.ok() && client.transcript == "3000 exchanges\n", "{}", client.text());
    assert!(server.ok() && server.transcript.starts_with("3000 messages"), "{}", server.text());
    seen
}

#[test]
fn libraries_that_do_not_understand_each_other_stay_on_tcp_and_say_so() {
    let _turn = product::alone();
    let folder = TempDir::new();
    assert_eq!(between(&shim(), &shim(), &folder).channels, 2, "without any difference");
    for layout in ["hello", "arena"] {
        let other = of_other_versions(layout, [1, 1], &folder);
        for (server, client) in [(&shim(), &other), (&other, &shim())] {
            let seen = between(server, client, &folder);
            assert_eq!(seen.channels, 0, "{layout}");
            assert!(seen.listed.contains("1 version"), "{layout}: {}", seen.listed);
            let [of_server, of_client] = seen.doctor;
            assert!(of_server.contains("restart the older of the two"), "{layout}: {of_server}");
            assert!(of_client.contains("see dp doctor of that program"), "{layout}: {of_client}");
        }
        // Among themselves they have channels: the other number is nowhere else.
        assert_eq!(between(&other, &other, &folder).channels, 2, "{layout}");
    }
}

/// As after the next change that can be left out between two programs: the new library speaks both versions, the former one only
/// its own.
#[test]
fn a_library_that_speaks_the_former_version_too_has_channels_with_it() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let [_, [_, newest], _] = versions(&shim()).expect("the mark");
    for layout in ["hello", "arena"] {
        let both = of_other_versions(layout, [0, 1], &folder);
        let later = of_other_versions(layout, [1, 2], &folder);
        let higher = |by: u32| Some(newest + if layout == "arena" { by } else { 0 });
        for (one, other, spoken) in [(&shim(), &both, 0), (&both, &both, 1), (&both, &later, 1)] {
            for (server, client) in [(one, other), (other, one)] {
                let seen = between(server, client, &folder);
                assert_eq!(seen.channels, 2, "{layout}: {}", seen.listed);
                assert_eq!(seen.spoken, [higher(spoken); 2], "{layout}: {one:?} {other:?}");
            }
        }
        assert_eq!(between(&shim(), &later, &folder).channels, 0, "{layout}");
    }
}

/// Not copies with other numbers in them but what was built of former commits: where both speak a version, it is what they have in
/// common, and where not, both say so.
#[test]
#[ignore = "needs libraries of former commits: .ci/former builds them, and runs this"]
fn former_libraries_have_channels_with_this_one_or_stay_on_tcp_and_say_so() {
    let _turn = product::alone();
    let former = std::env::var("DP_FORMER").expect("DP_FORMER: paths of libraries, by colons");
    let (folder, own) = (TempDir::new(), versions(&shim()).expect("the mark"));
    for library in former.split(':').map(Path::new) {
        let meet = |[a, b]: [[u32; 2]; 2]| a[0].max(b[0]) <= a[1].min(b[1]);
        let theirs = versions(library);
        let talk = theirs.map(|theirs| (0..2).all(|n| meet([theirs[n], own[n]])));
        // What it writes of its family, this dp reads.
        let readable = theirs.is_some_and(|theirs| meet([[theirs[2][1]; 2], own[2]]));
        for (server, client) in [(&*shim(), library), (library, &*shim())] {
            let seen = between(server, client, &folder);
            let told = seen.listed.contains("1 version");
            let (channels, name) = (seen.channels, library.display());
            eprintln!("{name}: {channels} ends of a channel; it speaks {theirs:?}, this one {own:?}");
            assert_eq!(
                seen.listed.contains("another version of the shim"),
                !readable,
                "{name}: {}",
                seen.listed
            );
            match talk {
                // dp counts the ends whose memory it can read.
                Some(true) => assert_eq!(channels, 1 + usize::from(readable), "{name}: {}", seen.listed),
                Some(false) => assert!(channels == 0 && told, "{name}: {}", seen.listed),
                None => assert!(channels > 0 || told, "{name}: {}", seen.listed),
            }
        }
    }
}

/// What only one program's processes share may differ, and the peer does not notice.
#[test]
fn memory_that_dp_cannot_read_is_told_of_and_disturbs_nobody() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let other = of_other_versions("family", [1, 1], &folder);
    let seen = between(&shim(), &other, &folder);
    assert_eq!(seen.channels, 1, "of the server's end");
    let [of_server, of_client] = seen.doctor;
    assert!(seen.listed.contains("another version of the shim"), "{}", seen.listed);
    assert!(of_client.contains("layout that this dp"), "{of_client}");
    assert!(of_server.contains("1 open"), "{of_server}");
}

/// As `make install` and every package manager does it: another file takes the name.
#[test]
fn a_library_that_is_replaced_under_programs_goes_on_in_them() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let library = folder.file("libdp_preload.so");
    let install = || {
        let new = folder.file("libdp_preload.so.new");
        fs::copy(shim(), &new).expect("a copy");
        fs::rename(&new, &library).expect("the library");
    };
    install();
    let environment = [("LD_PRELOAD", library.display().to_string())];
    let begin = |role: &str, arguments: &[&str]| {
        product::start(&Combo::shimmed(), &programs::c("crowd"), role, folder.path(), arguments, &environment)
    };
    let mut server = begin("server", &["threads"]);
    let finished = |name: &str, arguments: &[&str], at_work: &dyn Fn(i32)| {
        let mut client = begin(&format!("client-{name}"), arguments);
        at_work(client.pid().as_raw());
        let done = folder.file(&format!("port.done-{}", arguments[2]));
        await_that("the exchanges", Duration::from_secs(30), || done.exists() || client.ended().is_some());
        let channels = product::channels(client.pid().as_raw());
        product::mark(&folder, &format!("looked-{}", arguments[2]));
        let ended = client.finish(Instant::now() + Duration::from_secs(10));
        assert!(ended.ok() && ended.transcript == "fine\n", "{name}: {}", ended.text());
        assert!(channels > 0, "{name}: no channel");
    };
    // Replaced while both talk over a channel.
    finished("before", &["", "20000", "1", "300"], &|client| {
        assert!(product::becomes_channel(client, Duration::from_secs(20)), "no channel");
        (0..5).for_each(|_| install());
    });
    // The server still has the one whose file is gone; its new client has the new one.
    assert!(fs::read_to_string(format!("/proc/{}/maps", server.pid()))
        .unwrap()
        .contains("libdp_preload.so (deleted)"));
    finished("after", &["", "2000", "2"], &|_| {});
    assert!(server.ended().is_none(), "the server ended");
}
