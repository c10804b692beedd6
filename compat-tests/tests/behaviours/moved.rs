//! The one difference there must be: the bytes do not go through TCP. Without this test a shim that does
//! nothing would pass all the others.

use std::fs;
use std::process::Command;
use std::time::Duration;

use compat_tests::{tools, Combo, Pair, Running, Side};

/// Exchanges, and about how many bytes that makes in each direction.
const EXCHANGES: &str = "3000";
const BYTES: u64 = 300_000;

/// What somebody outside both processes sees when the exchanges are over and both still hold the connection.
fn seen<R>(pair: &Pair, combo: &Combo, look: impl FnOnce(&Running) -> R) -> R {
    let running = pair.start(combo);
    let marked = |name: &str| running.folder.file(&format!("port.{name}"));
    tools::await_that("the exchanges", Duration::from_secs(20), || {
        marked("server-done").exists() && marked("client-done").exists()
    });
    let seen = look(&running);
    // Renamed into place: the programs read it the moment it is there.
    fs::write(marked("looked.tmp"), "1\n").expect("the mark");
    fs::rename(marked("looked.tmp"), marked("looked")).expect("the mark");
    for side in running.finish() {
        assert!(side.ok(), "{}", side.text());
    }
    seen
}

/// The bytes that the kernel's own sockets have carried.
fn bytes_through_tcp(pair: &Pair, combo: &Combo) -> u64 {
    let ss = tools::needed("ss", "iproute2");
    let told = seen(pair, combo, |running| {
        let published = fs::read_to_string(running.folder.file("port")).expect("the server's port");
        let port = published.split_whitespace().nth(1).expect("address and port");
        Command::new(ss)
            .args(["-tinOH", "state", "established", "sport", "=", &format!(":{port}")])
            .output()
            .expect("ss runs")
    });
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let count = |name: &str| -> u64 {
        let number = told.split(name).nth(1).and_then(|rest| rest.split_whitespace().next());
        number.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {told:?}"))
    };
    count("bytes_received:")
}

/// DP_CHAOS forces what it says also where all sends are small: without it, no other test of such a program meets a switch.
#[test]
fn small_sends_go_back_to_tcp_where_that_is_forced() {
    if std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_some() {
        return;
    }
    let pair = Pair::c("ping_pong").arg("hold").arg(EXCHANGES);
    for seed in [1, 7] {
        let combo = Combo { chaos: Some(seed), ..Combo::shimmed() };
        let log = seen(&pair, &combo, |running| fs::read_to_string(running.folder.file("log")));
        let back = log.expect("a log").matches("hand_back").count();
        // One in seven of 3000 each way, and the next waits until its receiver has followed.
        assert!((300..1200).contains(&back), "seed {seed}: {back} times");
    }
}

#[test]
fn a_used_connection_leaves_tcp_only_when_both_sides_take_part() {
    let pair = Pair::c("ping_pong").arg("hold").arg(EXCHANGES);
    for combo in Combo::sides() {
        let both = combo.server == Side::Shim && combo.client == Side::Shim;
        let bytes = bytes_through_tcp(&pair, &combo);
        if both && std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_none() {
            // What is left: the bytes before the switch, and at most a bell for every message.
            assert!(bytes < BYTES / 10, "{}: {bytes} bytes went through TCP", combo.name);
        } else {
            assert!(bytes >= BYTES, "{}: only {bytes} bytes went through TCP", combo.name);
        }
    }
}

/// What has nothing to do with a connection must not take it off its channel.
fn stays_moved(pair: &Pair) {
    if std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_none() {
        let bytes = bytes_through_tcp(pair, &Combo::shimmed());
        assert!(bytes < BYTES / 10, "{bytes} bytes went through TCP");
    }
}

#[test]
fn a_program_that_uses_io_submit_for_its_files_keeps_its_channels() {
    stays_moved(&Pair::c("kernel_aio").arg("disk").arg(EXCHANGES));
}

#[test]
fn a_program_that_uses_io_uring_for_its_files_keeps_its_channels() {
    stays_moved(&Pair::c("ring").arg("disk").arg(EXCHANGES));
}

#[test]
fn a_program_with_a_plug_in_that_finds_the_c_library_first_keeps_its_channels() {
    stays_moved(&Pair::c("plugged").arg("disk").arg(EXCHANGES));
}

#[test]
fn a_plug_in_that_finds_the_c_library_first_uses_channels() {
    stays_moved(&Pair::c("plugged").arg("deep").arg(EXCHANGES));
    stays_moved(&Pair::c("plugged").arg("lazy").arg(EXCHANGES));
}

/// The ring may have entries for it that wait for bytes: a bell would be one to them.
#[test]
fn a_socket_that_a_ring_was_told_of_before_it_connected_stays_on_tcp() {
    let bytes = bytes_through_tcp(&Pair::c("ring").arg("before").arg(EXCHANGES), &Combo::shimmed());
    assert!(bytes >= BYTES, "only {bytes} bytes went through TCP");
}

/// What dp-preload(7) says that a filter must allow is enough.
#[test]
fn a_filter_that_allows_what_is_listed_costs_no_channel() {
    stays_moved(&Pair::c("sandbox").arg("listed").arg(EXCHANGES));
}

