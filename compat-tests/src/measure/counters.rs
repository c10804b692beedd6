//! The product's own counters: `dp ls --json`, as dp-ls(1) describes it.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde::Deserialize;

use super::kit::Kit;
use super::Error;

/// The layout known here.
const VERSION: u32 = 1;

/// A program and what it forked, and what became of its connections since it started.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Family {
    processes: Vec<Member>,
    /// Connections that became channels.
    pub channels: u64,
    /// Bytes sent through rings.
    pub tx_bytes: u64,
    /// Bytes received through rings.
    pub rx_bytes: u64,
    /// Wake-ups sent over TCP.
    pub doorbells: u64,
    /// Times that a direction went back to TCP.
    pub hand_backs: u64,
    /// Waits that slept over something that had come, until a second look: a fault of the shim's.
    #[serde(default)]
    pub lost_wakeups: u64,
    /// Connections that stayed on TCP, by reason.
    pub on_tcp: BTreeMap<String, u64>,
    /// Those that are open.
    pub connections: Vec<Connection>,
}

#[derive(Clone, Debug, Deserialize)]
struct Member {
    pid: u32,
}

/// One end of an open connection.
#[derive(Clone, Debug, Deserialize)]
pub struct Connection {
    state: String,
}

impl Connection {
    /// Whether it is a channel now.
    pub fn is_channel(&self) -> bool {
        self.state == "channel"
    }
}

#[derive(Deserialize)]
struct Listing {
    version: u32,
    families: Vec<Family>,
}

impl Family {
    /// That of a running process; None if the process has no shim.
    ///
    /// # Errors
    /// `dp ls` fails, or prints another layout.
    pub fn of(kit: &Kit, pid: u32) -> Result<Option<Family>, Error> {
        let mut families = Family::all(kit)?.into_iter();
        Ok(families.find(|family| family.has(&[pid])))
    }

    /// Those of all running processes that this user may see.
    ///
    /// # Errors
    /// `dp ls` fails, or prints another layout.
    pub fn all(kit: &Kit) -> Result<Vec<Family>, Error> {
        let said = kit
            .dp()
            .args(["ls", "--json"])
            .stdin(Stdio::null())
            .output()
            .map_err(Error::system("dp ls --json"))?;
        if !said.status.success() {
            return Err(Error::words("dp ls --json", &String::from_utf8_lossy(&said.stderr)));
        }
        parse(&String::from_utf8_lossy(&said.stdout))
    }

    /// Whether one of these processes belongs to it.
    pub fn has(&self, pids: &[u32]) -> bool {
        self.processes.iter().any(|member| pids.contains(&member.pid))
    }

    /// How many of the open connections are channels, and how many there are.
    pub fn open(&self) -> (usize, usize) {
        (self.connections.iter().filter(|c| c.is_channel()).count(), self.connections.len())
    }

    /// In words, how bytes came to go by TCP.
    pub fn elsewhere(&self) -> String {
        format!(
            "connections left on TCP: {}; directions handed back: {}",
            self.left_on_tcp(),
            self.hand_backs
        )
    }

    /// `2 no-offer, 1 silent`, or `none`.
    pub fn left_on_tcp(&self) -> String {
        let counts: Vec<String> =
            self.on_tcp.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        if counts.is_empty() {
            "none".to_string()
        } else {
            counts.join(", ")
        }
    }
}

fn parse(listing: &str) -> Result<Vec<Family>, Error> {
    let listing: Listing = serde_json::from_str(listing)
        .map_err(|error| Error::words("dp ls --json", &format!("{error} in {listing}")))?;
    if listing.version != VERSION {
        return Err(Error::words("dp ls --json", &format!("version {}", listing.version)));
    }
    Ok(listing.families)
}

#[cfg(test)]
mod tests;
