//! What is drawn: a graph, or what runs, or both at once with the differences marked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::{Addr, Dpid, Graph, Nid};

/// A node that messages go to, or that they came from, is heard of once a second.
const UNHEARD: Duration = Duration::from_secs(3);

/// How a part of the file stands to what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mark {
    /// Nothing is compared, or it is in the file and runs.
    #[default]
    Agreed,
    /// It is in the file and does not run.
    FileOnly,
    /// It runs and is not in the file.
    RunningOnly,
    /// It is on another node, and cannot be seen from here.
    Unseen,
}

impl Mark {
    /// In one word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Mark::Agreed => "agreed",
            Mark::FileOnly => "file-only",
            Mark::RunningOnly => "running-only",
            Mark::Unseen => "unseen",
        }
    }

    /// In words, for a legend.
    pub fn words(self) -> &'static str {
        match self {
            Mark::Agreed => "in the file, and runs",
            Mark::FileOnly => "in the file only: does not run",
            Mark::RunningOnly => "runs, and is not in the file",
            Mark::Unseen => "in the file, on another node: not seen from here",
        }
    }
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// Nodes, with what is on them.
    pub nodes: Vec<DrawnNode>,
    /// Edges whose ends are there.
    pub edges: Vec<DrawnEdge>,
    /// Marks are explained: a file was compared.
    pub legend: bool,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawnNode {
    /// Its number.
    pub nid: Nid,
    /// What stands in its box.
    pub title: String,
    /// Its processes.
    pub processes: Vec<DrawnProcess>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrawnProcess {
    /// What stands in its box.
    pub title: String,
    /// The processes that run as it.
    pub pids: Vec<i32>,
    /// What is known of it.
    pub mark: Mark,
    /// Its endpoints.
    pub endpoints: Vec<(Dpid, Mark)>,
    /// Where its channels begin and end: a number that no other has, and what stands there.
    pub channels: Vec<(u32, String)>,
}

/// Where an edge begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// An endpoint.
    Endpoint(Addr),
    /// Channels of a process, by their number in the picture.
    Channels(u32),
}

impl From<Addr> for End {
    fn from(addr: Addr) -> End {
        End::Endpoint(addr)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Endpoint(addr) => addr.fmt(f),
            End::Channels(number) => write!(f, "c{number}"),
        }
    }
}

/// An edge; or the channels between two processes, from who connected to who accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrawnEdge {
    /// Who sends.
    pub from: End,
    /// Who receives.
    pub to: End,
    /// What is known of it.
    pub mark: Mark,
}

/// What runs on this node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Running {
    /// This node's number.
    pub nid: Nid,
    /// Programs with endpoints.
    pub processes: Vec<RunningProcess>,
    /// Who sends to whom; nodes are named.
    pub edges: BTreeSet<(Addr, Addr)>,
    /// Other nodes, by the word of this one's gateway.
    pub others: Vec<OtherNode>,
    /// Channels under unmodified programs, a line for each two processes that have some.
    pub channels: Vec<RunningChannels>,
}

/// Another node, as far as the gateway knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtherNode {
    /// Its number.
    pub nid: Nid,
    /// What people call it.
    pub name: Option<String>,
    /// Some route reaches it, as far as is known: nobody asks while there is nothing to send.
    pub is_up: bool,
    /// When something was heard of it.
    pub heard: Heard,
    /// Endpoints there that took messages from here, or sent some.
    pub endpoints: BTreeSet<Dpid>,
}

/// When something was heard of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Heard {
    /// Nobody says.
    #[default]
    Unsaid,
    /// Never.
    Never,
    /// So long ago.
    Ago(Duration),
}

/// A program with endpoints or channels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunningProcess {
    /// Its number; 0: somebody's who may not be seen.
    pub pid: i32,
    /// Its name and number.
    pub title: String,
    /// Its endpoints.
    pub endpoints: BTreeSet<Dpid>,
}

/// The channels between two processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunningChannels {
    /// The process that connected.
    pub client: i32,
    /// The process that accepted.
    pub server: i32,
    /// At which ports.
    pub ports: BTreeSet<u16>,
    /// How many.
    pub channels: u64,
    /// Bytes that the client sent, and that the server did.
    pub client_bytes: u64,
    /// As above.
    pub server_bytes: u64,
    /// The same for people.
    pub label: String,
}

