//! What the endpoints of a node are doing, for `dp ls`: only their processes know, so they are asked.
//!
//! The asker connects to a process's door and says [`Note::List`]; the service answers [`Note::Listed`] with a
//! sealed memfd that holds an [`Account`] as text. Only the same user and root are answered. Who does not answer
//! in time is listed with what the registry alone says.
//!
//! What comes back is another process's word: its memory is checked before it is read, and what it says is not
//! believed further than about itself.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub use super::account::{Account, EdgeAccount, EndpointAccount, LinkAccount, State};
use super::door::{send_note, Sent};
use super::endpoint::UserEndpoint;
use super::link::Destination;
use super::note::{Note, LEN};
use super::process::Process;
use super::registry::Registry;
use crate::addr::{Addr, Dpid, Nid};
use dp_edge::segment::{sealed_len, sealed_memory};
use dp_edge::sys::unix;

/// Longest account that is read, bytes.
const LONGEST: usize = 64 << 20;
/// Processes asked at the same time: each takes a descriptor.
const AT_ONCE: usize = 256;
/// How long the service tries to see an endpoint whose program is just using it.
const PATIENCE: Duration = Duration::from_micros(500);

/// An endpoint of the registry.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its number.
    pub dpid: Dpid,
    /// Its process; the user if known.
    pub pid: i32,
    /// As above.
    pub uid: Option<u32>,
    /// What its process said.
    pub said: Said,
}

/// What a process said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// This.
    Account(Box<EndpointAccount>),
    /// Nothing, in time.
    Nothing,
    /// That it is another user's.
    Denied,
}

/// This process's account in sealed memory.
///
/// # Errors
///
/// EMFILE, ENOMEM.
pub fn account(process: &Process) -> std::io::Result<OwnedFd> {
    // Proxies are not endpoints of this node.
    let open = process.endpoints().into_iter().filter(|inner| inner.nid == 0 && !inner.is_closed());
    let account = Account { endpoints: open.map(|inner| EndpointAccount::of(&inner)).collect() };
    let text = account.to_string();
    let file = File::from(sealed_memory(c"dp-account", text.len())?);
    file.write_all_at(text.as_bytes(), 0)?;
    Ok(file.into())
}

/// Tries for a moment: a program that looks for messages without end must not hold up the service.
fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            None if Instant::now() < end => core::hint::spin_loop(),
            done => return done,
        }
    }
}

impl EndpointAccount {
    fn of(inner: &UserEndpoint) -> EndpointAccount {
        let mut account = EndpointAccount {
            dpid: inner.dpid,
            serial: inner.entry.serial,
            pooled: inner.inbox.get().is_some(),
            pool: inner.arrivals().budget.map(|budget| (budget.size(), budget.left())),
            ..EndpointAccount::default()
        };
        if let Some(tx) = patiently(|| inner.try_tx()) {
            account.target = tx.target.and_then(|ix| tx.links.get(ix)).map(|link| pair(link.to));
            account.to = Some(tx.links.iter().map(LinkAccount::of).collect());
        }
        if let Some(rx) = patiently(|| inner.try_rx()) {
            account.received = account.pooled.then(|| rx.tokens.taken());
            account.loaned = Some(rx.tokens.loaned());
            let edges = rx.tokens.edges();
            account.from =
                Some(edges.map(|e| EdgeAccount { from: pair(e.from()), received: e.taken }).collect());
        }
        account
    }
}

impl LinkAccount {
    fn of(link: &super::link::Link) -> LinkAccount {
        let state = match &link.destination {
            _ if link.refused.is_some() => State::Denied,
            _ if link.is_former() => State::Former,
            Destination::Unknown => State::Absent,
            Destination::Plain(_) => State::Plain,
            Destination::Pool { edge: Some(_), .. } => State::Edge,
            Destination::Pool { edge: None, .. } => State::Crowded,
        };
        LinkAccount { to: pair(link.to), state, waiting: link.queued.into(), sent: link.sent }
    }
}

fn pair(addr: Addr) -> (Nid, Dpid) {
    (addr.nid, addr.dpid)
}

