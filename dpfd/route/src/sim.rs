//! A network in memory for tests of what stands on routes.
//!
//! It has a clock of its own, which only [`Network::advance`] moves, and all of its chances come from one seed: the same
//! calls in the same order give the same run. It allocates for each frame, as no other route does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use nix::errno::Errno;

use crate::address::Label;
use crate::{
    not_ours, BadAddress, Counters, Frames, PeerAddr, Reason, Received, Route, FRAME_MAX, LABEL_MAX,
};

/// One direction between two nodes. Chances are 0 to 1, of each frame by itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Chance that a frame is lost.
    pub loss: f64,
    /// Chance that it comes twice.
    pub duplicate: f64,
    /// Chance that it is held back for up to `hold`, so that later ones overtake it.
    pub reorder: f64,
    /// How long such a frame is held at most.
    pub hold: Duration,
    /// Chance that one to four of its bits are turned over.
    pub corrupt: f64,
    /// How long each frame takes beside `rate`.
    pub delay: Duration,
    /// Bits a second; none for as fast as can be.
    pub rate: Option<u64>,
    /// Bytes that wait at most where there is a rate; then `send` finds no room.
    pub queue: usize,
    /// Bytes of the longest frame.
    pub mtu: usize,
    /// Longer ones than this are lost, and nobody is told.
    pub swallows: usize,
    /// Whether it carries frames.
    pub state: State,
}

/// Whether a link carries frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// It does.
    #[default]
    Up,
    /// All are lost, and nobody is told.
    Silent,
    /// `send` gets ENETDOWN.
    Down,
}

impl Default for Link {
    /// Loses nothing, takes no time, MTU 1500.
    fn default() -> Link {
        Link {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            hold: Duration::from_millis(1),
            corrupt: 0.0,
            delay: Duration::ZERO,
            rate: None,
            queue: 256 << 10,
            mtu: 1500,
            swallows: usize::MAX,
            state: State::Up,
        }
    }
}

/// The network; a copy is the same one.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
}

type Name = Label<LABEL_MAX>;

#[derive(Debug)]
struct Shared {
    now: Duration,
    rng: Rng,
    usual: Link,
    links: HashMap<(Name, Name), Link>,
    /// When the last bit that waits for a link with a rate will have left.
    busy: HashMap<(Name, Name), Duration>,
    /// Counts frames, so that those of one moment keep their order.
    serial: u64,
    flying: BinaryHeap<Reverse<Flight>>,
    arrived: HashMap<Name, VecDeque<(Name, Vec<u8>)>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Duration,
    serial: u64,
    from: String,
    to: String,
    bytes: Vec<u8>,
}

impl Network {
    /// All links are [`Link::default`]'s until told otherwise.
    pub fn new(seed: u64) -> Network {
        let shared = Shared {
            now: Duration::ZERO,
            rng: Rng::with_seed(seed),
            usual: Link::default(),
            links: HashMap::new(),
            busy: HashMap::new(),
            serial: 0,
            flying: BinaryHeap::new(),
            arrived: HashMap::new(),
        };
        Network { shared: Arc::new(Mutex::new(shared)) }
    }

    /// A node's place in it, with the address `sim:NAME`.
    ///
    /// # Errors
    /// The name cannot be an address.
    pub fn attach(&self, name: &str) -> Result<Sim, BadAddress> {
        self.attach_as("sim", name)
    }

    /// The same for a route of another name, where a test needs several networks.
    ///
    /// # Errors
    /// The names cannot be.
    pub fn attach_as(&self, route: &str, name: &str) -> Result<Sim, BadAddress> {
        let local = PeerAddr::other(route, name)?;
        let at = Label::new(name).ok_or_else(|| BadAddress::Other(name.into()))?;
        self.lock().arrived.entry(at).or_default();
        Ok(Sim { network: self.clone(), local, at, counters: Counters::default() })
    }

    /// From now on all links that have none of their own are like this.
    pub fn set_usual(&self, link: Link) {
        self.lock().usual = link;
    }

    /// From now on this direction is like this.
    ///
    /// # Errors
    /// A name cannot be an address.
    pub fn set_link(&self, from: &str, to: &str, link: Link) -> Result<(), BadAddress> {
        let label = |name: &str| Label::new(name).ok_or_else(|| BadAddress::Other(name.into()));
        let ends = (label(from)?, label(to)?);
        self.lock().links.insert(ends, link);
        Ok(())
    }

    /// Time since it was made.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// When the next frame arrives.
    pub fn next_arrival(&self) -> Option<Duration> {
        self.lock().flying.peek().map(|flight| flight.0.at)
    }

