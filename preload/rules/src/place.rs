//! Addresses and ports.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A set of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    /// `*`: every address, IPv4 and IPv6.
    Any,
    /// `localhost`: this host, by whichever of its addresses.
    Host,
    /// IPv4 addresses that share the first bits (0 to 32) with the address; v4-mapped IPv6 is IPv4.
    V4(Ipv4Addr, u8),
    /// IPv6 addresses that share the first bits (0 to 128) with the address.
    V6(Ipv6Addr, u8),
}

/// Addresses and ports: what `--connect`, `--listen`, `--not` and the third word of a rule name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) net: Net,
    /// First and last port; 0 and 65535 when the text named none.
    pub(crate) ports: (u16, u16),
}

impl Place {
    pub(crate) const HOST: Place = Place { net: Net::Host, ports: (0, u16::MAX) };

    pub(crate) fn has_port(&self, port: u16) -> bool {
        (self.ports.0..=self.ports.1).contains(&port)
    }
}

impl Net {
    /// Whether the address, of this host if it is `here`, is one of the set; it must be canonical, a v4-mapped one is not.
    pub(crate) fn contains(self, addr: IpAddr, here: bool) -> bool {
        match (self, addr) {
            (Net::Any, _) => true,
            (Net::Host, _) => here,
            (Net::V4(net, bits), IpAddr::V4(addr)) => (net.to_bits() ^ addr.to_bits()) & mask4(bits) == 0,
            (Net::V6(net, bits), IpAddr::V6(addr)) => (net.to_bits() ^ addr.to_bits()) & mask6(bits) == 0,
            _ => false,
        }
    }

    /// Whether the set has a member of those a wildcard listener accepts on. One on `::` usually accepts
    /// IPv4 as well.
    pub(crate) fn meets(self, wildcard: IpAddr) -> bool {
        !(wildcard.is_ipv4() && matches!(self, Net::V6(..)))
    }

    /// Whether the set has all members of those a wildcard listener accepts on.
    pub(crate) fn holds_all_of(self, wildcard: IpAddr) -> bool {
        matches!(self, Net::Any | Net::Host) || (wildcard.is_ipv4() && matches!(self, Net::V4(_, 0)))
    }
}

/// The first bits of an IPv4 address.
pub(crate) fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

/// The first bits of an IPv6 address.
pub(crate) fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.net {
            Net::Any => f.write_str("*")?,
            Net::Host => f.write_str("localhost")?,
            Net::V4(addr, 32) => write!(f, "{addr}")?,
            Net::V4(addr, bits) => write!(f, "{addr}/{bits}")?,
            Net::V6(addr, 128) => write!(f, "[{addr}]")?,
            Net::V6(addr, bits) => write!(f, "[{addr}]/{bits}")?,
        }
        match self.ports {
            (0, u16::MAX) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}
