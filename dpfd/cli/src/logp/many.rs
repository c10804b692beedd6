//! K senders and one receiver: the gap that each of them sees.

use dp_measure::logp::probe::Load;
use dpfd::Dpid;

use crate::pair::end::Role;
use crate::pair::nodes::Nodes;
use crate::pair::peer::{next_pair, Peer, Task};
use crate::pair::transport::{ring_for, Transport};
use crate::pair::Result;

/// Numbers of the one endpoint that several send to, and of these, above those of pairs.
const HUB: Dpid = 20_000;
/// Turns of each number of senders, one number after the other.
pub const ROUNDS: u32 = 5;

/// The receiver's process and those of senders, which wait for what to do.
pub struct Crowd {
    receiver: Peer,
    senders: Vec<Peer>,
    /// How many the senders have.
    cores: usize,
    nodes: Option<Nodes>,
}

impl Crowd {
    /// A receiver on its core, senders on the others in turns.
    pub fn start(receiver: usize, others: &[usize], most: u32, nodes: Option<Nodes>) -> Result<Crowd> {
        let senders = (0..most as usize).map(|i| Peer::start(others[i % others.len()]));
        let senders = senders.collect::<Result<_>>()?;
        Ok(Crowd { receiver: Peer::start(receiver)?, senders, cores: others.len(), nodes })
    }

    /// For each number of senders, and each round, the gap seen by each of them, in ns.
    pub fn gaps(
        &mut self,
        transport: Transport,
        load: Load,
        counts: &[u32],
        seconds: f64,
    ) -> Result<Vec<Vec<f64>>> {
        let most = self.senders.len();
        for i in 0..most {
            self.open(transport, load.size, i, most)?;
        }
        let mut gaps = vec![Vec::new(); counts.len()];
        for _ in 0..ROUNDS {
            for (&senders, gaps) in counts.iter().zip(&mut gaps) {
                gaps.push(self.turn(load, senders as usize, seconds)?);
            }
        }
        for peer in self.senders.iter_mut().chain([&mut self.receiver]) {
            peer.close()?;
        }
        Ok(gaps)
    }

    fn turn(&self, load: Load, senders: usize, seconds: f64) -> Result<f64> {
        self.receiver.begin(0, Task::ReplyToAll { load, senders })?;
        let senders = &self.senders[..senders];
        for sender in senders {
            sender.tell(0, Task::Stream { load, seconds })?;
        }
        let mut sum = 0.0;
        for sender in senders {
            sender.begun()?;
            sum += sender.done()?.ns;
        }
        self.receiver.done()?;
        Ok(sum / senders.len() as f64)
    }

    /// Whether so many have a core each.
    pub fn shares(&self, senders: u32) -> bool {
        senders as usize > self.cores
    }

    /// The way between one sender, of so many, and the receiver.
    fn open(&mut self, transport: Transport, size: usize, i: usize, senders: usize) -> Result<()> {
        let [ours, theirs] = transport.make(size, self.nodes.as_ref())?;
        let sender = &mut self.senders[i];
        if transport.is_endpoint() {
            if i == 0 {
                self.receiver.take(transport, Role::Hub { number: HUB, senders }, &theirs)?;
                self.receiver.taken()?;
            }
            sender.take(transport, Role::Spoke { mine: HUB + 1 + i as Dpid, hub: HUB }, &ours)?;
        } else {
            let (pair, pool) = (next_pair(), transport.pool(ring_for(size)));
            // Both before either has it: one may wait for the other.
            self.receiver.take(transport, Role::OneOfTwo { pair, first: false, pool }, &theirs)?;
            sender.take(transport, Role::OneOfTwo { pair, first: true, pool }, &ours)?;
            self.receiver.taken()?;
        }
        sender.taken().map(drop)
    }
}
