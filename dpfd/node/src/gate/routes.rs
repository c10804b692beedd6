//! Opening the routes of a node, as the graph names them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dp_edge::sys::process;
use dp_route::eth::Eth;
use dp_route::library::Loaded;
use dp_route::udp::{Options, Udp};
use dp_route::xdp::Xdp;
use dp_route::{PeerAddr, Route};

/// Opens the routes of this node: those that could be, and for each address which of them it is. Somebody who has one of the addresses
/// may keep it until `end`.
pub(super) fn open(
    own: &[PeerAddr],
    xdp: Xdp,
    libraries: &[Loaded],
    end: u64,
    warn: &mut impl FnMut(String),
) -> (Vec<Box<dyn Route>>, Vec<Option<usize>>) {
    let mut routes: Vec<Box<dyn Route>> = Vec::new();
    let mut places = Vec::new();
    for address in own {
        match open_one(address, xdp, libraries, end) {
            Ok(route) => {
                if let Some(remark) = route.remark() {
                    warn(format!("{address}: {remark}"));
                }
                if route.local() != *address {
                    warn(format!(
                        "{address}: the interface has the address {}; others send to where the graph says",
                        route.local()
                    ));
                }
                places.push(Some(routes.len()));
                routes.push(route);
            }
            Err(why) => {
                warn(format!("{address}: {why}; going on without this route"));
                places.push(None);
            }
        }
    }
    (routes, places)
}

/// What to do about a route of this name, of which no shared object was named.
fn unknown(route: &str) -> &'static str {
    match route {
        "sim" => "this route is for tests inside one program, and no gateway has it; use udp or eth",
        _ => "no shared object with this route was named; use --route FILE",
    }
}

/// The former gateway's sockets are cleared away behind its lock, where it was killed.
fn open_udp(at: SocketAddr, end: u64) -> io::Result<Udp> {
    loop {
        match Udp::open(at, Options::default()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && process::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

fn open_one(address: &PeerAddr, xdp: Xdp, libraries: &[Loaded], end: u64) -> Result<Box<dyn Route>, String> {
    match address {
        PeerAddr::Udp(at) => match open_udp(*at, end) {
            Ok(route) => Ok(Box::new(route)),
            Err(error) => Err(error.to_string()),
        },
        PeerAddr::Eth { interface, .. } => match Eth::open(interface.as_str(), xdp) {
            Ok(route) => Ok(Box::new(route)),
            Err(error) => Err(error.to_string()),
        },
        PeerAddr::Other { route, at } => {
            let library = libraries.iter().find(|library| library.name() == route.as_str());
            let library = library.ok_or_else(|| unknown(route.as_str()))?;
            match library.open(at.as_str()) {
                Ok(route) => Ok(Box::new(route)),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}
