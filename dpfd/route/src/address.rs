//! Where a node is on a route: what stands in the graph's NART.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::str::FromStr;

use thiserror::Error;

/// Bytes of a route's name at most, and of a network interface's.
pub const NAME_MAX: usize = 15;
/// Bytes of an address at most whose form only its route knows.
pub const LABEL_MAX: usize = 63;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// A short text without an allocation, so that addresses can be copied while frames arrive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

/// A node's address on one route, as in `udp:192.0.2.1:7411`, `udp:[2001:db8::1]:7411`, `eth:eth0/02:00:00:00:00:01`,
/// `sim:name`, and `NAME:TEXT` of somebody else's route.
///
/// The interface of a link-local address, as in `udp:[fe80::1%2]:7411`, is that of the node whose address it is, by its number
/// there; who sends needs [`PeerAddr::as_seen_from`].
///
/// Two are equal if frames to them go to the same place: the name of an Ethernet interface says nothing about that.
#[derive(Clone, Copy, Eq, Debug)]
pub enum PeerAddr {
    /// Of `udp`.
    Udp(SocketAddr),
    /// Of `eth`.
    Eth {
        /// The interface *of the node whose address this is*. Whoever sends there needs only the other part. Of a
        /// frame that was received, the one that it came in by.
        interface: Label<NAME_MAX>,
        /// That interface's address.
        mac: Mac,
    },
    /// Of any other route, which alone knows what it means.
    Other {
        /// The route.
        route: Label<NAME_MAX>,
        /// 1 to [`LABEL_MAX`] printable characters of ASCII.
        at: Label<LABEL_MAX>,
    },
}

/// What is wrong with the text of an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadAddress {
    /// No colon.
    #[error("{0:?} is no address of a node; write ROUTE:ADDRESS, as in udp:192.0.2.1:7411")]
    NoRoute(String),
    /// Before the colon.
    #[error("{0:?} is no name of a route; write udp, eth, or 1 to {NAME_MAX} letters, digits, - and _")]
    Name(String),
    /// Of `udp`.
    #[error(
        "{0:?} is no address of udp; write udp:IP:PORT, as in udp:192.0.2.1:7411 or udp:[2001:db8::1]:7411"
    )]
    Udp(String),
    /// Of `udp`, link-local, without the interface.
    #[error(
        "{0:?}: a link-local address is one on an interface; write the number that this has on the node whose address it is, as \
         `ip link` shows it: udp:[fe80::1%2]:7411"
    )]
    NoInterface(String),
    /// Of `udp`, but nobody can be sent to there.
    #[error("udp:{0}: no single node is there; write the address and port at which others reach it")]
    Nowhere(SocketAddr),
    /// Of `eth`.
    #[error("{0:?} is no address of eth; write eth:INTERFACE/MAC, as in eth:eth0/02:00:00:00:00:01")]
    Eth(String),
    /// Of `eth`, but of more than one machine, or of none.
    #[error("eth:{0}: no single machine has that address; `ip link` shows an interface's own")]
    Group(Mac),
    /// Of another.
    #[error(
        "{0:?} cannot be an address; write 1 to {LABEL_MAX} printable characters of ASCII without spaces"
    )]
    Other(String),
}

