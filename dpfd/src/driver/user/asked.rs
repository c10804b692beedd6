//! What the service tells its gateway ([`super::gateway`]): addresses of other nodes that senders asked for.

use std::sync::Mutex;

use nix::sys::eventfd::EventFd;

use super::shared::held;
use crate::addr::Addr;

/// Addresses that were asked for and are not told yet, at most; who asks for more asks again.
const MOST_ASKED: usize = 4096;

/// As above.
#[derive(Debug)]
pub struct Asked {
    /// Readable while there are some.
    pub wake: EventFd,
    addresses: Mutex<Vec<Addr>>,
}

impl Asked {
    /// None yet.
    pub fn new(wake: EventFd) -> Asked {
        Asked { wake, addresses: Mutex::default() }
    }

    /// Takes them.
    pub fn take(&self) -> Vec<Addr> {
        let _ = self.wake.read();
        core::mem::take(&mut *held(&self.addresses))
    }

    /// A sender wants to go there. False: it is to ask again later.
    pub fn add(&self, to: Addr) -> bool {
        let mut addresses = held(&self.addresses);
        if !addresses.contains(&to) {
            if addresses.len() >= MOST_ASKED {
                return false;
            }
            addresses.push(to);
        }
        let _ = self.wake.write(1);
        true
    }
}
