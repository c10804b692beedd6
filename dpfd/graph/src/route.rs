//! Addresses of nodes: a line of the Network Address Resolution Table.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use dpfd::driver::kernel::network::Mac;
use thiserror::Error;

/// A way to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `udp`, `eth`, or another that the node service was taught.
    pub name: String,
    /// Where the node is on it.
    pub address: Address,
}

/// Where a node is on a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Of `udp`.
    Udp(SocketAddr),
    /// Of `eth`: the node's own interface, and its address there.
    Eth {
        /// The interface.
        interface: String,
        /// Its address.
        mac: Mac,
    },
    /// Of any other route, which alone knows what it means.
    Other(String),
}

/// What is wrong with a route's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadRoute {
    /// No words.
    #[error("no route and address; write one as in udp 192.0.2.1:7100 or eth eth1 02:00:5e:10:00:01")]
    Empty,
    /// The first word.
    #[error("{0:?} is no name of a route; write udp, eth, or 1 to 15 letters, digits, - and _ for one of your own")]
    Name(String),
    /// `shm`.
    #[error("shm is the memory of one node and needs no address; leave it out")]
    Memory,
    /// Nothing behind the name.
    #[error("the address is missing; write it behind {0}, as in {example}", example = example(.0))]
    NoAddress(String),
    /// Of `udp`.
    #[error("{0:?} is no address of UDP; write IP:PORT, as in 192.0.2.1:7100 or [2001:db8::1]:7100")]
    Udp(String),
    /// Of `udp`, but nobody can be sent to there.
    #[error("no single node is at {0}; write the address and port at which the others reach this node")]
    Nowhere(SocketAddr),
    /// Of `eth`.
    #[error("{0:?} is no address of Ethernet; write INTERFACE MAC, as in eth1 02:00:5e:10:00:01")]
    Eth(String),
    /// Of `eth`, but of more than one machine.
    #[error("{0} is no single machine's address; `ip link` shows that of an interface")]
    Group(Mac),
    /// Of another.
    #[error(
        "{0:?} cannot be an address; write at most 255 printable characters of ASCII without quotes and \\"
    )]
    Other(String),
}

fn example(name: &str) -> &'static str {
    match name {
        "udp" => "udp 192.0.2.1:7100",
        "eth" => "eth eth1 02:00:5e:10:00:01",
        _ => "sim 3",
    }
}

/// What can be a route's name.
pub fn is_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl FromStr for Route {
    type Err = BadRoute;

    fn from_str(text: &str) -> Result<Route, BadRoute> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match name {
            "" => return Err(BadRoute::Empty),
            "shm" => return Err(BadRoute::Memory),
            _ if !is_name(name) => return Err(BadRoute::Name(name.into())),
            _ if rest.is_empty() => return Err(BadRoute::NoAddress(name.into())),
            _ => {}
        }
        Ok(Route { name: name.into(), address: Address::of(name, rest)? })
    }
}

impl Address {
    fn of(route: &str, text: &str) -> Result<Address, BadRoute> {
        match route {
            "udp" => {
                let at: SocketAddr = text.parse().map_err(|_| BadRoute::Udp(text.into()))?;
                let broadcast = matches!(at, SocketAddr::V4(v4) if v4.ip().is_broadcast());
                let ip = at.ip();
                if at.port() == 0 || ip.is_unspecified() || ip.is_multicast() || broadcast {
                    return Err(BadRoute::Nowhere(at));
                }
                Ok(Address::Udp(at))
            }
            "eth" => {
                let words: Vec<_> = text.split_whitespace().collect();
                let parsed = match words[..] {
                    // IFNAMSIZ, with the zero at the end.
                    [interface, mac] if interface.len() < 16 && is_printable(interface) => {
                        mac.parse::<Mac>().ok().map(|mac| (interface, mac))
                    }
                    _ => None,
                };
                let (interface, mac) = parsed.ok_or_else(|| BadRoute::Eth(text.into()))?;
                if mac.0[0] & 1 != 0 || mac.0 == [0; 6] {
                    return Err(BadRoute::Group(mac));
                }
                Ok(Address::Eth { interface: interface.into(), mac })
            }
            _ if text.len() <= 255 && is_printable(text) => Ok(Address::Other(text.into())),
            _ => Err(BadRoute::Other(text.into())),
        }
    }
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|b| (b == b' ' || b.is_ascii_graphic()) && b != b'"' && b != b'\\' && b != b'\'')
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Udp(at) => at.fmt(f),
            Address::Eth { interface, mac } => write!(f, "{interface} {mac}"),
            Address::Other(text) => f.write_str(text),
        }
    }
}
