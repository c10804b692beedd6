//! A gateway inside a program that is a node by itself: the calls of the program's endpoints step it, so what goes to another node
//! passes no other process and no other thread on its way (PROTOCOLS N15 to N18).
//!
//! ```text
//!   program                                                              another node
//!   send --edge--> proxy --> flow --> guard --> route ===================> ...
//!   recv <--pool-- proxy <-- flow <-- guard <-- route <=================== ...
//!        '----------- one call of the program's -----------'
//! ```
//!
//! ```no_run
//! use dp_node::gate::Options;
//! use dp_node::InProcess;
//! use dpfd::{Addr, Endpoint};
//!
//! // DP_NID=1, and a DP_RUNTIME_DIR of its own.
//! let options = Options::from_graph("dp-graph.toml".as_ref(), 1)?;
//! let _gateway = InProcess::start(options, |what| eprintln!("{what}"))?;
//! let endpoint = Endpoint::open(4000)?;
//! endpoint.send_to(b"hello", Addr { nid: 2, dpid: 7000 })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Programs of the same node may use it as well, like one that is a process: for them the helper works.
//!
//! # From C
//!
//! `dp.h` has no call for this. libdp has 0.85 MB, stripped, and stands on 15 packages. With the gateway in it it would stand on 65, of
//! which ring has to be compiled from C and assembler, and have about twice as many bytes (`dp`, which has both in it, has 0.74 MB of
//! functions of these packages), in every program that sends to a neighbour on its own machine. A library beside libdp would not do: calls of
//! endpoints step the gateway, so the two must have one copy of `dpfd`. What would is one in place of libdp, a `libdp-node` with all of
//! its calls and two more that start and stop the gateway. Until somebody needs that, programs in C use a gateway that is a process
//! (dp-node(8)).

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use dp_edge::sys::process;
use dp_edge::turns::{Turns, LATE};
use dpfd::driver::user::inside::Inside;
use dpfd::Addr;
use nix::fcntl::OFlag;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{getrlimit, Resource};

use crate::gate::{system, CannotServe, Gate, Options};
use crate::node::Node;
use crate::proxies::Proxies;

mod end;
mod helper;

/// What the control epoll knows [`Inner::wake`] by.
const WAKE: u64 = 1;
/// Turns of the node in one step, at most: what is left is due at once.
const ROUNDS: usize = 64;

/// The gateway inside this process, until dropped: dropping it waits up to two seconds until it has what was sent to other nodes
/// before, and then as long until that is acknowledged and other programs of the node have let go of it, but not for nodes that are down.
#[derive(Debug)]
pub struct InProcess {
    inner: Arc<Inner>,
    helper: Option<JoinHandle<()>>,
    /// Of the process that started it, as forks are counted.
    generation: u32,
}

struct Inner {
    gate: Mutex<Option<Running>>,
    turns: Turns,
    /// Addresses of proxies to which something was sent while another thread had the gate.
    left: Mutex<Vec<Addr>>,
    /// Readable while a route has something; an event that never is once the gateway has ended.
    routes: Mutex<OwnedFd>,
    descriptor: RawFd,
    /// What only the helper looks at: who asks, and bells of proxies.
    control: Arc<Epoll>,
    wake: EventFd,
    ends: AtomicBool,
}

/// The gate, and when something is due there.
struct Running {
    gate: Gate,
    routes: usize,
    next: u64,
}

impl InProcess {
    /// Opens everything, and is the gateway of this program's node from then on. `DP_NID` must say what the graph does, and the
    /// program's `DP_RUNTIME_DIR` be one in which no other gateway runs. What does not work but is not needed is told to `warn`.
    /// A thread is started, which takes no signals.
    ///
    /// # Errors
    ///
    /// See [`CannotServe`]. In the life of a process one gateway can be inside it.
    pub fn start(options: Options, warn: impl FnMut(String)) -> Result<InProcess, CannotServe> {
        let graph = options.nart.nid;
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let mut gate = Gate::open(options, descriptors, warn)?;
        let told = gate.node.local().gateway().nid();
        if told != graph {
            return Err(CannotServe::Number { told, graph });
        }
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(system("eventfd"))?;
        let control = gate.epoll.clone();
        control.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE)).map_err(system("epoll_ctl"))?;
        let readable = readable(&gate.node).map_err(system("epoll_ctl"))?;
        gate.keep_from_children(readable.as_fd());
        let routes = gate.node.routes().len();
        let inner = Arc::new(Inner {
            gate: Mutex::new(Some(Running { gate, routes, next: 0 })),
            turns: Turns::new(),
            left: Mutex::default(),
            descriptor: readable.as_raw_fd(),
            routes: Mutex::new(readable),
            control,
            wake,
            ends: AtomicBool::new(false),
        });
        // Whatever fails from here on, what was opened ends with this.
        let mut inside = InProcess { inner, helper: None, generation: process::generation() };
        let stepped = inside.inner.lock().as_mut().map(|running| {
            let gateway = running.gate.node.local().gateway();
            gateway.step_by(inside.inner.clone())
        });
        stepped.transpose()?;
        // The first to open a proxy: links that lead there know that calls step.
        let helps = inside.inner.clone();
        let helper = std::thread::Builder::new().name("dp-gateway".to_string());
        inside.helper = Some(helper.spawn(move || helper::run(&helps)).map_err(system("clone"))?);
        Ok(inside)
    }
}

