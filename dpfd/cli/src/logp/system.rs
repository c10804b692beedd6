//! A way of sending as a system whose parameters are measured: this process requests, the other one replies.

use std::time::Instant;

use dp_measure::logp::probe::{Load, System};

use crate::pair::clock::compute;
use crate::pair::end::each;
use crate::pair::peer::{Pair, Peer, Task};
use crate::pair::requests::Requester;
use crate::pair::Result;

/// Round trips at the begin of a batch that do not count.
const WARM_UP: u32 = 8;

/// Such a way.
pub struct Measured<'a> {
    pub pair: &'a mut Pair,
    pub peer: &'a Peer,
    pub requester: &'a mut Requester,
}

impl System for Measured<'_> {
    type Error = Box<dyn std::error::Error>;

    fn begin(&mut self, load: Load) -> Result<()> {
        self.requester.load(load);
        self.peer.begin(self.pair.index, Task::Reply(load))?;
        self.round_trips(WARM_UP)?;
        Ok(())
    }

    fn burst(&mut self, messages: u32, turns: u32) -> Result<f64> {
        each!(&mut self.pair.end, link => Ok(self.requester.burst(link, messages, turns)?))
    }

    fn round_trips(&mut self, trips: u32) -> Result<f64> {
        each!(&mut self.pair.end, link => Ok(self.requester.round_trips(link, trips)?))
    }

    fn compute(&mut self, times: u32, turns: u32) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..times {
            compute(turns);
        }
        Ok(self.requester.clock.since(start))
    }

    fn end(&mut self) -> Result<()> {
        each!(&mut self.pair.end, link => self.requester.stop(link))?;
        self.peer.done().map(drop)
    }
}
