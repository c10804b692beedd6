//! Settings at their ends, and too little of everything: the program runs as it does without the shim.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, needed, TempDir};
use compat_tests::{difference, programs, Combo, Ended, Job, Pair, Running};

use crate::product;

fn compare(what: &str, expected: &[Ended; 2], got: &[Ended; 2]) -> String {
    let mut wrong = String::new();
    for ((side, expected), got) in ["server", "client"].iter().zip(expected).zip(got) {
        if expected.status != got.status || expected.transcript != got.transcript {
            let shown = difference(&expected.transcript, &got.transcript);
            wrong += &format!("{what}, {side}: {}\n{shown}{}\n", got.status.trim_end(), got.errors);
        }
    }
    wrong
}

/// Channels of a well used connection's two ends with these settings; None where the shim has no memory at all.
fn used_with(name: &str, value: &str) -> [Option<u64>; 2] {
    let ends = looked_at("ping_pong", &["1000"], &[(name, value)]);
    ends.map(|family| family.map(|family| family.channels))
}

/// What `dp ls` says of both ends of a connection that was used, and is still open.
fn looked_at(program: &str, how_much: &[&str], settings: &[(&str, &str)]) -> [Option<product::Family>; 2] {
    let running = held(program, how_much, settings);
    let families = look(&running, "done", "looked");
    done_well(running, program, settings);
    families
}

/// A pair that waits to be looked at.
fn held(program: &str, how_much: &[&str], settings: &[(&str, &str)]) -> Running {
    let mut pair = Pair::c(program).arg("hold");
    for number in how_much {
        pair = pair.arg(number);
    }
    for (name, value) in settings {
        pair = pair.env(name, value);
    }
    pair.start(&Combo::shimmed())
}

/// What `dp ls` says of both once they have come so far as `stage`; the mark `seen` lets them go on.
fn look(running: &Running, stage: &str, seen: &str) -> [Option<product::Family>; 2] {
    let marked = |name: &str| running.folder.file(&format!("port.{name}"));
    await_that("the exchanges", Duration::from_secs(20), || {
        ["server", "client"].iter().all(|side| marked(&format!("{side}-{stage}")).exists())
    });
    let pids = [running.server.pid(), running.client.pid()];
    let families = pids.map(|pid| product::family(pid.as_raw()));
    // In one step: the program reads it as soon as it is there.
    fs::write(marked("new"), "1\n").expect("the mark");
    fs::rename(marked("new"), marked(seen)).expect("the mark");
    families
}

fn done_well(running: Running, program: &str, settings: &[(&str, &str)]) {
    for side in running.finish() {
        assert!(side.ok(), "{program}, {settings:?}: {}", side.text());
    }
}

/// Bytes of the rings in which the connecting and the accepting end send.
fn rings(program: &str, how_much: &[&str], settings: &[(&str, &str)]) -> [Option<u64>; 2] {
    first_rings(looked_at(program, how_much, settings))
}

fn first_rings([server, client]: [Option<product::Family>; 2]) -> [Option<u64>; 2] {
    [client, server].map(|family| family?.connections.first()?.tx_ring_bytes)
}

#[test]
fn a_stream_goes_over_to_a_longer_ring_and_nothing_else_does() {
    let _turn = product::alone();
    const SHORT: Option<u64> = Some(2 << 10);
    const OWN: Option<u64> = Some(128 << 10);
    // Where others have the processors, 512 MiB may come too slowly to be a stream.
    let gone_over = |how: &[&str], settings: &[(&str, &str)], ring| {
        let mut seen = Vec::new();
        let done = (0..5).any(|_| {
            seen.push(rings("stream", how, settings));
            seen.last() == Some(&[Some(ring), SHORT])
        });
        assert!(done, "{how:?}, {settings:?}: {seen:?}");
    };
    gone_over(&["512"], &[], 4 << 20);
    gone_over(&["512"], &[("DP_RING_LONG", "1048576")], 1 << 20);
    // Large pieces in a ring that is never full.
    gone_over(&["512", "0", "1"], &[], 4 << 20);
    // A sender that never waits has TCP's buffers full most of the time, and little goes through its ring.
    gone_over(&["96", "0", "0", "1"], &[], 4 << 20);
    assert_eq!(rings("ping_pong", &["20000"], &[]), [SHORT, SHORT]);
    // Not longer: none.
    assert_eq!(rings("stream", &["512"], &[("DP_RING_LONG", "0")]), [OWN, SHORT]);
    assert_eq!(rings("stream", &["512"], &[("DP_RING", "8388608")]), [Some(8 << 20), SHORT]);
}

