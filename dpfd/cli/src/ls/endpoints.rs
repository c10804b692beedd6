//! Endpoints and edges: those of the registry, as their processes account for them, and those that the kernel driver
//! serves, as the kernel does.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use dpfd::driver::user::list::{self, EndpointAccount, Said, Seen, State};
use dpfd::driver::user::registry::Registry;
use dpfd::driver::{kernel, Driver};
use dpfd::{Addr, Dpid, Nid};
use serde::Serialize;

/// How long a process may take to answer.
const ANSWER: Duration = Duration::from_millis(200);

/// What stands beside `families` in `--json`.
#[derive(Serialize, Default, Clone)]
pub struct Graph {
    /// The folder where the endpoints were found; none if there is none.
    registry: Option<String>,
    pub endpoints: Vec<Endpoint>,
    pub edges: Vec<Edge>,
}

/// An endpoint; what is not known is null.
#[derive(Serialize, Clone)]
pub struct Endpoint {
    pub dpid: Dpid,
    /// Name up to 15 bytes.
    pub program: Option<String>,
    pub pid: i32,
    pub uid: Option<u32>,
    /// "user", "kernel".
    pub driver: &'static str,
    /// "plain", "pool"; "silent" and "denied" are not told.
    pub mode: &'static str,
    pub target: Option<String>,
    pub pool_bytes: Option<usize>,
    pub pool_left: Option<usize>,
    /// Messages that the program has and did not release.
    pub held: Option<usize>,
    pub sent_messages: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub received_messages: Option<u64>,
    pub received_bytes: Option<u64>,
}

/// An edge from one endpoint to another.
#[derive(Serialize, Clone)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// "absent", "denied", "former", "plain", "edge", "crowded".
    pub state: &'static str,
    /// Messages that are not with the receiver yet.
    pub waiting: Option<u64>,
    pub messages: Option<u64>,
    pub bytes: Option<u64>,
}

impl Graph {
    /// What there is at the moment.
    pub fn look() -> dpfd::Result<Graph> {
        let registry = Registry::open_existing()?;
        let seen = registry.as_ref().map(|registry| list::list(registry, ANSWER)).unwrap_or_default();
        let comm = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let program = |pid| comm(pid).map(|name| name.trim_end_matches('\n').to_string());
        let mut graph = Graph::of(&seen, &kernel::list::list(), program);
        graph.registry = registry.map(|registry| registry.folder().display().to_string());
        Ok(graph)
    }

    /// The same of what was seen; `program` names processes.
    pub fn of(
        seen: &[Seen],
        by_kernel: &[kernel::list::Seen],
        program: impl Fn(i32) -> Option<String>,
    ) -> Graph {
        let library = seen.iter().map(|s| Endpoint::of(s, program(s.pid)));
        let kernel = by_kernel.iter().map(|s| Endpoint::by_kernel(s, program(s.pid)));
        let mut endpoints: Vec<_> = library.chain(kernel).collect();
        endpoints.sort_by_key(|e| e.dpid);
        Graph { registry: None, endpoints, edges: edges(seen) }
    }

    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Says what is missing in the lines, and why.
    pub fn explain_gaps(&self, verb: &str) {
        self.gaps().iter().for_each(|gap| eprintln!("dp {verb}: {gap}"));
    }

    /// The same, in words.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        let count = |mode| self.endpoints.iter().filter(|e| e.mode == mode).count();
        if count("silent") > 0 {
            let pids: BTreeSet<_> =
                self.endpoints.iter().filter(|e| e.mode == "silent").map(|e| e.pid.to_string()).collect();
            let pids = pids.into_iter().collect::<Vec<_>>().join(", ");
            let ms = ANSWER.as_millis();
            gaps.push(format!(
                "did not answer within {ms} ms: process {pids}; see whether it is stopped or hangs"
            ));
        }
        if count("denied") > 0 {
            let n = count("denied");
            gaps.push(format!("endpoints of other users: {n}; only they and root see more of them"));
        }
        gaps
    }
}

