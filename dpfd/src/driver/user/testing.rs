//! What tests of this driver's parts share.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Once};
use std::time::Duration;

use super::endpoint::UserEndpoint;
use super::process::Process;
use crate::addr::Addr;
use crate::driver::{Driver, Served};
use crate::endpoint::{wait, Endpoint};
use crate::error::Result;
use crate::sys::loaned::Got;

/// The service, with a registry of this process's own.
pub fn process() -> Arc<Process> {
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

/// Sends, as the door does.
pub fn send(inner: &Arc<UserEndpoint>, fd: &OwnedFd, to: Option<Addr>, message: &[u8]) -> Result<()> {
    wait::send(&Served::User(inner.clone()), Duration::MAX, fd.as_raw_fd(), to, message)
}

/// Receives, as the door does.
pub fn recv(inner: &Arc<UserEndpoint>, fd: &OwnedFd) -> Result<Got> {
    wait::recv(&Served::User(inner.clone()), fd.as_raw_fd())
}

/// The same with it.
pub fn open_whole(dpid: u16) -> (Endpoint, Arc<UserEndpoint>) {
    let process = process();
    let endpoint = Endpoint::open_on(Driver::User, dpid).expect("a free number");
    let inner = process.endpoints().into_iter().find(|inner| inner.dpid == dpid).expect("just opened");
    (endpoint, inner)
}