/// A descriptor that is readable while a route has something that is listened to.
fn readable(node: &Node<Proxies>) -> nix::Result<OwnedFd> {
    let heard = node.routes().iter().enumerate().filter(|(at, _)| node.is_heard(*at));
    let all: Vec<_> = heard.filter_map(|(_, route)| route.descriptor()).collect();
    if let [one] = all[..] {
        return one
            .try_clone_to_owned()
            .map_err(|error| nix::Error::from_raw(error.raw_os_error().unwrap_or(0)));
    }
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for descriptor in all {
        epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    Ok(epoll.0)
}

impl Inner {
    /// The gate, once nobody else has it: for the beginning and the end.
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        // A panic under the lock cannot be mended, and need not take the program along.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has it, and there is one.
    fn get(&self) -> Option<MutexGuard<'_, Option<Running>>> {
        let guard = match self.gate.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        guard.is_some().then_some(guard)
    }

    /// Has `work` done with the gate, if `get` gives it, and then what that and the clock bring. What came by it; nothing: another
    /// thread has the gate, or there is none any more.
    fn visit<'a>(
        &'a self,
        get: impl FnMut() -> Option<MutexGuard<'a, Option<Running>>>,
        mut work: impl FnMut(&mut Running, u64) -> usize,
    ) -> Option<usize> {
        let mut all = 0;
        let visited = self.turns.visit(get, |guard: &mut MutexGuard<'a, Option<Running>>, left| {
            let Some(running) = guard.as_mut() else { return };
            let now = process::now();
            let mut n = work(running, now);
            if left {
                n += self.take_left(running, now);
            }
            all += n;
            if n > 0 || now >= running.next {
                running.turn();
                if running.gate.node.heard_changed() {
                    self.listen_to(&running.gate.node);
                }
                if running.gate.node.was_refreshed() {
                    let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
                    running.gate.keep_from_children(routes.as_fd());
                }
            } else if !running.hurries(now) {
                return;
            }
            if self.turns.is_due(running.next) {
                self.wake();
            }
        });
        visited.then_some(all)
    }

    fn take_left(&self, running: &mut Running, now: u64) -> usize {
        let left = core::mem::take(&mut *self.left());
        left.into_iter().map(|addr| running.gate.take_aside(now, addr)).sum()
    }

    fn left(&self) -> MutexGuard<'_, Vec<Addr>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A route is broken, or works again. The number stays.
    fn listen_to(&self, node: &Node<Proxies>) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(readable) = readable(node) {
            let _ = nix::unistd::dup3(readable.as_fd(), &mut routes, OFlag::O_CLOEXEC);
        }
        drop(routes);
        // A call that sleeps on what was at the number before hears nothing of this, and the helper may rely on it.
        self.turns.forget_leader();
        self.wake();
    }

    /// Wakes the helper.
    fn wake(&self) {
        let _ = self.wake.write(1);
    }
}

impl Running {
    /// Takes what routes have.
    fn receive(&mut self, now: u64) -> usize {
        (0..self.routes).map(|route| self.gate.node.receive(now, route)).sum()
    }

    /// Whether something is due earlier, though nothing came: a proxy had no room, or a route may not work any more.
    fn hurries(&mut self, now: u64) -> bool {
        let next = self.gate.next_in_vain(now).filter(|next| *next < self.next);
        self.next = next.unwrap_or(self.next);
        next.is_some()
    }

    /// What came is answered, what can be sent is, and what is due is done.
    fn turn(&mut self) {
        let mut now = process::now();
        self.gate.node.local().pass(now);
        // Before the turn, which sends what that takes.
        let resume = self.gate.resume(now);
        let mut more = true;
        for _ in 0..ROUNDS {
            more = self.gate.node.turn(now);
            if !more {
                break;
            }
            now = process::now();
        }
        let next = [self.gate.next_timeout(), resume, more.then_some(now)];
        self.next = next.into_iter().flatten().min().unwrap_or(u64::MAX);
    }
}

impl Inside for Inner {
    fn sent(&self, to: Addr) {
        if self.visit(|| self.get(), |running, now| running.gate.take_aside(now, to)).is_some() {
            return;
        }
        let mut left = self.left();
        if !left.contains(&to) {
            left.push(to);
        }
        drop(left);
        self.turns.leave();
        self.visit(|| self.get(), |_, _| 0);
    }

    fn step(&self) -> bool {
        self.visit(|| self.get(), Running::receive).is_some_and(|n| n > 0)
    }

    fn begin_wait(&self, yields: bool) -> bool {
        self.turns.begin_wait(yields)
    }

    fn end_wait(&self, led: bool) {
        if self.turns.end_wait(led) {
            self.wake();
        }
    }

    fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    fn until_due(&self) -> Option<Duration> {
        if self.ends.load(Ordering::Acquire) {
            // Nobody does any more what was due last, and a wait for it would be over at once, again and again.
            return None;
        }
        let left = self.turns.due().saturating_sub(process::now());
        // The rest is the helper's.
        (left < LATE).then(|| Duration::from_nanos(left))
    }

    fn has_unacknowledged(&self) -> bool {
        let mut waits = false;
        let visited = self.visit(
            || self.get(),
            |running, now| {
                // The service may have put something into a proxy's edge that nobody has taken from there.
                let n = running.gate.take_all(now);
                waits = running.gate.node.waits_for_others();
                n
            },
        );
        // Else another thread has it, or it is over.
        if visited.is_some() {
            waits
        } else {
            !self.ends.load(Ordering::Acquire)
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("turns", &self.turns).finish_non_exhaustive()
    }
}
