//! Nodes on cables: two on one or two, or several on a switch.

use std::process::Command;

use dp_abi::frame2::HEADER;

use crate::kit::{spawn, until, Network, Node, SEALED};

/// Bytes of a frame on the cable, as shaping counts them: an MTU of 1500 and Ethernet's header.
const FRAME: usize = 1514;

/// By what a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// UDP, without a key: beside plain sockets, which have none.
    Udp,
    /// UDP, authenticated, as it is by default.
    Sealed,
    /// Ethernet, by packet sockets.
    Eth,
    /// The same on a cable for frames of 9000 bytes.
    Jumbo,
    /// Ethernet, received by AF_XDP, on an interface of its own: an XDP program would slow the sockets beside it down.
    Xdp,
    /// UDP on one cable, without a key, and Ethernet on another.
    Both,
}

impl By {
    pub fn word(self) -> &'static str {
        match self {
            By::Udp => "udp",
            By::Sealed => "udp, authenticated",
            By::Eth => "eth",
            By::Jumbo => "eth, MTU 9000",
            By::Xdp => "eth, AF_XDP",
            By::Both => "udp and eth",
        }
    }

    fn interfaces(self) -> &'static [&'static str] {
        if self == By::Both {
            &["dp0", "dp1"]
        } else {
            &["dp0"]
        }
    }

    fn routes(self, n: usize) -> String {
        match self {
            By::Udp | By::Sealed => format!("\"udp:10.1.0.{n}:7411\""),
            By::Eth | By::Jumbo | By::Xdp => format!("\"eth:dp0/02:00:00:00:00:0{n}\""),
            By::Both => format!("\"udp:10.1.0.{n}:7411\", \"eth:dp1/02:00:00:00:01:0{n}\""),
        }
    }

    /// Bytes around a part in each frame: Ethernet, IP and UDP, the seal, the header.
    fn around(self) -> usize {
        let below = match self {
            // What goes by Ethernet is cut for UDP, too.
            By::Udp | By::Both => 14 + 28,
            By::Sealed => 14 + 28 + dp_seal::OVERHEAD,
            By::Eth | By::Jumbo | By::Xdp => 14,
        };
        below + HEADER
    }

    /// The share of the cable that is left for a message of this length: what framing leaves.
    pub fn leaves(self, message: usize) -> f64 {
        // Each part leaves room for a first part's head, which only that has.
        let part = FRAME - self.around() - dp_abi::frame2::PART_HEAD;
        let frames = message.div_ceil(part);
        message as f64 / (message + frames * self.around() + 4) as f64
    }
}

/// What TCP leaves, with time stamps.
pub fn tcp_leaves() -> f64 {
    1448.0 / FRAME as f64
}

/// Nodes 1 to N at 10.1.0.N; two on a cable or two, more on a switch.
pub struct Cables {
    pub nodes: Vec<Node>,
    pub networks: Vec<Network>,
    pub switch: Option<Network>,
    interfaces: &'static [&'static str],
}

impl Cables {
    pub fn new(count: usize, by: By) -> Cables {
        Cables::told(count, by, "")
    }

