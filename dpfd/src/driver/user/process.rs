//! The endpoints of a process: opening them, and the table in which they are found.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::asked::Asked;
use super::door::{self, Answer};
use super::endpoint::UserEndpoint;
use super::registry::Entry;
use super::shared::{held, Shared};
use crate::addr::{Addr, Dpid, PRIVILEGED};
use crate::error::{Error, Result};
use dp_edge::sys::{process, unix};

/// How long another process may take to say whether its endpoint is open, ms.
const ANSWER: i32 = 1000;
/// How long it may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// A process with endpoints.
#[derive(Debug)]
pub struct Process {
    /// What its endpoints know of it.
    pub shared: Arc<Shared>,
    /// As forks are counted.
    pub generation: u32,
    endpoints: Mutex<HashMap<u32, Weak<UserEndpoint>>>,
    /// Those that the service has not heard of yet. It takes its commands first: an endpoint is here before any of its own.
    opened: Mutex<Vec<Arc<UserEndpoint>>>,
    gateway: Mutex<Option<Arc<Asked>>>,
    /// Serial numbers that are in the registry, or about to be, of endpoints that are not among `endpoints` yet.
    entering: Mutex<HashSet<u32>>,
    serials: AtomicU32,
}

impl Process {
    /// One without endpoints.
    pub fn new(shared: Shared, generation: u32) -> Process {
        Process {
            shared: shared.into(),
            generation,
            endpoints: Mutex::default(),
            opened: Mutex::default(),
            gateway: Mutex::default(),
            entering: Mutex::default(),
            serials: AtomicU32::new(1),
        }
    }

    /// Opens endpoint `dpid` (0: any free one): the program's descriptor, and the endpoint.
    ///
    /// # Errors
    ///
    /// Those of `dp_open`.
    pub fn open(&self, dpid: Dpid) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        if dpid != 0 && dpid < PRIVILEGED && !process::may_bind_service() {
            return Err(Error::Privileged(dpid));
        }
        self.make(|entry| {
            let found =
                if dpid == 0 { self.shared.registry.enter_any(entry) } else { self.enter(dpid, entry) };
            found.map(Addr::local)
        })
    }

    /// Opens the proxy of an endpoint of another node: one that the gateway alone knows.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], [`Error::BadDpid`]; EMFILE.
    pub fn open_proxy(&self, addr: Addr) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        let open = |inner: Arc<UserEndpoint>| inner.addr() == addr && !inner.is_closed();
        match addr.dpid {
            0 => Err(Error::BadDpid(0)),
            dpid if self.endpoints().into_iter().any(open) => Err(Error::InUse(dpid)),
            _ => self.make(|_| Ok(addr)),
        }
    }

    fn make(&self, enter: impl FnOnce(&Entry) -> Result<Addr>) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        let (front, back) = unix::pair().map_err(|errno| Error::System { call: "socketpair", errno })?;
        unix::mark_messages(back.as_fd());
        let key =
            process::random().map_err(std::io::Error::from_raw_os_error).map_err(Error::io("getrandom"))?;
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { process: self.shared.member.name.clone(), serial };
        // Whoever finds the entry from now on is told that it is open.
        held(&self.entering).insert(serial);
        let entered = enter(&entry).map(|addr| {
            let inner = Arc::new(UserEndpoint::new(addr, entry, back, self.shared.clone(), key));
            held(&self.endpoints).insert(serial, Arc::downgrade(&inner));
            held(&self.opened).push(inner.clone());
            inner
        });
        held(&self.entering).remove(&serial);
        let inner = entered?;
        self.shared.nudge();
        Ok((front, inner))
    }

    /// The endpoints that were opened since the service last asked.
    pub fn opened(&self) -> Vec<Arc<UserEndpoint>> {
        core::mem::take(&mut *held(&self.opened))
    }

    /// Whether an endpoint is being opened: its number is taken, and nobody has it yet.
    pub fn is_entering(&self, serial: u32) -> bool {
        held(&self.entering).contains(&serial)
    }

    /// Whom to tell of addresses of other nodes: this process is the gateway, or no longer.
    pub fn set_gateway(&self, asked: Option<Arc<Asked>>) {
        *held(&self.gateway) = asked;
    }

    /// The same, asked.
    pub fn gateway(&self) -> Option<Arc<Asked>> {
        held(&self.gateway).clone()
    }

    fn enter(&self, dpid: Dpid, entry: &Entry) -> Result<Dpid> {
        for _ in 0..8 {
            if self.shared.registry.enter(dpid, entry)? {
                return Ok(dpid);
            }
            let Some(old) = self.shared.registry.look_up(dpid) else { continue };
            if self.is_open(dpid, &old) {
                return Err(Error::InUse(dpid));
            }
            self.shared.registry.remove(dpid, &old);
        }
        Err(Error::InUse(dpid))
    }

    /// Whether the endpoint that an entry stands for is still open. The kernel knows before the service does.
    fn is_open(&self, dpid: Dpid, entry: &Entry) -> bool {
        if entry.process == self.shared.member.name {
            if self.is_entering(entry.serial) {
                return true;
            }
            let inner = held(&self.endpoints).get(&entry.serial).and_then(Weak::upgrade);
            return inner.is_some_and(|i| {
                let open = !i.is_closed();
                if !open {
                    i.retire();
                }
                open
            });
        }
        if !self.shared.registry.lives(&entry.process) {
            self.shared.registry.sweep();
            return false;
        }
        match door::ask(&self.shared.registry.door_path(&entry.process), dpid, entry.serial, ANSWER) {
            Answer::Open | Answer::Nothing => true,
            Answer::Closed => false,
            Answer::Over => !self.ends(&entry.process),
        }
    }

    /// Whether a process that does not answer any more is about to end: the kernel takes its time to clear away a
    /// killed one, and gives up its lock late.
    fn ends(&self, process: &str) -> bool {
        let end = Instant::now() + ENDING;
        while self.shared.registry.lives(process) {
            if Instant::now() >= end {
                return false;
            }
            process::rest(Duration::from_millis(1));
        }
        true
    }

    /// All endpoints that are open in this process.
    pub fn endpoints(&self) -> Vec<Arc<UserEndpoint>> {
        held(&self.endpoints).values().filter_map(Weak::upgrade).collect()
    }

    /// An endpoint is over.
    pub fn forget(&self, serial: u32) {
        held(&self.endpoints).remove(&serial);
    }

    /// Waits until everything sent is with its receiver, or `limit` is over. Whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        // In this order: what is on its way to the gateway inside is with the service, or with that.
        self.wait_while(limit, || {
            self.has_unsent(|_| true)
                || self.shared.inside.get().is_some_and(|inside| inside.has_unacknowledged())
        })
    }

    /// The same of what was sent to `which` addresses, whose receivers may be proxies.
    pub fn hand_over(&self, limit: Duration, which: impl Fn(Addr) -> bool) -> bool {
        self.wait_while(limit, || self.has_unsent(&which))
    }

    fn has_unsent(&self, which: impl Fn(Addr) -> bool) -> bool {
        self.endpoints().iter().any(|i| i.unsent(&which))
    }

    fn wait_while(&self, limit: Duration, waits: impl Fn() -> bool) -> bool {
        let end = Instant::now() + limit;
        loop {
            if !waits() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            self.shared.nudge();
            process::rest(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
