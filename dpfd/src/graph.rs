//! The part of a directed point graph that a program is given (`DP_GRAPH`).
//!
//! The graph is a TOML file of whoever runs the cluster (dp-graph.toml(5)), and `dp graph compile` makes of it what is read
//! here: a line for each edge. So the library needs no parser of TOML, and what it reads has been checked already.
//!
//! ```text
//! dp-graph 1            the form's version
//! strict                if it is: only these edges may be used
//! edge 1/5001 2/5001    a sender and its receiver, NID/DPID
//! end                   nothing is missing
//! ```
//!
//! A line with another first word is for whoever knows it. Which process of the graph this program is need not be said: a
//! node and an endpoint's number tell, since no two processes of a node share one.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::addr::{Addr, Dpid, Nid};
use crate::error::{Error, Result};

/// The variable that names the file.
pub const VARIABLE: &str = "DP_GRAPH";
/// The first line.
pub const FIRST: &str = "dp-graph 1";
/// The line of a strict graph.
pub const STRICT: &str = "strict";
/// The first word of an edge's line.
pub const EDGE: &str = "edge";
/// The last line.
pub const END: &str = "end";
/// Bytes of a file; a longer one is a mistake.
const LONGEST: u64 = 64 << 20;

/// What a graph says of the programs of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    nid: Nid,
    strict: bool,
    /// A receiver on this node has node 0, as the drivers write it.
    edges: HashSet<(Dpid, Addr)>,
}

impl Part {
    /// Of the file that `DP_GRAPH` names, if that graph is strict: another allows everything. `own` tells this node's number.
    ///
    /// # Errors
    ///
    /// [`Error::Graph`].
    pub fn of_environment(own: impl FnOnce() -> Nid) -> Result<Option<Arc<Part>>> {
        let Some(path) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let read = || -> std::result::Result<Part, (String, i32)> {
            let file = |e: std::io::Error| (e.to_string(), e.raw_os_error().unwrap_or(libc::EIO));
            let metadata = std::fs::metadata(&path).map_err(file)?;
            if !metadata.is_file() || metadata.len() > LONGEST {
                return Err(("no file, or one of more than 64 MiB".into(), libc::EINVAL));
            }
            let bytes = std::fs::read(&path).map_err(file)?;
            let text = String::from_utf8_lossy(&bytes);
            Part::parse(&text, own()).map_err(|what| (what, libc::EINVAL))
        };
        let part = read().map_err(|(what, errno)| Error::Graph { path: path.clone(), what, errno })?;
        Ok(Some(part).filter(|part| part.strict).map(Arc::new))
    }

    /// The part of node `own` in the text of a compiled graph.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    ///
    /// ```
    /// use dpfd::{graph::Part, Addr};
    ///
    /// let part = Part::parse("dp-graph 1\nstrict\nedge 1/5001 2/5001\nend\n", 1)?;
    /// assert!(part.allows(5001, Addr { nid: 2, dpid: 5001 }));
    /// assert!(!part.allows(5001, Addr::local(5002)));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str, own: Nid) -> std::result::Result<Part, String> {
        let mut lines = (1..).zip(text.lines());
        match lines.next() {
            Some((_, FIRST)) => {}
            Some((_, line)) if line.starts_with("dp-graph ") => {
                return Err("compiled by a dp that is newer than this library".into());
            }
            _ => return Err("no compiled graph".into()),
        }
        let mut part = Part { nid: own, ..Part::default() };
        let mut ended = false;
        for (number, line) in lines {
            let mut words = line.split(' ');
            match words.next() {
                Some(STRICT) => part.strict = true,
                Some(END) => ended = true,
                Some(EDGE) => {
                    let mut end =
                        || words.next().and_then(|word| word.parse::<Addr>().ok()).filter(|a| a.nid != 0);
                    let (Some(from), Some(to)) = (end(), end()) else {
                        return Err(format!("line {number} is no edge"));
                    };
                    if from.nid == own {
                        part.edges.insert((from.dpid, part.here(to)));
                    }
                }
                _ => {}
            }
        }
        if ended {
            Ok(part)
        } else {
            Err("the end is missing".into())
        }
    }

    /// Whether this node's endpoint `from` may send to `to`.
    pub fn allows(&self, from: Dpid, to: Addr) -> bool {
        !self.strict || self.edges.contains(&(from, self.here(to)))
    }

    /// The same as a result.
    ///
    /// # Errors
    ///
    /// [`Error::NotInGraph`].
    pub fn check(&self, from: Dpid, to: Addr) -> Result<()> {
        if self.allows(from, to) {
            return Ok(());
        }
        let nid = if to.nid == 0 { self.nid } else { to.nid };
        Err(Error::NotInGraph { from: Addr { nid: self.nid, dpid: from }, to: Addr { nid, ..to } })
    }

    fn here(&self, to: Addr) -> Addr {
        if to.nid == self.nid {
            Addr::local(to.dpid)
        } else {
            to
        }
    }
}

#[cfg(test)]
mod tests;
