//! `dp device`: other nodes, as the kernel driver knows them.

use std::io;
use std::process::ExitCode;

use clap::Subcommand;
use dpfd::driver::kernel::network::{Change, Mac, Network};
use dpfd::{Error, Nid};
use serde::Serialize;

use crate::say;

/// Other nodes: number this one, attach interfaces, say where nodes are (the kernel driver).
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show this node's number, attached interfaces, routes and counters.
    Ls {
        /// Print JSON, as dp-device(8) describes it.
        #[arg(long)]
        json: bool,
    },
    /// Number this node.
    Node {
        /// 1 to 65534.
        #[arg(value_name = "NID", value_parser = clap::value_parser!(u16).range(1..65535))]
        nid: Nid,
    },
    /// Hear and send messages by an Ethernet interface.
    Attach {
        #[arg(value_name = "IFACE")]
        name: String,
    },
    /// Leave an interface alone again.
    Detach {
        #[arg(value_name = "IFACE")]
        name: String,
    },
    /// Say by which interface, and at which address, a node is; or take that back.
    Nart {
        /// The node, 1 to 65534.
        #[arg(value_name = "NID", value_parser = clap::value_parser!(u16).range(1..65535))]
        nid: Nid,
        /// An attached interface.
        #[arg(value_name = "IFACE", required_unless_present = "remove", requires = "mac")]
        name: Option<String>,
        /// The node's Ethernet address there.
        #[arg(value_name = "MAC")]
        mac: Option<Mac>,
        /// Forget where the node is.
        #[arg(long, conflicts_with = "name")]
        remove: bool,
    },
}

pub fn main(args: Args) -> ExitCode {
    let change = match &args.verb {
        Verb::Ls { json } => return list(*json),
        Verb::Node { nid } => Change::Node(*nid),
        Verb::Attach { name } => Change::Attach(name),
        Verb::Detach { name } => Change::Detach(name),
        Verb::Nart { nid, name: Some(name), mac: Some(mac), .. } => Change::Nart(*nid, name, *mac),
        Verb::Nart { nid, .. } => Change::Forget(*nid),
    };
    match change.make() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dp device: {}", explain(change, &error));
            ExitCode::FAILURE
        }
    }
}

/// What went wrong, and what to do.
fn explain(change: Change<'_>, error: &Error) -> String {
    let name = match change {
        Change::Attach(name) | Change::Detach(name) | Change::Nart(_, name, _) => name,
        Change::Node(_) | Change::Forget(_) => "",
    };
    if let Error::NoKernelDriver { errno } = error {
        let why = io::Error::from_raw_os_error(*errno);
        return format!(
            "/dev/dp: {why}; only the kernel driver reaches other nodes: load it (modprobe dp) and be root"
        );
    }
    match (error.errno(), change) {
        (libc::EPERM, _) => {
            "only who may administer this network namespace does that (CAP_NET_ADMIN); be root in it".into()
        }
        (libc::ENODEV, Change::Attach(_)) => format!("{name}: there is no such interface; `ip link` lists them"),
        (libc::ENODEV, _) => format!("{name}: not attached; `dp device attach {name}` does that"),
        (libc::EPROTOTYPE, _) => format!("{name}: no Ethernet; only Ethernet interfaces carry frames"),
        (libc::EEXIST, _) => format!("{name}: attached already"),
        (libc::ENOENT, Change::Forget(nid)) => format!("node {nid}: no route; `dp device ls` shows those there are"),
        (libc::EINVAL, Change::Nart(nid, _, mac)) => format!(
            "node {nid} at {mac}: that is this node, or an address that no single machine has, or {name:?} is no name of \
             an interface"
        ),
        (libc::EINVAL, Change::Attach(_) | Change::Detach(_)) => {
            format!("{name:?}: no interface has such a name; `ip link` lists them")
        }
        (libc::ENOTTY, _) => "the kernel driver that is loaded knows of no other nodes; load a newer one".into(),
        _ => error.to_string(),
    }
}

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize)]
struct Listing<'a> {
    version: u32,
    nid: Nid,
    interfaces: Vec<Interface<'a>>,
    routes: Vec<NartLine<'a>>,
    counts: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Interface<'a> {
    name: &'a str,
    mtu: u32,
}

#[derive(Serialize)]
struct NartLine<'a> {
    nid: Nid,
    interface: Option<&'a str>,
    mac: String,
}

impl Listing<'_> {
    fn of(network: &Network) -> Listing<'_> {
        let interfaces = network.interfaces.iter().map(|i| Interface { name: &i.name, mtu: i.mtu });
        let route = |r: &dpfd::driver::kernel::network::NartEntry| {
            (r.nid, network.name_of(r.index), r.mac.to_string())
        };
        let routes = network.routes.iter().map(route);
        Listing {
            version: 1,
            nid: network.nid,
            interfaces: interfaces.collect(),
            routes: routes.map(|(nid, interface, mac)| NartLine { nid, interface, mac }).collect(),
            counts: network.counts.iter().map(|(name, n)| (name.replace('-', "_"), (*n).into())).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("node {}\n", self.nid);
        for i in &self.interfaces {
            text += &format!("interface {:15} mtu {}\n", i.name, i.mtu);
        }
        for r in &self.routes {
            // One whose interface has gone.
            text +=
                &format!("route to node {:<7} {} by {}\n", r.nid, r.mac, r.interface.unwrap_or("nothing"));
        }
        for (name, n) in &self.counts {
            text += &format!("{:25} {n:>12}\n", name.replace('_', " "));
        }
        text
    }
}

fn list(json: bool) -> ExitCode {
    let network = match Network::read() {
        Ok(network) => network,
        Err(error) => {
            eprintln!("dp device: the kernel driver tells nothing: {error}; is it loaded (modprobe dp)?");
            return ExitCode::FAILURE;
        }
    };
    let listing = Listing::of(&network);
    let text = if json {
        serde_json::to_string_pretty(&listing).expect("a listing is plain data") + "\n"
    } else {
        listing.text()
    };
    match say::text(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dp device: {why}; the list is not complete");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use dpfd::driver::kernel::network::{Interface, NartEntry};

    use super::*;

    #[test]
    fn json_has_the_documented_fields() {
        let network = Network {
            nid: 1,
            interfaces: vec![Interface { index: 2, name: "eth1".into(), mtu: 1500 }],
            routes: vec![NartEntry { nid: 2, index: 2, mac: "02:00:5e:10:00:02".parse().unwrap() }],
            counts: vec![("no-route".into(), 3)],
        };
        let json = serde_json::to_value(Listing::of(&network)).unwrap();
        let expected = serde_json::json!({
            "version": 1, "nid": 1, "interfaces": [{"name": "eth1", "mtu": 1500}],
            "routes": [{"nid": 2, "interface": "eth1", "mac": "02:00:5e:10:00:02"}], "counts": {"no_route": 3},
        });
        assert_eq!(json, expected);
        // Counters are dp(4)'s.
        crate::page::documents(include_str!("../../../man/dp-device.8"), &json, &["counts"]);
    }
}
