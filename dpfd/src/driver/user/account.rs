//! What a process says of its endpoints, and how it is written down: lines of words, `-` for what it could not see.
//!
//! ```text
//!   dp-account 1
//!   endpoint DPID SERIAL POOLED  POOL LEFT  NID DPID  MESSAGES BYTES  LOANED    the pool, the target, what it received
//!   no-links                                           where the sending side was in use
//!   link NID DPID STATE WAITING MESSAGES BYTES         each destination of the endpoint above
//!   no-edges
//!   edge NID DPID MESSAGES BYTES                       each edge into it
//! ```
//!
//! Of two versions that do not know each other's first line, neither believes the other.

use core::fmt::{self, Display};
use core::str::{FromStr, SplitAsciiWhitespace};

use crate::addr::{Dpid, Nid};

/// The first line.
const HEAD: &str = "dp-account 1";

/// What a process says of its endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Those that are open.
    pub endpoints: Vec<EndpointAccount>,
}

/// What it says of one. Messages and bytes come in pairs; `None` is what could not be seen at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointAccount {
    /// Its number, and which of the process's endpoints it is.
    pub dpid: Dpid,
    /// As above.
    pub serial: u32,
    /// Whether it is in pool mode.
    pub pooled: bool,
    /// Bytes of its pool, and those that no edge has.
    pub pool: Option<(usize, usize)>,
    /// Where it sends by default.
    pub target: Option<(Nid, Dpid)>,
    /// Read in pool mode.
    pub received: Option<(u64, u64)>,
    /// Messages loaned out and not released.
    pub loaned: Option<usize>,
    /// Every destination it ever had.
    pub to: Option<Vec<LinkAccount>>,
    /// Every edge into it.
    pub from: Option<Vec<EdgeAccount>>,
}

/// A way to a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkAccount {
    /// The destination.
    pub to: (Nid, Dpid),
    /// How messages go there.
    pub state: State,
    /// Messages that are not there yet.
    pub waiting: u64,
    /// Those that are.
    pub sent: (u64, u64),
}

/// An edge, seen by its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeAccount {
    /// The sender.
    pub from: (Nid, Dpid),
    /// Read from it.
    pub received: (u64, u64),
}

/// How messages go to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is not open, or not found yet; or of another node, and nothing was sent there lately.
    Absent,
    /// It belongs to a user who does not let this one send.
    Denied,
    /// It was the endpoint's target, and nothing was sent there since another one is.
    Former,
    /// Onto its descriptor, as it reads plainly.
    Plain,
    /// Into its pool.
    Edge,
    /// Onto its descriptor, as its pool has no edge left.
    Crowded,
}

impl State {
    const ALL: [State; 6] =
        [State::Absent, State::Denied, State::Former, State::Plain, State::Edge, State::Crowded];

    /// As it is listed.
    pub fn word(self) -> &'static str {
        match self {
            State::Absent => "absent",
            State::Denied => "denied",
            State::Former => "former",
            State::Plain => "plain",
            State::Edge => "edge",
            State::Crowded => "crowded",
        }
    }
}

/// A pair, or two dashes.
struct Pair<T>(Option<(T, T)>);

impl<T: Display> Display for Pair<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((a, b)) => write!(f, "{a} {b}"),
            None => f.write_str("- -"),
        }
    }
}

impl Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.endpoints.iter().try_for_each(|endpoint| endpoint.fmt(f))
    }
}

impl Display for EndpointAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pool, target, received) = (Pair(self.pool), Pair(self.target), Pair(self.received));
        let (dpid, serial, pooled) = (self.dpid, self.serial, u8::from(self.pooled));
        write!(f, "endpoint {dpid} {serial} {pooled} {pool} {target} {received} ")?;
        match self.loaned {
            Some(loaned) => writeln!(f, "{loaned}")?,
            None => writeln!(f, "-")?,
        }
        if self.to.is_none() {
            writeln!(f, "no-links")?;
        }
        for LinkAccount { to: (nid, dpid), state, waiting, sent } in self.to.iter().flatten() {
            writeln!(f, "link {nid} {dpid} {} {waiting} {} {}", state.word(), sent.0, sent.1)?;
        }
        if self.from.is_none() {
            writeln!(f, "no-edges")?;
        }
        for EdgeAccount { from: (nid, dpid), received } in self.from.iter().flatten() {
            writeln!(f, "edge {nid} {dpid} {} {}", received.0, received.1)?;
        }
        Ok(())
    }
}

/// The words of a line.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl Words<'_> {
    fn next<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn pair<A: FromStr, B: FromStr>(&mut self) -> Option<(A, B)> {
        Some((self.next()?, self.next()?))
    }

    /// A word that may be a dash.
    fn perhaps<T: FromStr>(&mut self) -> Option<Option<T>> {
        match self.0.next()? {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        }
    }

    fn perhaps_pair<A: FromStr, B: FromStr>(&mut self) -> Option<Option<(A, B)>> {
        match (self.perhaps()?, self.perhaps()?) {
            (Some(a), Some(b)) => Some(Some((a, b))),
            (None, None) => Some(None),
            _ => None,
        }
    }

    fn endpoint(&mut self) -> Option<EndpointAccount> {
        Some(EndpointAccount {
            dpid: self.next()?,
            serial: self.next()?,
            pooled: self.next::<u8>()? != 0,
            pool: self.perhaps_pair()?,
            target: self.perhaps_pair()?,
            received: self.perhaps_pair()?,
            loaned: self.perhaps()?,
            to: Some(Vec::new()),
            from: Some(Vec::new()),
        })
    }

    fn link(&mut self) -> Option<LinkAccount> {
        let to = self.pair()?;
        let word = self.0.next()?;
        let state = State::ALL.into_iter().find(|state| state.word() == word)?;
        Some(LinkAccount { to, state, waiting: self.next()?, sent: self.pair()? })
    }
}

impl Account {
    /// The account in this text; `None` where a line of it is none.
    pub fn read(text: &str) -> Option<Account> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) || !text.ends_with('\n') {
            return None;
        }
        let mut endpoints: Vec<EndpointAccount> = Vec::new();
        for line in lines {
            let mut words = Words(line.split_ascii_whitespace());
            let kind = words.0.next()?;
            if kind == "endpoint" {
                endpoints.push(words.endpoint()?);
            } else {
                let endpoint = endpoints.last_mut()?;
                match kind {
                    "link" => endpoint.to.as_mut()?.push(words.link()?),
                    "edge" => {
                        let edge = EdgeAccount { from: words.pair()?, received: words.pair()? };
                        endpoint.from.as_mut()?.push(edge);
                    }
                    "no-links" if endpoint.to.as_ref()?.is_empty() => endpoint.to = None,
                    "no-edges" if endpoint.from.as_ref()?.is_empty() => endpoint.from = None,
                    _ => return None,
                }
            }
            if words.0.next().is_some() {
                return None;
            }
        }
        Some(Account { endpoints })
    }
}

#[cfg(test)]
mod tests;