impl Running {
    /// Whether the gateway knows this endpoint of another node.
    fn is_told(&self, end: Addr) -> bool {
        self.others.iter().any(|node| node.nid == end.nid && node.endpoints.contains(&end.dpid))
    }
}

impl Picture {
    /// A graph by itself.
    pub fn of(graph: &Graph) -> Picture {
        let mut picture = Picture::default();
        for node in &graph.nodes {
            picture.node(node.nid, node.name.as_deref());
        }
        for process in &graph.processes {
            let endpoints = process.endpoints.iter().map(|&dpid| (dpid, Mark::Agreed)).collect();
            let drawn = DrawnProcess { title: process.name.clone(), endpoints, ..DrawnProcess::default() };
            picture.node(process.nid, None).processes.push(drawn);
        }
        let edge = |e: &crate::Edge| DrawnEdge { from: e.from.into(), to: e.to.into(), mark: Mark::Agreed };
        picture.edges = graph.edges.iter().map(edge).collect();
        picture
    }

    /// What runs, beside a graph if there is one. Graphs know nothing of channels, so beside one these are left out.
    pub fn live(running: &Running, graph: Option<&Graph>) -> Picture {
        let mut picture = graph.map(|graph| compared(graph, running)).unwrap_or_default();
        let extra = if graph.is_some() { Mark::RunningOnly } else { Mark::Agreed };
        picture.node(running.nid, None);
        for other in &running.others {
            let node = picture.node(other.nid, other.name.as_deref());
            match other.heard {
                _ if !other.is_up => node.title += ", down",
                Heard::Never => node.title += ", not heard of yet",
                Heard::Ago(time) if time >= UNHEARD => {
                    node.title += &format!(", not heard of for {} s", time.as_secs());
                }
                Heard::Ago(_) | Heard::Unsaid => {}
            }
        }
        for process in &running.processes {
            if graph.is_none() || !process.endpoints.is_empty() {
                picture.add_running(running.nid, process, extra);
            }
        }
        let known: BTreeSet<_> = picture.edges.iter().map(|e| (e.from, e.to)).collect();
        for &(from, to) in
            running.edges.iter().filter(|(from, to)| !known.contains(&((*from).into(), (*to).into())))
        {
            for end in [from, to] {
                picture.add_end(end, running, extra);
            }
            picture.edges.push(DrawnEdge { from: from.into(), to: to.into(), mark: extra });
        }
        if graph.is_none() {
            picture.add_channels(running);
        }
        for other in &running.others {
            for &dpid in &other.endpoints {
                picture.add_end(Addr { nid: other.nid, dpid }, running, extra);
            }
        }
        // A node that the file has not, and of which nothing is known to run, is nothing to draw.
        let asked = |nid| graph.is_some_and(|g| nid == running.nid || g.nodes.iter().any(|n| n.nid == nid));
        picture.nodes.retain(|node| !node.processes.is_empty() || asked(node.nid));
        picture
    }

    /// The node of this number, made if need be.
    fn node(&mut self, nid: Nid, name: Option<&str>) -> &mut DrawnNode {
        let found = self.nodes.iter().position(|node| node.nid == nid);
        let at = found.unwrap_or_else(|| {
            let title = name.map_or(format!("node {nid}"), |name| format!("node {nid} {name}"));
            self.nodes.push(DrawnNode { nid, title, processes: Vec::new() });
            self.nodes.len() - 1
        });
        &mut self.nodes[at]
    }

    /// A program: its endpoints that are drawn already stay where they are, and the others come beside them.
    fn add_running(&mut self, nid: Nid, process: &RunningProcess, extra: Mark) {
        let node = self.node(nid, None);
        let has = |drawn: &DrawnProcess, dpid| drawn.endpoints.iter().any(|(d, _)| *d == dpid);
        let mut rest: Vec<_> = process.endpoints.iter().copied().collect();
        rest.retain(|&dpid| !node.processes.iter().any(|drawn| has(drawn, dpid)));
        let mut homes = node.processes.iter_mut().filter(|d| process.endpoints.iter().any(|e| has(d, *e)));
        let more = rest.iter().map(|&dpid| (dpid, extra));
        match homes.next() {
            Some(home) => {
                let between = if home.title.contains(" = ") { ", " } else { " = " };
                home.title = format!("{}{between}{}", home.title, process.title);
                home.pids.push(process.pid);
                home.endpoints.extend(more);
            }
            None => {
                drop(homes);
                let endpoints = more.collect();
                let drawn = DrawnProcess {
                    title: process.title.clone(),
                    pids: vec![process.pid],
                    mark: extra,
                    endpoints,
                    channels: Vec::new(),
                };
                node.processes.push(drawn);
            }
        }
    }

