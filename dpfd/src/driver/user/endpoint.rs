//! One endpoint: what the calls and the service share of it.
//!
//! Locks: `tx` and `rx` are never held together, and neither while anything of the process is locked; `arrivals`
//! is taken inside of `rx`. The service takes them for moments; a call holds one while it looks for a message or
//! for room, not while it sleeps. Both are the program's nearly always, and of one of its threads: it takes them without
//! a locked instruction ([`dp_edge::sys::biased`]).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::link::Path;
use super::packet::ring;
use super::registry::Entry;
use super::shared::{Command, Shared};
use super::sleeps::Sleeps;
use super::tag::Tag;
use super::tx::Tx;
use crate::addr::{Addr, Dpid, Nid};
use crate::edge::beside::Beside;
use crate::edge::inbox::Inbox;
pub use crate::edge::out_of_line::MAX_MESSAGE;
use crate::edge::wake::Wake;
use crate::error::{Error, Result};
use crate::pool::budget::Budget;
use crate::pool::in_edge::{InEdge, Longer};
use crate::pool::tokens::Tokens;
use dp_edge::spin::Spin;
use dp_edge::sys::biased::{Biased, Guard};
use dp_edge::sys::{process, unix};

/// How long a receive looks before it sleeps, ns, unless told otherwise.
pub const DEFAULT_SPIN: u32 = 50_000;

/// Receiving.
#[derive(Debug)]
pub struct Rx {
    /// The messages.
    pub tokens: Tokens,
    /// What senders were asked for.
    pub wake: Wake,
    /// The descriptor was emptied, and no bell was there: one for what came by then may still come.
    pub late: bool,
    /// Messages from edges until senders without one have their turn, and how many it was the last time.
    pub others: (u32, u32),
    /// The sender of the message read last, and what came beside it.
    pub peer: Addr,
    /// As above.
    pub immediate: Option<u64>,
    /// How long to spin before sleeping: what paid lately.
    pub spin: Spin,
    /// Spinning does not pay at all: whoever sends needs this CPU. As of the last wait.
    pub in_vain: bool,
    /// Who sleeps.
    pub sleeps: Sleeps,
}

/// What the service puts there for the receiver.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// New edges.
    pub edges: Vec<InEdge>,
    /// Longer ones, for the senders of those with these keys.
    pub longer: Vec<(u64, Longer)>,
    /// What of the pool no edge has.
    pub budget: Option<Budget>,
}

/// An endpoint.
#[derive(Debug)]
pub struct UserEndpoint {
    /// Its number.
    pub dpid: Dpid,
    /// Its node, of a proxy ([`super::gateway`]); of all others 0.
    pub nid: Nid,
    /// Its entry in the registry.
    pub entry: Entry,
    /// The driver's end of the pair.
    pub back: OwnedFd,
    /// The process that opened it, as forks are counted.
    pub generation: u32,
    /// What this process shares among its endpoints.
    pub process: Arc<Shared>,
    /// What only the library knows to say on its pair.
    pub key: u64,
    tx: Biased<Tx>,
    rx: Biased<Rx>,
    /// New edges wait in `arrivals`.
    pub news: AtomicBool,
    arrivals: Mutex<Arrivals>,
    /// There since the endpoint has a pool.
    pub inbox: OnceLock<Inbox>,
    /// Says who sends where no edge does: a sealed file, made when needed.
    tag: OnceLock<OwnedFd>,
    /// Some sender has no edge, and writes to the descriptor.
    pub edgeless: AtomicBool,
    /// Links that lead here, as the service knows them; it alone counts.
    pub senders: AtomicU32,
    /// Calls of `dp_read`: whether the program is still at it.
    pub visits: AtomicU32,
    /// Somebody writes plainly on it: a direct message must not overtake.
    pub mixed: AtomicBool,
    /// The pair has hung up, or the endpoint was closed.
    pub retired: AtomicBool,
    /// By which route messages to other nodes are to go: its code; 0: whichever the graph says.
    pub route: AtomicU64,
    /// Whether they go raw; else as the graph says.
    pub raw: AtomicBool,
    /// Longest look before sleeping, ns.
    pub max_spin: AtomicU32,
    /// Times the program was woken in the kernel, and times a direct way was full.
    pub sleeps: AtomicU64,
    /// As above.
    pub full: AtomicU64,
    /// Told when everything is over, with the serial number: whoever keeps the endpoint by number lets go of it.
    pub at_end: OnceLock<fn(u32)>,
}