    /// Lets time pass; what arrives meanwhile can be received.
    pub fn advance(&self, by: Duration) {
        let mut shared = self.lock();
        shared.now += by;
        shared.land();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A test that failed while it held the lock has done no harm to what is behind it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn link(&self, ends: &(Name, Name)) -> Link {
        self.links.get(ends).copied().unwrap_or(self.usual)
    }

    fn chance(&mut self, of: f64) -> bool {
        // Drawn in any case, so that a change of one chance leaves the others' draws where they were.
        self.rng.f64() < of
    }

    /// Sends one frame, or says why not.
    fn send(&mut self, ends: (Name, Name), frame: &[u8]) -> Result<(), Errno> {
        let link = self.link(&ends);
        if link.state == State::Down {
            return Err(Errno::ENETDOWN);
        }
        if frame.len() > link.mtu {
            return Err(Errno::EMSGSIZE);
        }
        let mut leaves = self.now;
        if let Some(rate) = link.rate {
            let takes = |bytes: usize| Duration::from_secs_f64(bytes as f64 * 8.0 / rate.max(1) as f64);
            let busy = self.busy.get(&ends).copied().unwrap_or_default().max(self.now);
            if busy - self.now + takes(frame.len()) > takes(link.queue) {
                return Err(Errno::ENOBUFS);
            }
            leaves = busy + takes(frame.len());
            self.busy.insert(ends, leaves);
        }
        let lost = self.chance(link.loss) || link.state == State::Silent || frame.len() > link.swallows;
        let copies = 1 + u64::from(self.chance(link.duplicate));
        for _ in 0..copies {
            let (held, hold) = (self.chance(link.reorder), self.rng.f64());
            let corrupt = self.chance(link.corrupt);
            let mut bytes = frame.to_vec();
            if corrupt {
                for _ in 0..self.rng.usize(1..=4) {
                    let bit = self.rng.usize(..bytes.len() * 8);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            }
            let extra = if held { link.hold.mul_f64(hold) } else { Duration::ZERO };
            self.serial += 1;
            if !lost {
                self.flying.push(Reverse(Flight {
                    at: leaves + link.delay + extra,
                    serial: self.serial,
                    from: ends.0.as_str().into(),
                    to: ends.1.as_str().into(),
                    bytes,
                }));
            }
        }
        Ok(())
    }

    /// What is due now has arrived; where nobody is attached, it is gone.
    fn land(&mut self) {
        while self.flying.peek().is_some_and(|flight| flight.0.at <= self.now) {
            let Some(Reverse(flight)) = self.flying.pop() else { return };
            let (Some(from), Some(to)) = (Label::new(&flight.from), Label::new(&flight.to)) else { continue };
            if let Some(queue) = self.arrived.get_mut(&to) {
                queue.push_back((from, flight.bytes));
            }
        }
    }
}

/// A node's place in a [`Network`].
#[derive(Debug)]
pub struct Sim {
    network: Network,
    local: PeerAddr,
    at: Name,
    counters: Counters,
}

impl Sim {
    fn ends(&mut self, to: &PeerAddr) -> io::Result<(Name, Name)> {
        match to {
            PeerAddr::Other { at, .. } if to.route() == self.local.route() => Ok((self.at, *at)),
            _ => Err(not_ours(&mut self.counters)),
        }
    }
}

impl Route for Sim {
    fn name(&self) -> &str {
        self.local.route()
    }

    fn local(&self) -> PeerAddr {
        self.local
    }

    fn mtu(&mut self, to: &PeerAddr) -> io::Result<usize> {
        let ends = self.ends(to)?;
        Ok(self.network.lock().link(&ends).mtu.clamp(1, FRAME_MAX))
    }

    fn send(&mut self, to: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        let ends = self.ends(to)?;
        let mut shared = self.network.lock();
        for (sent, frame) in frames.iter().enumerate() {
            if let Err(error) = shared.send(ends, frame) {
                let error = io::Error::from(error);
                let reason = Reason::of(&error);
                self.counters.refuse(reason, 1);
                return if sent > 0 || reason == Reason::Full { Ok(sent) } else { Err(error) };
            }
            self.counters.send(1, frame.len());
        }
        shared.land();
        Ok(frames.len())
    }

    fn slot(&self) -> usize {
        // That of the longest link is not known here.
        FRAME_MAX
    }

    fn recv(&mut self, into: &mut Received) -> io::Result<usize> {
        into.clear();
        let slot = into.slot();
        if slot < self.slot() {
            return Err(Errno::EINVAL.into());
        }
        let slots = into.room().len() / slot;
        let mut shared = self.network.lock();
        shared.land();
        let Some(queue) = shared.arrived.get_mut(&self.at) else { return Ok(0) };
        let mut frames = 0;
        while frames < slots {
            let Some((from, bytes)) = queue.pop_front() else { break };
            let Ok(from) = PeerAddr::other(self.local.route(), from.as_str()) else { continue };
            into.room()[frames * slot..][..bytes.len()].copy_from_slice(&bytes);
            into.push(frames, from, bytes.len(), bytes.len());
            self.counters.receive(1, bytes.len());
            frames += 1;
        }
        Ok(frames)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
