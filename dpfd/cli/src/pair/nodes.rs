//! Two nodes on one machine: the network namespace of this process, and one that is named. An endpoint stays where it was
//! opened, whatever its process does later; so a thread goes there, opens it, and ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use dpfd::driver::kernel::network::Network;
use dpfd::Nid;
use nix::sched::{setns, CloneFlags};

use super::transport::Transport;

/// Where ip-netns(8) keeps names.
const NAMES: &str = "/run/netns";
/// Said where a way needs them and they are not known.
pub const UNNAMED: &str = "its other end is on another node: name that network namespace with --netns";

/// A network namespace of this machine that is the other node, on the command line: behind the kernel driver. For a node
/// behind a gateway see [`FarNode`](super::routes::FarNode).
#[derive(clap::Args)]
pub struct OtherNode {
    /// Network namespace of the other node, for ethernet: as `ip netns` lists it, or a file.
    #[arg(long, value_name = "NAME", conflicts_with = "node")]
    netns: Option<PathBuf>,
}

impl OtherNode {
    /// Whether one is named.
    pub fn is_named(&self) -> bool {
        self.netns.is_some()
    }

    /// Both, if the ways need them.
    ///
    /// # Errors
    ///
    /// One of them needs another node, and none is named; or the other way round; or there is no such namespace, or no
    /// driver, or this process may not go there.
    pub fn nodes(&self, transports: &[Transport]) -> Result<Option<Nodes>, String> {
        match (&self.netns, transports.contains(&Transport::Ethernet)) {
            (Some(name), true) => Nodes::new(name).map(Some),
            (None, true) => Err(format!("{}: {UNNAMED}", Transport::Ethernet)),
            (Some(_), false) => Err(format!("--netns is for {}: name that with --ways", Transport::Ethernet)),
            (None, false) => Ok(None),
        }
    }
}

/// The namespaces of both ends.
pub struct Nodes {
    here: OwnedFd,
    there: OwnedFd,
}

impl Nodes {
    /// This process's, and the one of that name, or of that file if there is a slash in it.
    fn new(name: &Path) -> Result<Nodes, String> {
        let open = |path: &Path| {
            File::open(path).map(OwnedFd::from).map_err(|e| {
                format!("{}: {e}; `ip netns` lists network namespaces that have a name", path.display())
            })
        };
        let there = if name.components().count() > 1 { name.into() } else { Path::new(NAMES).join(name) };
        let nodes = Nodes { here: open(Path::new("/proc/thread-self/ns/net"))?, there: open(&there)? };
        let here = number(Network::read()).map_err(|e| format!("this node: {e}"))?;
        let theirs = node(&nodes.there).map_err(|e| format!("{}: {e}", there.display()))?;
        if here == theirs {
            return Err(format!(
                "{}: node {here} as this one is; `dp device node` gives it another number",
                there.display()
            ));
        }
        Ok(nodes)
    }

    /// For `End::new`: each has its own first, then the other's.
    pub fn ends(&self) -> io::Result<[Vec<OwnedFd>; 2]> {
        let both = |a: &OwnedFd, b: &OwnedFd| Ok::<_, io::Error>(vec![a.try_clone()?, b.try_clone()?]);
        Ok([both(&self.here, &self.there)?, both(&self.there, &self.here)?])
    }
}

/// Does something in this namespace.
pub fn inside<T: Send>(namespace: &OwnedFd, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let there = || match setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET) {
        Err(nix::Error::EPERM) => {
            Err(io::Error::other("only who may administer namespaces goes there (CAP_SYS_ADMIN); be root"))
        }
        entered => Ok(entered.map(|()| work())?),
    };
    std::thread::scope(|scope| scope.spawn(there).join())
        .map_err(|_| io::Error::other("a thread in another network namespace panicked"))?
}

/// The number of the node that this namespace is.
pub fn node(namespace: &OwnedFd) -> io::Result<Nid> {
    number(inside(namespace, Network::read)?)
}

fn number(told: io::Result<Network>) -> io::Result<Nid> {
    told.map(|network| network.nid).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            io::Error::other("no kernel driver, which alone reaches other nodes: load it (modprobe dp)")
        }
        _ => e,
    })
}