impl UserEndpoint {
    /// An endpoint whose driver's end is `back`.
    pub fn new(addr: Addr, entry: Entry, back: OwnedFd, process: Arc<Shared>, key: u64) -> UserEndpoint {
        UserEndpoint {
            dpid: addr.dpid,
            nid: addr.nid,
            entry,
            back,
            generation: process::generation(),
            process,
            key,
            tx: Biased::default(),
            rx: Biased::new(Rx {
                tokens: Tokens::default(),
                wake: Wake::default(),
                late: false,
                others: (0, 0),
                peer: Addr::default(),
                immediate: None,
                spin: Spin::new(DEFAULT_SPIN),
                in_vain: false,
                sleeps: Sleeps::default(),
            }),
            news: AtomicBool::new(false),
            arrivals: Mutex::default(),
            inbox: OnceLock::new(),
            tag: OnceLock::new(),
            edgeless: AtomicBool::new(false),
            senders: AtomicU32::new(0),
            visits: AtomicU32::new(0),
            mixed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            route: AtomicU64::new(0),
            raw: AtomicBool::new(false),
            max_spin: AtomicU32::new(DEFAULT_SPIN),
            sleeps: AtomicU64::new(0),
            full: AtomicU64::new(0),
            at_end: OnceLock::new(),
        }
    }

