//! What tests of this driver's parts share.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Once};

use super::inner::Inner;
use super::process::Process;

/// An endpoint without the door in front of it, in a registry of this process's own.
pub fn open(dpid: u16) -> (OwnedFd, Arc<Inner>) {
    static FOLDER: Once = Once::new();
    FOLDER.call_once(|| {
        let dir = std::env::temp_dir().join(format!("dp-parts-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", dir);
    });
    Process::current().expect("a service").open(dpid).expect("a free number")
}