/// All endpoints of the registry whose processes live, by number; each process has `time` to answer.
///
/// For a process without endpoints: looking at the lock of its own would give that up ([`Registry::lives`] of another
/// registry does not know whose it is), and others would take it for dead.
pub fn list(registry: &Registry, time: Duration) -> Vec<Seen> {
    let mut processes: HashMap<String, Vec<(Dpid, u32)>> = HashMap::new();
    for (dpid, entry) in registry.entries() {
        processes.entry(entry.process).or_default().push((dpid, entry.serial));
    }
    processes.retain(|process, _| registry.lives(process));
    let processes: Vec<_> = processes.into_iter().collect();
    let mut seen = Vec::new();
    for some in processes.chunks(AT_ONCE) {
        let asked: Vec<_> = some.iter().map(|(process, _)| Asked::new(registry, process)).collect();
        let end = Instant::now() + time;
        for (asked, (_, entries)) in asked.into_iter().zip(some) {
            let answer = asked.answer(end);
            let of = |said| move |dpid| Seen { dpid, pid: asked.pid, uid: asked.uid, said };
            for &(dpid, serial) in entries {
                seen.extend(match &answer {
                    Answer::Account(account) => {
                        // Which it does not know is closed by now.
                        let found = account.endpoints.iter().find(|e| (e.dpid, e.serial) == (dpid, serial));
                        found.map(|e| of(Said::Account(Box::new(e.clone())))(dpid))
                    }
                    Answer::Nothing => Some(of(Said::Nothing)(dpid)),
                    Answer::Denied => Some(of(Said::Denied)(dpid)),
                });
            }
        }
    }
    seen.sort_by_key(|s| s.dpid);
    seen
}

/// A process that was asked.
struct Asked {
    fd: Result<OwnedFd, i32>,
    pid: i32,
    uid: Option<u32>,
}

enum Answer {
    Account(Account),
    Nothing,
    Denied,
}

impl Asked {
    fn new(registry: &Registry, process: &str) -> Asked {
        let fd = unix::connect(&registry.door_path(process)).and_then(|fd| {
            match send_note(&fd, Note::List, &[]) {
                Sent::Done => Ok(fd),
                Sent::Full | Sent::Short => Err(libc::EAGAIN),
            }
        });
        // The kernel's word first; 0 is a process of another pid namespace.
        let peer = fd.as_ref().ok().and_then(|fd| unix::peer(fd.as_fd()));
        let named = || process.split('-').next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let pid = peer.map(|(pid, _)| pid).filter(|pid| *pid > 0).unwrap_or_else(named);
        Asked { fd, pid, uid: peer.map(|(_, uid)| uid).or_else(|| registry.owner(process)) }
    }

    fn answer(&self, end: Instant) -> Answer {
        let fd = match &self.fd {
            Ok(fd) => fd,
            Err(libc::EACCES | libc::EPERM) => return Answer::Denied,
            Err(_) => return Answer::Nothing,
        };
        let left = end.saturating_duration_since(Instant::now()).as_millis() as i32;
        if !unix::wait(fd.as_raw_fd(), libc::POLLIN, left).is_ok_and(|e| e & libc::POLLIN != 0) {
            return Answer::Nothing;
        }
        let mut buf = [0; LEN];
        let Ok(mut got) = unix::recv(fd.as_raw_fd(), &mut buf, libc::MSG_DONTWAIT) else {
            return Answer::Nothing;
        };
        match Note::decode(&buf[..got.len.min(LEN)]) {
            Some(Note::Denied { .. }) => Answer::Denied,
            Some(Note::Listed) => got.fds[0].take().and_then(read).map_or(Answer::Nothing, Answer::Account),
            // The end: a service that does not know the question.
            _ => Answer::Nothing,
        }
    }
}

/// What sealed memory says; nothing of memory that is not sealed, too long, or no account.
fn read(fd: OwnedFd) -> Option<Account> {
    let len = sealed_len(fd.as_fd()).ok().filter(|len| *len <= LONGEST)?;
    let mut text = vec![0; len];
    File::from(fd).read_exact_at(&mut text, 0).ok()?;
    Account::read(std::str::from_utf8(&text).ok()?)
}

#[cfg(test)]
mod tests;