    /// The sender's side.
    #[inline(always)]
    pub fn tx(&self) -> Guard<'_, Tx> {
        self.tx.lock()
    }
    /// The sender's side, for the service.
    pub fn guest_tx(&self) -> Guard<'_, Tx> {
        self.tx.lock_as_guest()
    }
    /// The sender's side, if nobody has it.
    pub fn try_tx(&self) -> Option<Guard<'_, Tx>> {
        self.tx.try_lock()
    }
    /// The receiver's side.
    #[inline(always)]
    pub fn rx(&self) -> Guard<'_, Rx> {
        self.rx.lock()
    }
    /// The receiver's side, if nobody has it.
    pub fn try_rx(&self) -> Option<Guard<'_, Rx>> {
        self.rx.try_lock()
    }
    /// What the service brings.
    pub fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        // A panic under the lock cannot leave a half-made state that matters: all values are plain.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its address, as its node's programs write it.
    pub fn addr(&self) -> Addr {
        Addr { nid: self.nid, dpid: self.dpid }
    }

    /// The file that says "from this endpoint".
    ///
    /// # Errors
    ///
    /// EMFILE and others of memfd_create(2).
    pub fn tag(&self) -> Result<&OwnedFd> {
        if let Some(tag) = self.tag.get() {
            return Ok(tag);
        }
        let made = Tag { from: self.addr(), beside: Beside::default() }.make()?;
        Ok(self.tag.get_or_init(|| made))
    }

    /// The same; where something goes beside a message, one for that message alone, which says that, too, and is kept in `made`.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::tag`].
    pub fn tag_for<'a>(&'a self, beside: Beside, made: &'a mut Option<OwnedFd>) -> Result<&'a OwnedFd> {
        if beside == Beside::default() {
            return self.tag();
        }
        Ok(made.insert(Tag { from: self.addr(), beside }.make()?))
    }

    /// Pool mode, one way (U2). `size` None: the usual size, if there is no pool yet.
    ///
    /// # Errors
    ///
    /// [`Error::BadPool`], [`Error::HasPool`]; EMFILE, ENOMEM.
    pub fn start_pool(&self, size: Option<usize>) -> Result<usize> {
        // A thread that reads plainly (`read_now`) is done, and sees the inbox the next time.
        let _rx = self.rx();
        let mut arrivals = self.arrivals();
        if let Some(budget) = &arrivals.budget {
            return match size {
                Some(n) if n != budget.made() => Err(Error::HasPool(budget.made())),
                _ => Ok(budget.made()),
            };
        }
        let budget = match size {
            Some(bytes) => Budget::new(bytes).ok_or(Error::BadPool(bytes))?,
            None => Budget::usual(),
        };
        let inbox = Inbox::create().map_err(Error::io("memfd_create"))?;
        arrivals.budget = Some(budget);
        let _ = self.inbox.set(inbox);
        drop(arrivals);
        self.process.command(Command::Pool(self.entry.serial));
        Ok(budget.made())
    }

    /// Takes what the service brought.
    #[cold]
    pub fn adopt(&self, rx: &mut Rx) {
        self.news.store(false, Ordering::Relaxed);
        let mut arrivals = self.arrivals();
        for edge in arrivals.edges.drain(..) {
            rx.tokens.add(edge);
        }
        for (key, longer) in arrivals.longer.drain(..) {
            rx.tokens.add_longer(key, longer);
        }
    }

    /// Whether something is there, or was brought.
    #[inline(always)]
    pub fn something(&self, rx: &Rx) -> bool {
        rx.tokens.waiting() || self.news.load(Ordering::Acquire)
    }

    /// The service: whether something from there waits in an edge, or the receiver is in a call just now, so that nobody can tell.
    pub fn has_unread(&self, from: Addr) -> bool {
        let Some(mut rx) = self.try_rx() else { return true };
        if self.news.load(Ordering::Acquire) {
            self.adopt(&mut rx);
        }
        let unread = rx.tokens.edges().any(|edge| edge.from() == from && edge.waiting());
        unread
    }

    /// Puts a bell on the program's own descriptor, if it has a pool: who reads plainly would take it for a message.
    pub fn ring_self(&self) {
        if self.inbox.get().is_some() {
            ring(&self.back);
        }
    }

    /// Takes the endpoint out of the registry, once. True for the one who did.
    pub fn retire(&self) -> bool {
        let first = !self.retired.swap(true, Ordering::AcqRel);
        if first {
            self.take_entry();
        }
        first
    }

    /// The process ends: takes the endpoint out of the registry, also where the service has begun to, which may not come to it
    /// any more. An entry of a process that has left nothing else is found by those alone who look for its number.
    pub fn retire_at_exit(&self) {
        self.retired.store(true, Ordering::Release);
        self.take_entry();
    }

    fn take_entry(&self) {
        if self.nid == 0 {
            self.process.registry.remove(self.dpid, &self.entry);
        }
    }

    /// Whether it is out of the registry.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Whether every descriptor of the program's was closed.
    pub fn is_closed(&self) -> bool {
        self.is_retired() || unix::hung_up(self.back.as_fd())
    }

    /// The service, of one that has no senders: ends it, if all that came was taken, and all that it sent was. Whether it did.
    /// Who deposits sees it under the same lock.
    pub fn retire_if_done(&self) -> bool {
        let Some(rx) = self.try_rx() else { return false };
        let left = self.something(&rx) || rx.tokens.loaned() > 0;
        drop(rx);
        // What the driver's end sent and the program's has not read.
        let unread = dp_edge::sys::raw::ioctl_int(self.back.as_raw_fd(), libc::TIOCOUTQ).unwrap_or(1);
        let mut tx = self.guest_tx();
        let done = !left && unread == 0 && tx.links.iter_mut().all(super::link::Link::is_done);
        done && self.retire()
    }

    /// Whether messages of this endpoint to `which` addresses are not with their receivers yet, or the service has not read to whom
    /// they go.
    pub fn unsent(&self, which: impl Fn(Addr) -> bool) -> bool {
        let tx = self.guest_tx();
        let queued = dp_edge::sys::raw::queued(self.back.as_raw_fd()).unwrap_or(0) > 0;
        queued || tx.links.iter().any(|l| l.queued > 0 && l.path == Path::Queued && which(l.to))
    }
}
