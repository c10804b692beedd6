//! A simulated link: two processors, one wire each way that takes a message every gap, and nothing real.

use std::convert::Infallible;

use crate::logp::probe::{Load, System};

/// A cost in nanoseconds: at first, and for each byte.
#[derive(Clone, Copy)]
pub struct Cost(pub f64, pub f64);

impl Cost {
    pub fn of(self, size: usize) -> f64 {
        self.0 + self.1 * size as f64
    }
}

/// Nanoseconds of one turn of a computation.
const TURN: f64 = 1.25;

pub struct Link {
    pub o_s: Cost,
    pub o_r: f64,
    pub l: f64,
    pub g: Cost,
    /// What a replier needs more for a request that it has waited for.
    pub wake: f64,
    /// Of the whole time of a burst: up to this part more, and now and then much more.
    pub noise: f64,
    load: Load,
    seed: u64,
}

impl Link {
    pub fn new(o_s: Cost, o_r: f64, l: f64, g: Cost) -> Link {
        let load = Load { size: 1, reply: 1, window: 1 };
        Link { o_s, o_r, l, g, wake: 0.0, noise: 0.0, load, seed: 1 }
    }

    /// From 0 to 1; Marsaglia's xorshift.
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1u64 << 53) as f64
    }

    fn disturbed(&mut self, ns: f64) -> f64 {
        let mut ns = ns * (1.0 + self.noise * self.chance());
        if self.noise > 0.0 && self.chance() < 0.02 {
            ns += 1e6;
        }
        ns
    }

    /// The issuing of a burst, event by event: until when the requester is at it, and until its last reply is in.
    fn run(&self, messages: usize, delay: f64, window: usize) -> (f64, f64) {
        let Load { size, reply, .. } = self.load;
        let (mut t, mut wire, mut server, mut back) = (0.0, f64::MIN, 0.0, f64::MIN);
        let mut replies = Vec::with_capacity(messages);
        for i in 0..messages {
            if i >= window {
                t = f64::max(t, replies[i - window]) + self.o_r;
            }
            t += self.o_s.of(size);
            wire = f64::max(t, wire + self.g.of(size));
            let there = wire + self.l;
            let asleep = if there > server { self.wake } else { 0.0 };
            server = f64::max(there, server) + asleep + self.o_r + self.o_s.of(reply);
            back = f64::max(server, back + self.g.of(reply));
            replies.push(back + self.l);
            t += delay;
        }
        let issued = t;
        for there in &replies[messages.saturating_sub(window)..] {
            t = f64::max(t, *there) + self.o_r;
        }
        (issued, t)
    }
}

impl System for Link {
    type Error = Infallible;

    fn begin(&mut self, load: Load) -> Result<(), Infallible> {
        self.load = load;
        Ok(())
    }

    fn burst(&mut self, messages: u32, turns: u32) -> Result<f64, Infallible> {
        let (issued, _) = self.run(messages as usize, f64::from(turns) * TURN, self.load.window as usize);
        Ok(self.disturbed(issued))
    }

    fn round_trips(&mut self, trips: u32) -> Result<f64, Infallible> {
        let (_, done) = self.run(1, 0.0, 1);
        Ok(self.disturbed(f64::from(trips) * done))
    }

    fn compute(&mut self, times: u32, turns: u32) -> Result<f64, Infallible> {
        Ok(self.disturbed(f64::from(times) * f64::from(turns) * TURN))
    }

    fn end(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
