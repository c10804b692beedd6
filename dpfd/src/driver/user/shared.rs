//! What an endpoint knows of its process: where endpoints find each other, and how the service is told things.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::inside::Inside;
use super::registry::{Member, Registry};
use crate::addr::{Addr, Nid};
use crate::graph::Part;

/// What the service is told. Endpoints are named by their serial numbers.
#[derive(Debug)]
pub enum Command {
    /// It has a new destination.
    Attach(u32, Addr),
    /// Its target changed, or something that can go is behind what is kept for others: its pair is to be read.
    Resume(u32),
    /// A destination is gone.
    Lost(u32, Addr),
    /// It has a pool now.
    Pool(u32),
    /// Its receiver waits in the library: watch that it comes back.
    Watch(u32),
    /// The descriptor of a destination is full, and so is its own pair: its link wants to hear of room there.
    Busy(u32, Addr),
    /// It sends something that waits for what nobody tells: it is to try again soon.
    Awaited(u32),
    /// Its messages go otherwise to other nodes.
    Route(u32),
    /// It has outgrown the edge to a destination.
    Outgrown(u32, Addr),
    /// The connection `.0` must hear that link `.1` has room.
    Room(u32, u32),
    /// A proxy that nobody uses is to end, and its senders are to let go.
    EndUnused(u32),
    /// The gateway, which this process is, knows no route to that node.
    Refuse(Nid),
    /// It is about to be the gateway no more: senders are to let go.
    GatewayRests,
    /// It is not the gateway any more.
    GatewayEnded,
}

/// As above.
#[derive(Debug)]
pub struct Shared {
    /// This node's own number.
    pub nid: Nid,
    /// Whether another CPU could run the other side.
    pub many_cpus: bool,
    /// Where endpoints find each other.
    pub registry: Registry,
    /// This process in it.
    pub member: Member,
    /// The edges that it may use, if it was given a strict graph.
    pub graph: Option<Arc<Part>>,
    /// The gateway that its calls step, once there is one.
    pub inside: OnceLock<Arc<dyn Inside>>,
    /// Links that the service looks for at each new endpoint.
    #[cfg(test)]
    pub absent: std::sync::atomic::AtomicUsize,
    wake: OwnedFd,
    commands: Mutex<Vec<Command>>,
}

/// A panic under a lock of this driver cannot leave a half-made state that matters: all values are plain.
pub fn held<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// `wake`: an eventfd that the service waits for.
    pub fn new(
        nid: Nid,
        many_cpus: bool,
        (registry, member): (Registry, Member),
        graph: Option<Arc<Part>>,
        wake: OwnedFd,
    ) -> Shared {
        let (inside, commands) = (OnceLock::new(), Mutex::default());
        Shared {
            nid,
            many_cpus,
            registry,
            member,
            graph,
            inside,
            #[cfg(test)]
            absent: Default::default(),
            wake,
            commands,
        }
    }

    /// Tells the service.
    pub fn command(&self, command: Command) {
        let mut commands = held(&self.commands);
        commands.push(command);
        if commands.len() == 1 {
            self.nudge();
        }
    }

    /// Wakes the service.
    pub fn nudge(&self) {
        let one = 1u64.to_ne_bytes();
        let _ = nix::unistd::write(&self.wake, &one);
    }

    /// What the service was told since it last asked.
    pub fn commands(&self) -> Vec<Command> {
        core::mem::take(&mut *held(&self.commands))
    }

    /// Readable when there are commands.
    pub fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }
}
