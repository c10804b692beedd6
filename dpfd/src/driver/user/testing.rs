//! What tests of this driver's parts share.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Once};

use super::endpoint::UserEndpoint;
use super::process::Process;
use crate::driver::Driver;
use crate::endpoint::Endpoint;

/// The service, with a registry of this process's own.
fn process() -> Arc<Process> {
    static FOLDER: Once = Once::new();
    FOLDER.call_once(|| {
        let dir = std::env::temp_dir().join(format!("dp-parts-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", dir);
    });
    Process::current().expect("a service")
}

/// An endpoint without the door in front of it.
pub fn open(dpid: u16) -> (OwnedFd, Arc<UserEndpoint>) {
    process().open(dpid).expect("a free number")
}

/// The same with it.
pub fn open_whole(dpid: u16) -> (Endpoint, Arc<UserEndpoint>) {
    let process = process();
    let endpoint = Endpoint::open_on(Driver::User, dpid).expect("a free number");
    let inner = process.endpoints().into_iter().find(|inner| inner.dpid == dpid).expect("just opened");
    (endpoint, inner)
}