/// The sixteen that there are come back when their connections are gone, though no other is in their places.
#[test]
fn longer_rings_of_former_connections_are_taken_again() {
    let _turn = product::alone();
    const LONG: Option<u64> = Some(4 << 20);
    let mut seen = Vec::new();
    // Where others have the processors, a stream may come too slowly to be one.
    let done = (0..5).any(|_| {
        let running = held("stream", &["512", "40"], &[]);
        let [server, _] = look(&running, "before", "counted");
        let connections = server.expect("a server with channels").connections;
        let long = connections.iter().filter(|connection| connection.tx_ring_bytes == LONG).count();
        let [_, last] = first_rings(look(&running, "done", "looked"));
        done_well(running, "stream", &[]);
        assert!(long <= 16, "{long} longer rings");
        seen.push((long, last));
        (long, last) == (16, LONG)
    });
    assert!(done, "how many had a longer ring, and what the next one has then: {seen:?}");
}

#[test]
fn settings_that_leave_everything_on_tcp_do_so() {
    let _turn = product::alone();
    assert_eq!(used_with("DP_AFTER", "3"), [Some(1), Some(1)], "the test itself");
    for (name, value) in
        [("DP_DISABLE", "1"), ("DP_RULES", "channel everywhere; what?"), ("DP_RULES", "tcp any *")]
    {
        let channels = used_with(name, value);
        assert!(
            channels.iter().all(|count| count.unwrap_or(0) == 0),
            "{name}={value}: channels {channels:?}"
        );
    }
    assert_eq!(used_with("DP_DISABLE", "1"), [None, None], "DP_DISABLE=1: memory");
}

#[test]
fn odd_settings_change_no_output() {
    let _turn = product::alone();
    let pair = Pair::c("echo_sizes");
    let expected = pair.run(&Combo::native());
    let mut wrong = String::new();
    for (name, values) in [
        ("DP_DISABLE", &["1", "yes"][..]),
        ("DP_RULES", &[";;;", "channel", "\u{1}\u{2}", "channel any [::1", "tcp any *"]),
        ("DP_CONFIG", &["/nonexistent", "/", "relative", "/dev/null"]),
        ("DP_RING", &["0", "1", "4095", "4097", "1048576", "67108864", "99999999999999999999", "-1", "x"]),
        ("DP_RING_LONG", &["0", "1", "131072", "262145", "99999999999", "-1", "x"]),
        ("DP_AFTER", &["0", "1", "4294967296", "-1", "x"]),
        ("DP_SPIN", &["0", "1", "999999999", "-1", "x"]),
        ("DP_LOG", &["x", "stderr:", "journal", "/nonexistent/x", "/dev/full:debug", "/dev/null:debug"]),
        ("DP_CHAOS", &["0", "4294967295", "99999999999", "x"]),
    ] {
        for value in values {
            let got = pair.clone().env(name, value).run(&Combo::shimmed());
            wrong += &compare(&format!("{name}={value}"), &expected, &got);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Both sides of a program behind a shell that limits itself first.
fn limited(combo: &Combo, limit: &str, program: &Path) -> [Ended; 2] {
    let folder = TempDir::new();
    let shell = needed("sh", "dash");
    let side = |role: &str| {
        let mut command = match role {
            "server" => combo.server_command(&shell, folder.path()),
            _ => combo.client_command(&shell, folder.path()),
        };
        // The shim reaches the program only: what the shell needs is not the question.
        let preload = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
        let preload = preload.map(|path| path.to_os_string()).unwrap_or_default();
        command.env_remove("LD_PRELOAD").env("SHIM", preload).env("COMPAT_ALARM", "10");
        command.arg("-c").arg(format!("{limit} && LD_PRELOAD=$SHIM exec \"$0\" \"$@\""));
        command.arg(program).arg(role).arg(folder.file("port"));
        Job::start(role, command, folder.path())
    };
    let (server, client) = (side("server"), side("client"));
    let deadline = Instant::now() + Duration::from_secs(12);
    let mut client_job = client;
    client_job.ended_by(deadline);
    let client = client_job.finish(deadline);
    let patience = if client.ok() { deadline } else { Instant::now() + Duration::from_millis(300) };
    [server.finish(patience), client]
}

fn where_it_runs_natively(limits: impl Iterator<Item = String>) {
    let program = programs::c("echo_sizes");
    let (mut wrong, mut tried) = (String::new(), 0);
    for limit in limits {
        let expected = limited(&Combo::native(), &limit, &program);
        if expected.iter().all(Ended::ok) {
            tried += 1;
            wrong += &compare(&limit, &expected, &limited(&Combo::shimmed(), &limit, &program));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(tried >= 5, "natively it ran under {tried} limits only");
}

#[test]
fn too_few_descriptors_mean_tcp() {
    let _turn = product::alone();
    where_it_runs_natively((3..=14).map(|count| format!("ulimit -n {count}")));
}

#[test]
fn too_little_address_space_means_tcp() {
    let _turn = product::alone();
    let sizes = [24, 32, 48, 64, 96, 128, 192, 256, 320, 512, 1024];
    where_it_runs_natively(sizes.iter().map(|mib| format!("ulimit -v {}", mib * 1024)));
}

#[test]
fn files_that_must_stay_small_do_no_harm() {
    let _turn = product::alone();
    let sizes = [8, 64, 1024, 65536, 1 << 20];
    where_it_runs_natively(sizes.iter().map(|blocks| format!("ulimit -f {blocks}")));
}