    /// The same, of whose UDP the graph says more.
    pub fn told(count: usize, by: By, more: &str) -> Cables {
        let networks: Vec<Network> = (0..count).map(|_| Network::new()).collect();
        let switch = (count > 2).then(Network::new);
        match &switch {
            None => by.interfaces().iter().for_each(|name| networks[0].cable(name, &networks[1], name)),
            Some(switch) => {
                switch.ip("link add bridge type bridge forward_delay 0");
                switch.ip("link set bridge up");
                for (n, network) in (1..).zip(&networks) {
                    network.cable("dp0", switch, &format!("port{n}"));
                    switch.ip(&format!("link set port{n} master bridge"));
                    switch.ip(&format!("link set port{n} up"));
                }
            }
        }
        let sockets = if by == By::Xdp { "ip0" } else { "dp0" };
        if sockets != "dp0" {
            networks[0].cable(sockets, &networks[1], sockets);
        }
        for (n, network) in (1..).zip(&networks) {
            network.ip(&format!("addr add 10.1.0.{n}/24 dev {sockets}"));
            for (cable, name) in by.interfaces().iter().enumerate() {
                network.ip(&format!("link set {name} address 02:00:00:00:0{cable}:0{n}"));
                if by == By::Jumbo {
                    network.ip(&format!("link set {name} mtu 9000"));
                }
                network.ip(&format!("link set {name} up"));
            }
            network.ip(&format!("link set {sockets} up"));
        }
        let up = |network: &Network| by.interfaces().iter().for_each(|name| network.up(name));
        networks.iter().for_each(up);
        networks.iter().for_each(|network| network.up(sockets));
        let node = |n: usize| format!("[[node]]\nnid = {n}\nroutes = [{}]\n", by.routes(n));
        let head = if by == By::Sealed { SEALED.to_string() } else { trusted(by) };
        let graph: String = head + more + &(1..=count).map(node).collect::<String>();
        let nodes = (1..).zip(&networks).map(|(n, network)| Node::new(n, &graph, Some(network))).collect();
        Cables { nodes, networks, switch, interfaces: by.interfaces() }
    }

    /// Whether the gateway of node 2 receives as this is to be measured, once it is there; says so if not.
    pub fn is_as_wanted(&self, by: By) -> bool {
        let receives = |node: &Node| {
            until("a gateway", || node.status().is_some());
            let routes = node.status().expect("it runs").routes;
            routes.into_iter().find_map(|route| route.means).unwrap_or_default()
        };
        let means = receives(&self.nodes[1]);
        let as_wanted = by != By::Xdp || means.starts_with("xdp");
        if !as_wanted {
            println!("SKIP: {}: {means}", by.word());
        }
        as_wanted
    }

    /// Shapes what leaves each node to so many Mbit/s, with a queue of 5 ms.
    pub fn shape(&self, mbit: u32) {
        for network in &self.networks {
            self.interfaces.iter().for_each(|name| shape(network, name, mbit));
        }
    }

    /// Has a frame in a hundred lost that comes by UDP or TCP. False: there is no nft(8).
    pub fn lose(&self) -> bool {
        let lines = [
            "nft add table inet loss",
            "nft add chain inet loss in { type filter hook input priority 0 ; }",
            "nft add rule inet loss in ip protocol udp numgen random mod 100 == 0 drop",
            "nft add rule inet loss in ip protocol tcp numgen random mod 100 == 0 drop",
        ];
        self.networks.iter().all(|network| lines.into_iter().all(|line| program(network, line)))
    }
}

/// A token bucket at an interface: a burst of a millisecond, and a queue of five.
pub fn shape(network: &Network, interface: &str, mbit: u32) {
    let burst = (mbit as usize * 125).max(2 * FRAME);
    let limit = (mbit as usize * 625).max(16 * FRAME);
    let line = format!("tc qdisc add dev {interface} root tbf rate {mbit}mbit burst {burst} limit {limit}");
    assert!(program(network, &line), "{line}: needs tc(8), of Debian's iproute2, and the kernel's tbf");
}

/// What a graph says where all machines on the way are trusted; it speaks of no route that no node has.
fn trusted(by: By) -> String {
    match by {
        By::Udp => "[route.udp]\nsecurity = \"none\"\n".into(),
        By::Both => "[route.udp]\nsecurity = \"none\"\n[route.eth]\nxdp = \"never\"\n".into(),
        By::Eth | By::Jumbo => "[route.eth]\nxdp = \"never\"\n".into(),
        By::Sealed | By::Xdp => String::new(),
    }
}

/// Runs a program there, and says whether it could and went well.
fn program(network: &Network, line: &str) -> bool {
    let words: Vec<String> = line.split_whitespace().map(String::from).collect();
    let network = network.clone();
    let run = std::thread::spawn(move || {
        network.enter();
        let started = spawn(Command::new(&words[0]).args(&words[1..]));
        started.and_then(|mut child| child.wait()).is_ok_and(|status| status.success())
    });
    run.join().unwrap()
}
