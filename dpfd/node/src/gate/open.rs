//! Opening all that a gateway needs.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dp_edge::sys::process;
use dp_graph::speed::Speed;
use dp_route::library::Loaded;
use dpfd::driver::user::gateway::Gateway;
use dpfd::driver::user::registry::Registry;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::{routes, CannotServe, Gate, Options, ASKED, STATUS};
use crate::guard::Keys;
use crate::nart::Nart;
use crate::node::Node;
use crate::peer::{Peer, Way};
use crate::places::Places;
use crate::proxies::{Proxies, Taken};
use crate::status::Door;
use crate::Limits;

/// How long the former gateway may take to be cleared away, nanoseconds.
const CLEARED: u64 = 1_000_000_000;
/// Descriptors that a proxy takes with a receiver or two behind it; proxies that only frames use get half of all there are.
const DESCRIPTORS: usize = 8;
/// Those that it takes by itself. Frames open no more once proxies that programs here can send to have half of all.
const ATTACHED: usize = 4;
/// Proxies that frames of a node may open in any case.
const PROXIES_LEAST: usize = 16;
/// The file of places, in the folder of the registry.
const PLACES: &str = "gateway.places";

pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> CannotServe {
    |error| CannotServe::System(what.into(), error.into())
}

impl Gate {
    /// Opens everything, and is the gateway of its node from then on, which may have so many descriptors.
    pub fn open(
        options: Options,
        descriptors: usize,
        mut warn: impl FnMut(String),
    ) -> Result<Gate, CannotServe> {
        let Options { nart, key, limits, libraries, .. } = options;
        let gateway = start_gateway()?;
        if let Some(edges) = nart.strict_edges() {
            gateway.restrict(edges);
        }
        let libraries = libraries.iter().map(|path| Loaded::load(path)).collect::<Result<Vec<_>, _>>()?;
        let end = process::now() + CLEARED;
        let (routes, places) = routes::open(&nart.own, nart.xdp, &libraries, end, &mut warn);
        if routes.is_empty() {
            return Err(CannotServe::NoRoute(nart.nid));
        }
        let mut names: Vec<String> = routes.iter().map(|route| route.name().to_string()).collect();
        names.sort_unstable();
        names.dedup();
        gateway.offer(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let keys = Keys { key, epoch: (wall.as_nanos() as u64).saturating_sub(process::now()) };
        let peers = peers(&nart, &keys, &places, limits)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create"))?;
        let folder = Registry::open_existing()?.map(|registry| registry.folder().to_path_buf());
        let folder = folder.unwrap_or_default();
        let door = Door::open(&folder).map_err(system(folder.display().to_string()))?;
        let owner = std::fs::metadata(&folder).map_err(system(folder.display().to_string()))?.uid();
        let file = folder.join(PLACES);
        let places = Places::open(&file, nart.nid).map_err(system(file.display().to_string()))?;
        let seed = process::random().map_err(io::Error::from_raw_os_error).map_err(system("getrandom"))?;
        let epoll = Arc::new(epoll);
        let most = descriptors / 2 / DESCRIPTORS / peers.len().max(1);
        let most = most.clamp(PROXIES_LEAST, limits.flows.max(PROXIES_LEAST));
        let proxies = Proxies::new(gateway, epoll.clone(), most, descriptors / 2 / ATTACHED);
        // By the processor's instruction, where it has one.
        let checksum = Some(crc32c::crc32c_append as dp_flow::Checksum);
        let mut node = Node::new(nart.nid, proxies, routes, peers, places, checksum, seed);
        node.set_user(owner);
        let event = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(door.listener(), event(STATUS)).map_err(system("epoll_ctl"))?;
        epoll.add(node.local().asked_fd(), event(ASKED)).map_err(system("epoll_ctl"))?;
        Ok(Gate { door, node, epoll, folder, names, taken: Vec::new() })
    }
}

/// The other nodes, with the routes that could be opened.
fn peers(
    nart: &Nart,
    keys: &Keys,
    places: &[Option<usize>],
    limits: Limits,
) -> Result<Vec<Peer<Taken>>, CannotServe> {
    let mut peers = Vec::new();
    for other in &nart.others {
        let mut ways = Vec::new();
        for &(own, at, security) in &other.ways {
            let guard = keys.guard(security, nart.nid, other.nid);
            let guard = guard.map_err(|why| CannotServe::Guard(other.nid, why))?;
            let users = nart.users(at.route());
            let speed = nart.speed(at.route()).map(Speed::bytes);
            let way = |route| Way::new(route, at, guard).with_users(users).with_speed(speed);
            ways.extend(places[own].map(way));
        }
        if !ways.is_empty() {
            let mut peer = Peer::new(other.nid, other.name.clone(), ways, limits);
            other.edges.iter().for_each(|edges| peer.restrict(edges.clone()));
            other.wishes.iter().for_each(|wish| peer.wish(wish.ends, wish.route.as_deref(), wish.raw));
            peers.push(peer);
        }
    }
    Ok(peers)
}

/// Is the gateway from now on. The kernel takes its time to clear away one that was killed, whose lock is given up late.
fn start_gateway() -> dpfd::Result<Gateway> {
    let end = process::now() + CLEARED;
    loop {
        match Gateway::start() {
            Err(dpfd::Error::HasGateway { .. }) if process::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            started => return started,
        }
    }
}