impl Endpoint {
    fn of(seen: &Seen, program: Option<String>) -> Endpoint {
        let (mode, account) = match &seen.said {
            Said::Account(account) if account.pooled => ("pool", Some(&**account)),
            Said::Account(account) => ("plain", Some(&**account)),
            Said::Nothing => ("silent", None),
            Said::Denied => ("denied", None),
        };
        let account = account.cloned().unwrap_or_default();
        let sent = account
            .to
            .as_ref()
            .map(|to| to.iter().fold((0, 0), |(n, bytes), link| (n + link.sent.0, bytes + link.sent.1)));
        Endpoint {
            dpid: seen.dpid,
            program,
            pid: seen.pid,
            uid: seen.uid,
            driver: Driver::User.word(),
            mode,
            target: account.target.map(text),
            pool_bytes: account.pool.map(|(size, _)| size),
            pool_left: account.pool.map(|(_, left)| left),
            held: account.loaned.filter(|_| account.pooled),
            sent_messages: sent.map(|(n, _)| n),
            sent_bytes: sent.map(|(_, bytes)| bytes),
            received_messages: account.received.map(|(n, _)| n),
            received_bytes: account.received.map(|(_, bytes)| bytes),
        }
    }
}

impl Endpoint {
    fn by_kernel(seen: &kernel::list::Seen, program: Option<String>) -> Endpoint {
        let (size, left) = seen.pool;
        Endpoint {
            dpid: seen.dpid,
            program,
            pid: seen.pid,
            uid: Some(seen.uid),
            driver: Driver::Kernel.word(),
            mode: if seen.in_place { "pool" } else { "plain" },
            target: seen.target.map(|to| to.to_string()),
            pool_bytes: Some(size),
            pool_left: Some(left),
            // Only the program knows.
            held: None,
            sent_messages: Some(seen.sent.0),
            sent_bytes: Some(seen.sent.1),
            received_messages: Some(seen.received.0),
            received_bytes: Some(seen.received.1),
        }
    }
}

/// All edges, by their senders' word; of senders that say nothing, by their receivers'.
fn edges(seen: &[Seen]) -> Vec<Edge> {
    let accounts: Vec<&EndpointAccount> = seen
        .iter()
        .filter_map(|s| match &s.said {
            Said::Account(account) => Some(&**account),
            _ => None,
        })
        .collect();
    let speaking = accounts.iter().filter(|a| a.to.is_some());
    let known: BTreeSet<_> = speaking.map(|a| local(a.dpid)).collect();
    let mut edges = Vec::new();
    let mut told = BTreeSet::new();
    for account in &accounts {
        for link in account.to.iter().flatten() {
            told.insert((local(account.dpid), link.to));
            edges.push(((local(account.dpid), link.to), {
                let (messages, bytes) = link.sent;
                (link.state.word(), Some(link.waiting), Some(messages), Some(bytes))
            }));
        }
    }
    for account in &accounts {
        for edge in account.from.iter().flatten() {
            let ends = (edge.from, local(account.dpid));
            if !told.contains(&ends) && !known.contains(&edge.from) {
                let (messages, bytes) = edge.received;
                edges.push((ends, (State::Edge.word(), None, Some(messages), Some(bytes))));
            }
        }
    }
    edges.sort_by_key(|(ends, _)| *ends);
    let edge = |((from, to), (state, waiting, messages, bytes))| Edge {
        from: text(from),
        to: text(to),
        state,
        waiting,
        messages,
        bytes,
    };
    edges.into_iter().map(edge).collect()
}

fn local(dpid: Dpid) -> (Nid, Dpid) {
    (0, dpid)
}

fn text((nid, dpid): (Nid, Dpid)) -> String {
    Addr { nid, dpid }.to_string()
}

#[cfg(test)]
mod tests;
