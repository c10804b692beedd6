//! A process that finds a dead one cleans up after it, and not after itself.

use dpfd::{Addr, Endpoint};
use std::process::Command;
use std::time::Duration;
#[test]
fn a_dead_peer_found_does_not_take_the_finders_own_entries() {
    let dir = std::env::temp_dir().join(format!("dp-sw-{}", std::process::id()));
    std::env::set_var("DP_RUNTIME_DIR", &dir);
    let mine = Endpoint::open(4001).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_dp")).args(["recv", "4002"]).spawn().unwrap();
    while std::fs::read_link(dir.join("4002")).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    mine.send_to(b"x", Addr::local(4002)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(std::fs::read_link(dir.join("4002")).is_err());
    assert!(std::fs::read_link(dir.join("4001")).is_ok());
}
