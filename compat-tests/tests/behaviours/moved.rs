//! The one difference there must be: the bytes do not go through TCP. Without this test a shim that does
//! nothing would pass all the others.

use std::fs;
use std::process::Command;
use std::time::Duration;

use compat_tests::{tools, Combo, Pair, Side};

/// Exchanges, and about how many bytes that makes in each direction.
const EXCHANGES: &str = "3000";
const BYTES: u64 = 300_000;

/// The bytes that the kernel's own sockets have carried, as somebody outside both processes sees them.
fn bytes_through_tcp(pair: &Pair, combo: &Combo) -> u64 {
    let ss = tools::needed("ss", "iproute2");
    let running = pair.start(combo);
    let marked = |name: &str| running.folder.file(&format!("port.{name}"));
    tools::await_that("the exchanges", Duration::from_secs(20), || {
        marked("server-done").exists() && marked("client-done").exists()
    });
    let published = fs::read_to_string(running.folder.file("port")).expect("the server's port");
    let port = published.split_whitespace().nth(1).expect("address and port");
    let told = Command::new(ss)
        .args(["-tinOH", "state", "established", "sport", "=", &format!(":{port}")])
        .output()
        .expect("ss runs");
    // Renamed into place: the programs read it the moment it is there.
    fs::write(marked("looked.tmp"), "1\n").expect("the mark");
    fs::rename(marked("looked.tmp"), marked("looked")).expect("the mark");
    for side in running.finish() {
        assert!(side.ok(), "{}", side.text());
    }
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let count = |name: &str| -> u64 {
        let number = told.split(name).nth(1).and_then(|rest| rest.split_whitespace().next());
        number.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {told:?}"))
    };
    count("bytes_received:")
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
fn a_child_that_serves_one_connection_needs_no_listener() {
    stays_moved(&Pair::c("ping_pong").arg("hold").arg(EXCHANGES).arg("1"));
}

#[test]
fn a_program_that_starts_others_keeps_what_they_do_not_inherit() {
    stays_moved(&Pair::c("inherit").arg("system").arg("1").arg("1"));
}
