//! Other nodes, as the kernel driver knows them (dp(4)): what an administrator sets, and what the kernel tells.
//!
//! All of it is about the network namespace of the calling process.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use crate::addr::Nid;
use crate::error::{Error, Result};
use crate::sys::device;

/// What the kernel tells.
const LIST: &str = "/proc/thread-self/net/dp_ether";

/// An address of Ethernet, written as six bytes with colons between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What stands where such an address should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no Ethernet address: write six bytes as 02:00:5e:10:00:01")]
pub struct NotAMac(pub String);

impl std::str::FromStr for Mac {
    type Err = NotAMac;
    fn from_str(text: &str) -> std::result::Result<Mac, NotAMac> {
        let two = |t: &str| t.len() == 2 && t.bytes().all(|b| b.is_ascii_hexdigit());
        let byte = |t: &str| two(t).then(|| u8::from_str_radix(t, 16).ok()).flatten();
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let six = bytes.and_then(|b| b.try_into().ok());
        six.map(Mac).ok_or_else(|| NotAMac(text.into()))
    }
}

/// An attached interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index in the namespace.
    pub index: u32,
    /// The longest frame without its Ethernet header, bytes.
    pub mtu: u32,
}

/// An entry of the Network Address Resolution Table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NartEntry {
    /// The node.
    pub nid: Nid,
    /// The index of the interface that leads there.
    pub index: u32,
    /// The node's address there.
    pub mac: Mac,
}

/// All that the kernel tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// This node's number.
    pub nid: Nid,
    /// Those that are attached.
    pub interfaces: Vec<Interface>,
    /// By the nodes' numbers.
    pub routes: Vec<NartEntry>,
    /// What became of messages and frames, by the names that dp(4) explains.
    pub counts: Vec<(String, u64)>,
}

impl Network {
    /// Asks the kernel.
    ///
    /// # Errors
    ///
    /// Those of reading a file; ENOENT: the driver is not loaded.
    pub fn read() -> io::Result<Network> {
        Ok(Network::parse(&fs::read_to_string(LIST)?))
    }

    /// A later driver may tell more.
    fn parse(text: &str) -> Network {
        let mut network = Network::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|w| w.parse().ok()).unwrap_or(0);
            match words[..] {
                ["node", nid] => network.nid = nid.parse().unwrap_or(0),
                ["interface", name, ..] => {
                    network.interfaces.push(Interface { name: name.into(), index: number(2), mtu: number(3) })
                }
                ["route", nid, _, mac] => {
                    let (nid, mac) = (nid.parse().unwrap_or(0), mac.parse().unwrap_or(Mac([0; 6])));
                    network.routes.push(NartEntry { nid, index: number(2), mac });
                }
                ["count", name, n] => network.counts.push((name.into(), n.parse().unwrap_or(0))),
                _ => {}
            }
        }
        network
    }

    /// The name of an interface.
    pub fn name_of(&self, index: u32) -> Option<&str> {
        self.interfaces.iter().find(|i| i.index == index).map(|i| &*i.name)
    }
}

/// What can be set. Each needs CAP_NET_ADMIN in the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The number of this node, 1 to 65534.
    Node(Nid),
    /// Frames of this interface are the driver's to hear.
    Attach(&'a str),
    /// Not any longer.
    Detach(&'a str),
    /// A node is behind an attached interface, at this address.
    Nart(Nid, &'a str, Mac),
    /// Nobody knows any longer where it is.
    Forget(Nid),
}

impl Change<'_> {
    /// Makes it so.
    ///
    /// # Errors
    ///
    /// [`Error::NoKernelDriver`]; EPERM; ENODEV: no such interface, or it is not attached; EPROTOTYPE: it is no Ethernet;
    /// EEXIST: attached already; ENOENT: no such route; EINVAL: a number or an address that no node has, or this one has;
    /// ENOTTY: the driver is older than that.
    pub fn make(self) -> Result<()> {
        let device = super::required_device()?;
        let fd = device.as_raw_fd();
        let done = match self {
            Change::Node(nid) => device::set_node(fd, nid),
            Change::Attach(name) => device::set_interface(fd, name, true),
            Change::Detach(name) => device::set_interface(fd, name, false),
            Change::Nart(nid, name, mac) => device::set_route(fd, nid, Some((name, mac.0))),
            Change::Forget(nid) => device::set_route(fd, nid, None),
        };
        done.map_err(Error::system("ioctl"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_understood() {
        let text = "node 3\ninterface eth0 2 1500\ninterface veth-b 14 9000\nroute 4 14 02:00:5e:10:00:0f\n\
                    count messages-out 12\ncount without-room 1\nnews of 2030\n";
        let network = Network::parse(text);
        assert_eq!((network.nid, network.interfaces.len()), (3, 2));
        assert_eq!(network.interfaces[1], Interface { name: "veth-b".into(), index: 14, mtu: 9000 });
        assert_eq!(network.routes, [NartEntry { nid: 4, index: 14, mac: Mac([2, 0, 0x5e, 0x10, 0, 15]) }]);
        assert_eq!(network.name_of(14), Some("veth-b"));
        assert_eq!(network.counts[1], ("without-room".into(), 1));
        assert_eq!(network.routes[0].mac.to_string(), "02:00:5e:10:00:0f");
    }

    #[test]
    fn addresses_are_six_bytes() {
        for wrong in [
            "",
            "02:00:5e:10:00",
            "02:00:5e:10:00:01:02",
            "02-00-5e-10-00-01",
            "2:0:5e:10:0:1",
            "+2:00:5e:10:00:01",
            "02:00:5e:10:00:0g",
        ] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
        assert_eq!("FF:00:5e:10:00:01".parse(), Ok(Mac([255, 0, 0x5e, 0x10, 0, 1])));
    }
}
