//! What `dp ls` is told of a gateway.
//!
//! In the folder of the registry the gateway listens at `gateway.status`. Whoever connects has it write `gateway.json` anew,
//! and is done when the connection is closed. So nothing is written while nobody looks.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dpfd::Nid;
use serde::{Deserialize, Serialize};

use crate::local::Local;
use crate::node::Node;

const DOOR: &str = "gateway.status";
const FILE: &str = "gateway.json";
/// Bytes that the file can have: what as many flows as possible need.
const LONGEST: u64 = 64 << 20;

/// A gateway. Fields may be added; none changes its meaning while `version` stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// 1.
    pub version: u32,
    /// Its node.
    pub nid: Nid,
    /// The process.
    pub pid: u32,
    /// Its routes.
    pub routes: Vec<Route>,
    /// The other nodes.
    pub nodes: Vec<Other>,
    /// Frames from addresses that are no node's.
    pub unknown: u64,
    /// Frames that were no frames.
    pub unsound: u64,
    /// Frames that said that they were another node's, or for another node.
    pub foreign: u64,
    /// Times that an endpoint of another node had to wait for descriptors that others of its node have.
    #[serde(default)]
    pub crowded: u64,
    /// Messages that were taken by flows for whose places there was no room.
    #[serde(default)]
    pub unkept: u64,
}

/// A route of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// This node's address on it.
    pub address: String,
    /// Frames, and their bytes.
    pub sent: u64,
    /// As above.
    pub sent_bytes: u64,
    /// As above.
    pub received: u64,
    /// As above.
    pub received_bytes: u64,
    /// What works less well than it could.
    pub remark: Option<String>,
    /// By which of several means of the system it receives, and why; none: there is but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// Its number.
    pub nid: Nid,
    /// What people call it.
    pub name: Option<String>,
    /// The address at which it is reached now; none: it is down.
    pub by: Option<String>,
    /// How long ago something was last heard of it, nanoseconds; none: never, or the gateway is older than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_ns: Option<u64>,
    /// The routes to it, in the order in which they are wanted.
    pub routes: Vec<Way>,
    /// Frames that a guard, or a flow, refused.
    pub refused: u64,
    /// Frames for more flows than there may be.
    pub crowded: u64,
    /// Frames that no route carried.
    pub unsent: u64,
    /// Flows with its endpoints.
    pub flows: Vec<Flow>,
}

/// A route to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// That node's address.
    pub address: String,
    /// What is done to frames on it: "none", "authenticate", "encrypt".
    #[serde(default)]
    pub security: String,
    /// It is not thought to be dead.
    pub alive: bool,
    /// Of the last probe, nanoseconds; 0: none was answered.
    pub round_trip_ns: u64,
    /// Bytes of the longest packet that comes through, where that is less than the route says; else none.
    #[serde(default)]
    pub longest: Option<usize>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The endpoint here.
    pub here: String,
    /// The endpoint there.
    pub there: String,
    /// The route by which its frames leave; none: the node is down.
    #[serde(default)]
    pub route: Option<String>,
    /// Who sends there, as users of this node are; none: users are squashed, or it is not known yet.
    #[serde(default)]
    pub user: Option<u32>,
    /// The other end is known.
    pub open: bool,
    /// Smoothed, nanoseconds; 0: not known.
    pub round_trip_ns: u64,
    /// Parts that may be on their way, and that are.
    pub window: u32,
    /// As above.
    pub flying: u32,
    /// Parts beyond those that the other end has room for.
    pub room: u32,
    /// Messages from here that are not acknowledged.
    pub waiting: u64,
    /// Messages from here that are, and from there that are with their receiver.
    pub messages_out: u64,
    /// As above.
    pub messages_in: u64,
    /// Frames, parts that were sent more than once, parts that came more than once.
    pub frames_out: u64,
    /// As above.
    pub frames_in: u64,
    /// As above.
    pub repeats: u64,
    /// As above.
    pub again: u64,
    /// Times that nothing was answered in time, and that it turned out that answers had only been late.
    pub timeouts: u64,
    /// As above.
    #[serde(default)]
    pub early_timeouts: u64,
    /// Frames that were dropped.
    pub refused: u64,
    /// How often one side began anew.
    pub restarts: u64,
    /// What went between the two without a flow; none: nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
}

/// What goes raw between two endpoints: nobody acknowledges it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raw {
    /// Messages that left, and that were dropped here since no route to the node works, or it did not greet.
    pub messages_out: u64,
    /// As above.
    pub dropped: u64,
    /// Messages that are with their receiver.
    pub messages_in: u64,
    /// Messages from there of which something did not come, or for which there was no room.
    pub lost: u64,
    /// Of those: the receiver had no room, is not there, or does not let the sender in.
    pub no_room: u64,
    /// Frames from there that did not come, or were overtaken.
    pub frames_lost: u64,
}

impl Flow {
    /// Whether there is nothing of it but what went raw.
    pub fn is_raw_alone(&self) -> bool {
        self.raw.is_some() && self.messages_out + self.messages_in + self.waiting == 0
    }

    /// "open", "greeting", or "down" as the node is that it is with.
    pub fn state(&self, with: &Other) -> &'static str {
        match (&with.by, self.open) {
            (None, _) => "down",
            (_, true) => "open",
            (_, false) => "greeting",
        }
    }
}

