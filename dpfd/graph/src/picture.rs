//! A picture: nodes, processes, endpoints, edges, and how each part of a file stands to what runs.

use std::fmt;

use crate::{Addr, Dpid, Graph, Nid};

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

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// Nodes, with what is on them.
    pub nodes: Vec<DrawnNode>,
    /// Edges whose ends are there.
    pub edges: Vec<DrawnEdge>,
    /// Marks are explained: a file was compared.
    pub legend: bool,
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

    /// The node of this number, made if need be.
    pub(crate) fn node(&mut self, nid: Nid, name: Option<&str>) -> &mut DrawnNode {
        let found = self.nodes.iter().position(|node| node.nid == nid);
        let at = found.unwrap_or_else(|| {
            let title = name.map_or(format!("node {nid}"), |name| format!("node {nid} {name}"));
            self.nodes.push(DrawnNode { nid, title, processes: Vec::new() });
            self.nodes.len() - 1
        });
        &mut self.nodes[at]
    }
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
    /// How it stands to what runs.
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
    /// The sender.
    pub from: End,
    /// The receiver.
    pub to: End,
    /// How it stands to what runs.
    pub mark: Mark,
}
