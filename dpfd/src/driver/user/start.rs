//! This process as one with endpoints: made when the first is opened, with its service; ended at its exit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::process::Process;
use super::registry::{Entry, Registry};
use super::service;
use super::shared::{held, Shared};
use crate::addr::{Nid, OWN_NID};
use crate::error::{Error, Result};
use crate::graph::Part;
use dp_edge::sys::{barrier, process};

/// How long a process that exits waits for what it sent to reach its receivers.
const LINGER: Duration = Duration::from_secs(2);

/// One place for each generation of forks: a child never meets a lock that a thread of its parent held at the fork.
static CURRENT: [Mutex<Option<Arc<Process>>>; GENERATIONS] = [const { Mutex::new(None) }; GENERATIONS];
/// Forks within forks after which a place is used again.
const GENERATIONS: usize = 64;

fn place(generation: u32) -> &'static Mutex<Option<Arc<Process>>> {
    &CURRENT[generation as usize % GENERATIONS]
}

/// `DP_NID`, or 1: a node without a graph is node 1, and so is one whose number cannot be.
fn own_nid() -> Nid {
    let told = std::env::var_os(OWN_NID.name).and_then(|value| OWN_NID.parse(&value).ok().flatten());
    told.unwrap_or(OWN_NID.default) as Nid
}

/// Before there is a second thread that takes microseconds, later milliseconds: in a thread of its own then, for which
/// nobody waits. Where it does not come about, locks are mutexes.
fn prepare_fences() {
    if process::is_alone() {
        return barrier::prepare();
    }
    let prepare = || {
        process::block_signals();
        barrier::prepare();
    };
    let _ = std::thread::Builder::new().name("dp-fences".to_string()).stack_size(64 * 1024).spawn(prepare);
}

impl Process {
    /// This process, with its service running; a child of a fork gets its own.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`], [`Error::Graph`]; EMFILE, EAGAIN (no more threads).
    pub fn current() -> Result<Arc<Process>> {
        process::watch_forks();
        let generation = process::generation();
        let mut current = held(place(generation));
        if let Some(p) = current.as_ref().filter(|p| p.generation == generation) {
            return Ok(p.clone());
        }
        // An ancestor's: its thread does not run here, and nothing of it is ours to close.
        if let Some(parent) = current.take() {
            core::mem::forget(parent);
        }
        // Before there is anything to clear away.
        let graph = Part::of_environment(own_nid)?;
        let wake = nix::sys::eventfd::EventFd::from_flags(
            nix::sys::eventfd::EfdFlags::EFD_CLOEXEC | nix::sys::eventfd::EfdFlags::EFD_NONBLOCK,
        )
        .map_err(|e| Error::System { call: "eventfd", errno: e as i32 })?;
        let registry = Registry::open()?;
        let member = registry.join()?;
        let many_cpus = process::cpus() > 1;
        let shared = Shared::new(own_nid(), many_cpus, (registry, member), graph, wake.into());
        let p = Arc::new(Process::new(shared, generation));
        prepare_fences();
        service::start(p.clone()).inspect_err(|_| p.shared.registry.leave(&p.shared.member))?;
        *current = Some(p.clone());
        process::at_exit(at_exit);
        Ok(p)
    }

    /// This process, if it has or had endpoints of this driver.
    pub fn started() -> Option<Arc<Process>> {
        let generation = process::generation();
        held(place(generation)).as_ref().filter(|p| p.generation == generation).cloned()
    }
}

/// At exit(3): what was written plainly may still be in this process's hands.
extern "C" fn at_exit() {
    let generation = process::generation();
    let Ok(current) = place(generation).try_lock() else { return };
    let Some(p) = current.as_ref().filter(|p| p.generation == generation) else { return };
    p.flush(LINGER);
    for inner in p.endpoints() {
        inner.retire_at_exit();
    }
    let Shared { registry, member, .. } = &*p.shared;
    registry.remove_gateway(&Entry { process: member.name.clone(), serial: 0 });
    registry.leave(member);
}