#[test]
fn questions_about_filters_cost_no_channel() {
    stays_moved(&Pair::c("sandbox").arg("question").arg(EXCHANGES));
}

#[test]
fn a_child_that_serves_one_connection_needs_no_listener() {
    stays_moved(&Pair::c("ping_pong").arg("hold").arg(EXCHANGES).arg("1"));
}

#[test]
fn a_fork_that_fails_costs_no_channel() {
    stays_moved(&Pair::c("fork_before").arg("fails").arg(EXCHANGES));
}

#[test]
fn forks_of_two_threads_cost_no_channel() {
    stays_moved(&Pair::c("fork_before").arg("threads").arg(EXCHANGES));
}

#[test]
fn a_child_that_executes_costs_no_channel() {
    stays_moved(&Pair::c("fork_before").arg("exec").arg(EXCHANGES));
}

#[test]
fn a_program_that_starts_others_keeps_what_they_do_not_inherit() {
    stays_moved(&Pair::c("inherit").arg("system").arg("1").arg("1"));
}

/// What a program says by a mark, in a run with the shim on both sides; and whether a process of the server's, or of the
/// client's, had a `dp-relay` until then. With `relay`, one is waited for.
fn told(pair: &Pair, mark: &str, relay: bool) -> (u64, [bool; 2]) {
    let running = pair.start(&Combo::shimmed());
    let file = running.folder.file(&format!("port.{mark}"));
    let both = [running.server.pid(), running.client.pid()].map(|pid| pid.to_string());
    let (mut relayed, mut families) = ([false; 2], [const { Vec::new() }; 2]);
    tools::await_that(mark, Duration::from_secs(20), || {
        for side in 0..2 {
            families[side].extend(families_of(&both[side]));
            let ours = |pid: &String| families_of(pid).iter().any(|one| families[side].contains(one));
            relayed[side] |= relays().iter().any(ours);
        }
        file.exists() && (!relay || relayed != [false; 2])
    });
    let said = fs::read_to_string(&file).expect("the mark").trim().parse().expect("a number");
    let [new, looked] = ["looked.tmp", "looked"].map(|name| running.folder.file(&format!("port.{name}")));
    fs::write(&new, "1\n").and_then(|()| fs::rename(new, looked)).expect("the mark");
    for side in running.finish() {
        assert!(side.ok(), "{}", side.text());
    }
    (said, relayed)
}

/// The memory of the family of a process, by its inode.
fn families_of(pid: &str) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let ours = maps.lines().filter(|line| line.contains("/memfd:dp-family"));
    ours.filter_map(|line| line.split_whitespace().nth(4).map(str::to_string)).collect()
}

fn relays() -> Vec<String> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    numbers.filter(|pid| name(pid).trim() == "dp-relay").collect()
}

/// The tests of connections that are given away would show nothing if nothing were left in the ring.
#[test]
fn what_is_given_away_is_in_the_ring_and_then_in_the_hands_of_a_relay() {
    if std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_some() {
        return;
    }
    for mode in ["pass", "exec", "number", "vfork", "spawn", "stdio", "set", "set_edge"] {
        assert_eq!(told(&Pair::c("stranded").arg(mode), "relayed", false).0, 1, "stranded {mode}");
    }
    for mode in ["child", "copy", "vcopy", "streams"] {
        assert_eq!(told(&Pair::c("stranded").arg(mode), "relayed", false).0, 1, "stranded {mode}");
    }
    assert_eq!(
        told(&Pair::c("stranded").arg("chance"), "relayed", false).0,
        0,
        "it would be taken from the giver"
    );
    for (program, mode, mark) in [
        ("slow_taker", "more", "sent"),
        ("slow_taker", "close", "sent"),
        ("full_giver", "stdio", "sent"),
        ("full_giver", "dprintf", "sent"),
        ("full_giver", "spawn", "sent"),
        ("push_again", "threads", "sent-2"),
        ("left_alone", "stdio", "sent"),
        ("left_alone", "inherit", "sent"),
    ] {
        assert_eq!(told(&Pair::c(program).arg(mode), mark, false).0, 1, "{program} {mode}");
    }
}

/// The side that leaves a channel pays for it: where a relay is needed, it is not the sender's.
#[test]
fn a_relay_is_a_process_of_the_side_that_left() {
    if std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_some() {
        return;
    }
    for mode in ["stdio", "stranger", "close"] {
        let pair = Pair::c("left_alone").arg(mode).arg("300000").arg("1").env("DP_RING", "524288");
        assert_eq!(told(&pair, "sent", true), (1, [false, true]), "{mode}");
    }
}

/// The place that was prepared for a child goes back where there is none: the connection has one user, and becomes a channel.
#[test]
fn a_program_whose_daemon_or_forkpty_fails_gets_channels() {
    if std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_some() {
        return;
    }
    let fresh = Combo { warm: 0, ..Combo::shimmed() };
    let bytes = bytes_through_tcp(&Pair::c("fork_lives").arg("inside").arg(EXCHANGES), &fresh);
    assert!(bytes < BYTES / 10, "{bytes} bytes went through TCP");
}
