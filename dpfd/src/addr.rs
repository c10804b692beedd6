//! Where an endpoint is: a node's number and the endpoint's number on it.

use core::fmt;

use dp_edge::setting::Number;

/// A node's number, NID; 0 in an address means "this node".
pub type Nid = u16;
/// An endpoint's number on its node, DPID; 1..=65535.
pub type Dpid = u16;

/// This node's own number, as the environment says it. The last one that fits stands for all nodes, where there is such an address.
pub const OWN_NID: Number =
    Number { name: "DP_NID", low: 1, high: u16::MAX as u64 - 1, default: 1, unit: "(a node)" };

/// `DPID`s below this one need CAP_NET_BIND_SERVICE, as ports do.
pub const PRIVILEGED: Dpid = 1024;

/// An endpoint's address, written `nid/dpid`, or `dpid` on this node.
///
/// ```
/// use dpfd::Addr;
///
/// let there: Addr = "3/2001".parse()?;
/// assert_eq!(there, Addr { nid: 3, dpid: 2001 });
/// assert_eq!(Addr::local(2001).to_string(), "2001");
/// assert!("65536".parse::<Addr>().is_err());
/// # Ok::<(), dpfd::addr::NotAnAddr>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Addr {
    /// The node; 0 is this one.
    pub nid: Nid,
    /// The endpoint on it.
    pub dpid: Dpid,
}

impl Addr {
    /// An endpoint of this node.
    ///
    /// ```
    /// assert_eq!(dpfd::Addr::local(2001).nid, 0);
    /// ```
    pub const fn local(dpid: Dpid) -> Addr {
        Addr { nid: 0, dpid }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nid {
            0 => write!(f, "{}", self.dpid),
            nid => write!(f, "{nid}/{}", self.dpid),
        }
    }
}

/// What stands where an address should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no endpoint: write DPID or NID/DPID, each 1 to 65535")]
pub struct NotAnAddr(pub String);

impl core::str::FromStr for Addr {
    type Err = NotAnAddr;
    fn from_str(text: &str) -> Result<Addr, NotAnAddr> {
        let number = |t: &str| t.parse::<u16>().ok().filter(|n| *n > 0 && !t.starts_with('+'));
        let addr = match text.split_once('/') {
            Some((nid, dpid)) => number(nid).zip(number(dpid)).map(|(nid, dpid)| Addr { nid, dpid }),
            None => number(text).map(Addr::local),
        };
        addr.ok_or_else(|| NotAnAddr(text.to_string()))
    }
}
