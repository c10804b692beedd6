//! A simulated system: a sender, a network that takes a packet every gap, a queue, a receiver, and nothing real.

use std::convert::Infallible;

use crate::cost::model::Linear;
use crate::cost::probe::{Load, System};

pub fn linear(k: f64, t: f64) -> Linear {
    Linear { k, t }
}

#[derive(Clone)]
pub struct Pipeline {
    pub o_s: Linear,
    pub g: Linear,
    pub l: Linear,
    pub o_r: Linear,
    pub u_r: Linear,
    /// From this length on all costs are so many times as high.
    pub knee: (usize, f64),
    /// How much longer each doubling of the program's buffers makes the gap.
    pub doubling: f64,
    /// g_r over g_s, as it is told.
    pub uneven: f64,
    /// Bytes of the queue, and what a packet takes beside its own.
    pub queue: (f64, f64),
    /// Of each result: up to this part more, and every fourth time twice as much.
    pub noise: f64,
    seed: u64,
}

impl Pipeline {
    pub fn new([o_s, g, l, o_r, u_r]: [Linear; 5]) -> Pipeline {
        let queue = (1048576.0, 64.0);
        Pipeline {
            o_s,
            g,
            l,
            o_r,
            u_r,
            knee: (usize::MAX, 1.0),
            doubling: 0.0,
            uneven: 1.0,
            queue,
            noise: 0.0,
            seed: 1,
        }
    }

    pub fn cost(&self, of: Linear, m: usize) -> f64 {
        of.at(m) * if m >= self.knee.0 { self.knee.1 } else { 1.0 }
    }

    pub fn gap(&self, load: Load) -> f64 {
        self.cost(self.g, load.packet) + self.doubling * (load.spread as f64 / load.packet as f64).log2()
    }

    /// Packet by packet: when the last of `packets` is taken, and how far apart the last two were sent and taken.
    pub fn run(&self, load: Load, packets: usize) -> (f64, [f64; 2]) {
        let m = load.packet;
        let [o_s, l, o_r, u_r] = [self.o_s, self.l, self.o_r, self.u_r].map(|of| self.cost(of, m));
        let g = self.gap(load);
        let room = ((self.queue.0 / (m as f64 + self.queue.1)) as usize).max(1);
        let (mut sender, mut network, mut receiver) = (0.0, f64::MIN, 0.0);
        let (mut taken, mut apart) = (Vec::new(), [0.0; 2]);
        for i in 0..packets {
            // A full queue keeps the sender.
            let begin = if i >= room { f64::max(sender, taken[i - room]) } else { sender };
            let sent = begin + o_s;
            network = f64::max(sent, network + g);
            // The network takes the next only when this one has left.
            let left = f64::max(sent, network);
            let done = f64::max(receiver, left + l) + o_r + u_r;
            apart = [left - sender, done - receiver];
            (sender, receiver) = (left, done);
            taken.push(done);
        }
        (receiver, apart)
    }

    /// From 0 to 1; Marsaglia's xorshift.
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1u64 << 53) as f64
    }

    fn disturbed(&mut self, ns: f64) -> f64 {
        let more = 1.0 + self.noise * self.chance();
        ns * if self.noise > 0.0 && self.chance() < 0.25 { 2.0 * more } else { more }
    }
}

impl System for Pipeline {
    type Error = Infallible;

    fn overheads(&mut self, load: Load) -> Result<[f64; 2], Infallible> {
        let both = [self.cost(self.o_s, load.packet), self.cost(self.u_r, load.packet)];
        Ok(both.map(|ns| self.disturbed(ns)))
    }

    fn gaps(&mut self, load: Load) -> Result<[f64; 2], Infallible> {
        let (_, [sent, taken]) = self.run(load, 64);
        Ok([sent, self.uneven * taken].map(|ns| self.disturbed(ns)))
    }

    fn one_way(&mut self, load: Load) -> Result<f64, Infallible> {
        let (ns, _) = self.run(load, load.packets());
        Ok(self.disturbed(ns))
    }

    fn slowdown(&mut self, packet: usize) -> Result<f64, Infallible> {
        Ok(self.cost(self.o_r, packet))
    }

    fn room(&mut self, packet: usize) -> Result<f64, Infallible> {
        Ok((self.queue.0 / (packet as f64 + self.queue.1)).floor())
    }
}
