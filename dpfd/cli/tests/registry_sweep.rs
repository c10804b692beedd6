//! A process that finds a dead one cleans up after it, and not after itself.

mod kit;

use std::process::Command;
use std::time::Duration;

use dpfd::{Addr, Endpoint};
use kit::{until, Folder};

#[test]
fn a_dead_peer_found_does_not_take_the_finders_own_entries() {
    let folder = Folder::new("sweep");
    std::env::set_var("DP_RUNTIME_DIR", &folder.path);
    let is_entered = |dpid: &str| folder.path.join(dpid).is_symlink();
    let mine = Endpoint::open(4001).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_dp")).args(["recv", "4002"]).spawn().unwrap();
    until("its entry", || is_entered("4002"));
    child.kill().unwrap();
    child.wait().unwrap();
    mine.send_to(b"x", Addr::local(4002)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!is_entered("4002") && is_entered("4001"));
}