    /// Channels: with who connected how many there are and what went through them, with who accepted the ports.
    fn add_channels(&mut self, running: &Running) {
        let mut ports: BTreeMap<i32, BTreeSet<u16>> = BTreeMap::new();
        for channels in &running.channels {
            ports.entry(channels.server).or_default().extend(&channels.ports);
        }
        let mut number = 0;
        let mut doors: BTreeMap<i32, End> = BTreeMap::new();
        for (&pid, ports) in &ports {
            let label = ports.iter().map(|port| format!(":{port}")).collect::<Vec<_>>().join(" ");
            doors.insert(pid, self.add_channel_end(running.nid, pid, &mut number, &label));
        }
        for channels in &running.channels {
            let from = self.add_channel_end(running.nid, channels.client, &mut number, &channels.label);
            let Some(&to) = doors.get(&channels.server) else { continue };
            self.edges.push(DrawnEdge { from, to, mark: Mark::Agreed });
        }
    }

    fn add_channel_end(&mut self, nid: Nid, pid: i32, number: &mut u32, label: &str) -> End {
        let node = self.node(nid, None);
        let found = node.processes.iter().position(|process| process.pids.contains(&pid));
        let at = found.unwrap_or_else(|| {
            let title = if pid == 0 { "not to be seen".into() } else { format!("process {pid}") };
            node.processes.push(DrawnProcess { title, pids: vec![pid], ..DrawnProcess::default() });
            node.processes.len() - 1
        });
        *number += 1;
        node.processes[at].channels.push((*number, label.to_string()));
        End::Channels(*number)
    }

    /// The end of an edge, if it is not drawn: on this node nobody has it open, on others the gateway may know of it.
    fn add_end(&mut self, end: Addr, running: &Running, mark: Mark) {
        let node = self.node(end.nid, None);
        if node.processes.iter().any(|p| p.endpoints.iter().any(|(dpid, _)| *dpid == end.dpid)) {
            return;
        }
        let title = match end.nid == running.nid {
            true => "not open",
            false if running.is_told(end) => "told by the gateway",
            false => "not seen from here",
        };
        let found = node.processes.iter().position(|p| p.title == title);
        let at = found.unwrap_or_else(|| {
            node.processes.push(DrawnProcess { title: title.into(), mark, ..DrawnProcess::default() });
            node.processes.len() - 1
        });
        node.processes[at].endpoints.push((end.dpid, mark));
    }
}

/// A graph with what is known of its parts.
fn compared(graph: &Graph, running: &Running) -> Picture {
    let mut picture = Picture { legend: true, ..Picture::of(graph) };
    let open: BTreeSet<Dpid> = running.processes.iter().flat_map(|p| p.endpoints.iter().copied()).collect();
    for node in &mut picture.nodes {
        for process in &mut node.processes {
            for (dpid, mark) in &mut process.endpoints {
                *mark = match node.nid == running.nid {
                    false if running.is_told(Addr { nid: node.nid, dpid: *dpid }) => Mark::Agreed,
                    false => Mark::Unseen,
                    true if open.contains(dpid) => Mark::Agreed,
                    true => Mark::FileOnly,
                };
            }
            let marks: BTreeMap<Mark, ()> = process.endpoints.iter().map(|(_, mark)| (*mark, ())).collect();
            let none = if node.nid == running.nid { Mark::FileOnly } else { Mark::Unseen };
            process.mark = marks.keys().next().copied().unwrap_or(none);
        }
    }
    for edge in &mut picture.edges {
        let (End::Endpoint(from), End::Endpoint(to)) = (edge.from, edge.to) else { continue };
        edge.mark = match running.edges.contains(&(from, to)) {
            true => Mark::Agreed,
            // Only senders know all their edges.
            false if from.nid != running.nid => Mark::Unseen,
            false => Mark::FileOnly,
        };
    }
    picture
}