impl<const N: usize> Label<N> {
    /// Printable ASCII without spaces, 1 to N bytes.
    pub fn new(text: &str) -> Option<Label<N>> {
        if !(1..=N).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        // N is at most LABEL_MAX.
        Some(Label { length: text.len() as u8, bytes })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl PeerAddr {
    /// The name of the route whose address it is.
    pub fn route(&self) -> &str {
        match self {
            PeerAddr::Udp(_) => "udp",
            PeerAddr::Eth { .. } => "eth",
            PeerAddr::Other { route, .. } => route.as_str(),
        }
    }

    /// This address as a node has it that sends from `own`: a link-local one is behind the interface of `own`.
    #[must_use]
    pub fn as_seen_from(self, own: &PeerAddr) -> PeerAddr {
        match (self, own) {
            (PeerAddr::Udp(SocketAddr::V6(mut at)), PeerAddr::Udp(SocketAddr::V6(own)))
                if self.is_link_local() =>
            {
                at.set_scope_id(own.scope_id());
                PeerAddr::Udp(at.into())
            }
            _ => self,
        }
    }

    /// Whether it is of `udp`, and reached from the same link alone.
    pub fn is_link_local(&self) -> bool {
        matches!(self, PeerAddr::Udp(SocketAddr::V6(at)) if at.ip().is_unicast_link_local())
    }

    /// Of a route that is neither `udp` nor `eth`.
    ///
    /// # Errors
    /// The name or the text cannot be.
    pub fn other(route: &str, at: &str) -> Result<PeerAddr, BadAddress> {
        let name = name(route).filter(|_| !matches!(route, "udp" | "eth"));
        let route = name.ok_or_else(|| BadAddress::Name(route.into()))?;
        let at = Label::new(at).ok_or_else(|| BadAddress::Other(at.into()))?;
        Ok(PeerAddr::Other { route, at })
    }
}

impl PartialEq for PeerAddr {
    fn eq(&self, other: &PeerAddr) -> bool {
        match (self, other) {
            (PeerAddr::Udp(a), PeerAddr::Udp(b)) => a == b,
            (PeerAddr::Eth { mac: a, .. }, PeerAddr::Eth { mac: b, .. }) => a == b,
            (PeerAddr::Other { route: a, at: c }, PeerAddr::Other { route: b, at: d }) => (a, c) == (b, d),
            _ => false,
        }
    }
}

impl Hash for PeerAddr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            PeerAddr::Udp(at) => at.hash(state),
            PeerAddr::Eth { mac, .. } => mac.hash(state),
            PeerAddr::Other { route, at } => (route, at).hash(state),
        }
    }
}

impl FromStr for PeerAddr {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<PeerAddr, BadAddress> {
        let (route, at) = text.split_once(':').ok_or_else(|| BadAddress::NoRoute(text.into()))?;
        match route {
            "udp" => udp(at),
            "eth" => eth(at),
            _ => PeerAddr::other(route, at),
        }
    }
}

fn udp(text: &str) -> Result<PeerAddr, BadAddress> {
    let mut at: SocketAddr = text.parse().map_err(|_| match text.contains('%') {
        true => BadAddress::NoInterface(text.into()),
        false => BadAddress::Udp(text.into()),
    })?;
    if let SocketAddr::V6(v6) = &mut at {
        if !v6.ip().is_unicast_link_local() {
            // What the system says of frames from there has none.
            v6.set_scope_id(0);
        } else if v6.scope_id() == 0 {
            return Err(BadAddress::NoInterface(text.into()));
        }
    }
    let ip = at.ip();
    let broadcast = matches!(at, SocketAddr::V4(v4) if v4.ip().is_broadcast());
    if at.port() == 0 || ip.is_unspecified() || ip.is_multicast() || broadcast {
        return Err(BadAddress::Nowhere(at));
    }
    Ok(PeerAddr::Udp(at))
}

fn eth(text: &str) -> Result<PeerAddr, BadAddress> {
    let bad = || BadAddress::Eth(text.into());
    let (interface, mac) = text.split_once('/').ok_or_else(bad)?;
    // Linux allows neither of these in a name.
    if matches!(interface, "." | "..") || interface.contains(':') {
        return Err(bad());
    }
    let interface = Label::new(interface).ok_or_else(bad)?;
    let mac: Mac = mac.parse().map_err(|()| bad())?;
    if mac.0[0] & 1 != 0 || mac.0 == [0; 6] {
        return Err(BadAddress::Group(mac));
    }
    Ok(PeerAddr::Eth { interface, mac })
}

/// A route's name, if it can be one.
pub(crate) fn name(text: &str) -> Option<Label<NAME_MAX>> {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    Label::new(text).filter(|_| plain)
}

impl FromStr for Mac {
    type Err = ();

    /// Six pairs of hexadecimal digits with colons between.
    fn from_str(text: &str) -> Result<Mac, ()> {
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().ok_or(())?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        parts.next().map_or(Ok(Mac(mac)), |_| Err(()))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> fmt::Display for Label<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Label<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddr::Udp(at) => write!(f, "udp:{at}"),
            PeerAddr::Eth { interface, mac } => write!(f, "eth:{interface}/{mac}"),
            PeerAddr::Other { route, at } => write!(f, "{route}:{at}"),
        }
    }
}

#[cfg(test)]
mod tests;
