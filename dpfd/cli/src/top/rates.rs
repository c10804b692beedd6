//! How fast counters go: from one look at everything to the next.
//!
//! A counter that goes back belongs to another thing that took the former one's place: a descriptor that was used again, a
//! gateway that was started again. What it has counted, it counted since the last look.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::ls::families::{Connection, Family};
use crate::ls::Listing;

/// What is counted of anything, each if it is known.
pub const COUNTS: usize = 7;
/// Bytes that it sent.
pub const TX: usize = 0;
/// Bytes that it received.
pub const RX: usize = 1;
/// Messages that it sent.
pub const OUT: usize = 2;
/// Messages that it received.
pub const IN: usize = 3;
/// Wake-ups over TCP.
pub const BELLS: usize = 4;
/// Times that it went back to TCP.
pub const BACK: usize = 5;
/// Parts that were sent again.
pub const REPEATS: usize = 6;

pub type Counts = [Option<u64>; COUNTS];
/// In a second.
pub type Rates = [Option<f64>; COUNTS];

/// How long something that is not seen may come back as the same: a gateway that did not answer once. Of connections there
/// may be thousands a second.
const REMEMBERED: Duration = Duration::from_secs(600);
const CONNECTION_REMEMBERED: Duration = Duration::from_secs(10);

/// What tells one thing from all others, while it is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A family, by its memory.
    Family(u64),
    /// One without memory, by its first process.
    Process(u32),
    /// The end of a connection: its family, this end, the other end.
    Connection(u64, SocketAddr, SocketAddr),
    /// An endpoint: number, process, driver.
    Endpoint(u16, i32, &'static str),
    Edge(String, String),
    /// A route of this node.
    Route(String),
    Flow(String, String),
}

impl Key {
    pub fn family(of: &Family) -> Key {
        let pid = of.processes.first().map_or(0, |process| process.pid);
        of.memory.map_or(Key::Process(pid), Key::Family)
    }

    pub fn connection(of: &Connection, family: &Family) -> Key {
        Key::Connection(family.memory.unwrap_or(0), of.local, of.peer)
    }

    fn remembered(&self) -> Duration {
        match self {
            Key::Connection(..) => CONNECTION_REMEMBERED,
            _ => REMEMBERED,
        }
    }

    /// Whether a lower count is a look in the wrong moment, and not another thing: memory that stays the same one.
    fn is_one_thing(&self) -> bool {
        matches!(self, Key::Family(_))
    }
}

/// Everything that was seen lately.
#[derive(Debug, Default, Clone)]
pub struct Meter {
    last: HashMap<Key, (Duration, Counts)>,
    looked: Option<Duration>,
    rates: HashMap<Key, Rates>,
}

impl Meter {
    /// Looks at everything, `at` on a clock that only goes on.
    pub fn look(&mut self, listing: &Listing, at: Duration) {
        self.take(counts(listing), at);
    }

    fn take(&mut self, seen: Vec<(Key, Counts)>, at: Duration) {
        self.rates.clear();
        let mut now = HashMap::new();
        for (key, counts) in seen {
            let rates = match (self.last.get(&key), self.looked) {
                (Some((when, before)), _) => rates(&key, before, &counts, at.saturating_sub(*when)),
                // What was not there at the last look, came since.
                (None, Some(when)) => {
                    rates(&key, &counts.map(|n| n.map(|_| 0)), &counts, at.saturating_sub(when))
                }
                (None, None) => [None; COUNTS],
            };
            self.rates.insert(key.clone(), rates);
            now.insert(key, (at, counts));
        }
        let kept = self.last.drain().filter(|(key, (when, _))| at.saturating_sub(*when) < key.remembered());
        for (key, old) in kept {
            now.entry(key).or_insert(old);
        }
        self.last = now;
        self.looked = Some(at);
    }

    /// What was found at the last look; nothing is known after the first one.
    pub fn rates(&self, key: &Key) -> Rates {
        self.rates.get(key).copied().unwrap_or([None; COUNTS])
    }
}

fn rates(key: &Key, before: &Counts, now: &Counts, time: Duration) -> Rates {
    std::array::from_fn(|i| {
        let (before, now) = (before[i]?, now[i]?);
        let more = match now.checked_sub(before) {
            Some(more) => more,
            None if key.is_one_thing() => 0,
            None => now,
        };
        (!time.is_zero()).then(|| more as f64 / time.as_secs_f64())
    })
}

/// All that is counted.
fn counts(listing: &Listing) -> Vec<(Key, Counts)> {
    let mut all = Vec::new();
    for family in &listing.families {
        let of = [
            Some(family.tx_bytes),
            Some(family.rx_bytes),
            None,
            None,
            Some(family.doorbells),
            Some(family.hand_backs),
            None,
        ];
        all.push((Key::family(family), of));
        for c in &family.connections {
            let bytes = (c.state == "channel").then_some([c.tx_bytes, c.rx_bytes]);
            let of = [
                bytes.map(|b| b[0]),
                bytes.map(|b| b[1]),
                None,
                None,
                Some(c.doorbells),
                Some(c.hand_backs),
                None,
            ];
            all.push((Key::connection(c, family), of));
        }
    }
    for e in &listing.graph.endpoints {
        let of = [e.sent_bytes, e.received_bytes, e.sent_messages, e.received_messages, None, None, None];
        all.push((Key::Endpoint(e.dpid, e.pid, e.driver), of));
    }
    for e in &listing.graph.edges {
        all.push((
            Key::Edge(e.from.clone(), e.to.clone()),
            [e.bytes, None, e.messages, None, None, None, None],
        ));
    }
    if let Some(gateway) = &listing.gateway {
        for r in &gateway.routes {
            let of = [r.sent_bytes, r.received_bytes, r.sent, r.received].map(Some);
            all.push((Key::Route(r.address.clone()), [of[0], of[1], of[2], of[3], None, None, None]));
        }
        for f in gateway.nodes.iter().flat_map(|node| &node.flows) {
            let (sent, received) = (Some(f.messages_out), Some(f.messages_in));
            let of = [None, None, sent, received, None, None, Some(f.repeats)];
            all.push((Key::Flow(f.here.clone(), f.there.clone()), of));
        }
    }
    all
}

#[cfg(test)]
mod tests;