impl Gateway {
    /// What there is to tell of a node at this time.
    pub fn of<L: Local>(node: &mut Node<L>, now: u64) -> Gateway {
        let routes = node.routes().iter().map(|route| {
            let counters = route.counters();
            Route {
                address: route.local().to_string(),
                sent: counters.sent,
                sent_bytes: counters.sent_bytes,
                received: counters.received,
                received_bytes: counters.received_bytes,
                remark: route.remark().map(str::to_string),
                means: route.means().map(str::to_string),
            }
        });
        let (routes, dropped, nid) = (routes.collect(), node.dropped(), node.nid());
        let nodes = node.peers().iter_mut().map(|peer| {
            let ways = peer.ways().iter().enumerate().map(|(place, way)| Way {
                address: way.address.to_string(),
                security: way.guard.word().to_string(),
                alive: peer.is_alive(place),
                round_trip_ns: way.round_trip,
                longest: way.shortened(),
            });
            let routes: Vec<Way> = ways.collect();
            let by = peer.current().map(|place| routes[place].address.clone());
            let flows = peer.traffic().map(|traffic| {
                let (state, counts, ends) = (traffic.state(), traffic.counts(), traffic.ends());
                Flow {
                    here: ends.here.to_string(),
                    there: format!("{}/{}", peer.nid(), ends.there),
                    route: peer.current_for(ends).map(|place| peer.ways()[place].address.route().to_string()),
                    user: traffic.user(),
                    open: state.open,
                    round_trip_ns: state.round_trip,
                    window: state.window,
                    flying: state.flying,
                    room: state.room,
                    waiting: traffic.waiting() as u64,
                    messages_out: counts.messages_out,
                    messages_in: counts.messages_in,
                    frames_out: counts.frames_out,
                    frames_in: counts.frames_in,
                    repeats: counts.repeats,
                    again: counts.again,
                    timeouts: counts.timeouts,
                    early_timeouts: counts.early_timeouts,
                    refused: counts.refused_sum(),
                    restarts: traffic.restarts(),
                    raw: traffic.raw_counts().map(|(counts, sent)| Raw {
                        messages_out: sent.messages,
                        dropped: sent.dropped,
                        messages_in: counts.messages_in,
                        lost: counts.messages_lost,
                        no_room: counts.no_room,
                        frames_lost: counts.frames_lost,
                    }),
                }
            });
            let flows = flows.collect();
            let (nid, name, counts) = (peer.nid(), peer.name().map(str::to_string), *peer.counts());
            let refused = counts.refused + counts.unsound;
            let (crowded, unsent) = (counts.crowded, counts.unsent);
            let heard_ns = peer.heard().map(|heard| now.saturating_sub(heard));
            Other { nid, name, by, heard_ns, routes, refused, crowded, unsent, flows }
        });
        let nodes = nodes.collect();
        let crate::node::Dropped { unknown, unsound, foreign, .. } = dropped;
        let crowded = node.local().crowded();
        Gateway {
            version: 1,
            nid,
            pid: std::process::id(),
            routes,
            nodes,
            unknown,
            unsound,
            foreign,
            crowded,
            unkept: node.places().counts().unkept,
        }
    }

    /// Whether a gateway has this folder, as far as this user may see; one that died has it until the next one.
    pub fn runs_in(folder: &Path) -> bool {
        folder.join(DOOR).exists()
    }

    /// Asks the gateway that has this folder; none if there is none, or it has ended as it was told to.
    ///
    /// # Errors
    ///
    /// ECONNREFUSED: it died. It does not answer within `patience`, or what it wrote cannot be read.
    pub fn ask(folder: &Path, patience: Duration) -> io::Result<Option<Gateway>> {
        let mut door = match UnixStream::connect(folder.join(DOOR)) {
            Ok(door) => door,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        door.set_read_timeout(Some(patience))?;
        // It says nothing; its end is the answer.
        door.read_to_end(&mut Vec::new())?;
        let mut text = Vec::new();
        fs::File::open(folder.join(FILE))?.take(LONGEST).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }
}

/// Where a gateway is asked.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    /// In the folder of the registry, whose gateway this process is.
    ///
    /// # Errors
    ///
    /// Those of bind(2).
    pub fn open(folder: &Path) -> io::Result<Door> {
        let path = folder.join(DOOR);
        // One that was killed left it.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let door = Door { listener, path };
        door.listener.set_nonblocking(true)?;
        Ok(door)
    }

    /// Readable when somebody asks.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Answers all who ask. `tell` is called once at most.
    pub fn answer(&self, folder: &Path, tell: impl FnOnce() -> Gateway) {
        let Ok(first) = self.listener.accept() else { return };
        let mut all = vec![first];
        all.extend(std::iter::from_fn(|| self.listener.accept().ok()).take(15));
        // Who asked finds what there was before, if it cannot be written.
        let _ = write(folder, &tell());
    }
}

/// A gateway that ends takes its socket away: without it no gateway runs, while one that refuses is of a gateway that died.
impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn write(folder: &Path, gateway: &Gateway) -> io::Result<()> {
    let new = folder.join(format!("{FILE}.new"));
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(&new)?;
    file.write_all(&serde_json::to_vec(gateway)?)?;
    drop(file);
    fs::rename(new, folder.join(FILE))
}

#[cfg(test)]
mod tests;
