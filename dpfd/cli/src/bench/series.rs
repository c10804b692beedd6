//! The turns of one way of sending, for one length of message.

use std::time::{Duration, Instant};

use dp_measure::cost::probe::Load;
use dp_measure::stats::percentile;

use super::{flood, lat, waiting, What};
use crate::pair::clock::Timing;
use crate::pair::crowd::Crowd;
use crate::pair::end::{each, End};
use crate::pair::link::Link;
use crate::pair::nodes::Nodes;
use crate::pair::peer::{Pair, Peer, Task};
use crate::pair::transport::Transport;
use crate::pair::work::cpu_seconds;
use crate::pair::Result;

/// What one turn of one way brought.
pub enum Turn {
    Lat(lat::Turn),
    /// Messages in a second, and how many there were.
    Flood {
        rate: f64,
        messages: u64,
    },
}

/// All turns of one way, for one length of message.
pub struct Series {
    pair: Pair,
    size: usize,
    ring: usize,
    /// With the CPU seconds of both processes.
    pub turns: Vec<(Turn, [f64; 2])>,
}

impl Series {
    /// A way of sending to the second process, if it is one between endpoints with a ring of so many bytes.
    pub fn open(
        peer: &mut Peer,
        transport: Transport,
        size: usize,
        ring: usize,
        nodes: Option<&Nodes>,
    ) -> Result<Series> {
        let pair = peer.open(transport, size, transport.pool(ring), nodes)?;
        Ok(Series { pair, size, ring, turns: Vec::new() })
    }

    /// A way to another node by the route of this name.
    pub fn by_route(peer: &mut Peer, route: &str, size: usize, ring: usize) -> Result<Series> {
        let pair = peer.open_by(route, Transport::Route.pool(ring))?;
        Ok(Series { pair, size, ring, turns: Vec::new() })
    }

    /// As people call it.
    pub fn name(&self) -> &str {
        &self.pair.name
    }

    pub fn transport(&self) -> Transport {
        self.pair.transport
    }

    /// Adds so many others that nobody uses; the first process's ends, and by how many bytes the second one grew.
    pub fn crowd(&self, peer: &Peer, count: usize) -> Result<(Crowd, u64)> {
        peer.crowd(&self.pair, count)
    }

    /// All turns that were round trips.
    fn latencies(&self) -> impl Iterator<Item = &lat::Turn> {
        self.turns.iter().filter_map(|(turn, _)| match turn {
            Turn::Lat(turn) => Some(turn),
            Turn::Flood { .. } => None,
        })
    }

    /// Their medians.
    pub fn p50(&self) -> Vec<f64> {
        self.latencies().map(|turn| turn.p50).collect()
    }

    /// The medians of messages out of the blue, if there were such.
    pub fn unawaited(&self) -> Vec<f64> {
        self.latencies().filter_map(|turn| turn.unawaited).collect()
    }

    /// What so many of 1000 messages of all turns did not exceed.
    pub fn percentile(&self, thousandths: usize) -> f64 {
        let singles = self.latencies().flat_map(|turn| turn.singles.iter().copied());
        percentile(&mut singles.collect::<Vec<f32>>(), thousandths)
    }

    /// One more turn.
    pub fn turn(&mut self, peer: &Peer, what: What, time: Duration) -> Result<()> {
        let done = self.run(peer, what, time).and_then(|done| peer.check(&self.pair).map(|()| done));
        let done = peer.explained(done).map_err(|e| format!("{}: {e}", self.name()))?;
        self.turns.push(done);
        Ok(())
    }

    fn run(&mut self, peer: &Peer, what: What, time: Duration) -> Result<(Turn, [f64; 2])> {
        let (size, ring, index) = (self.size, self.ring, self.pair.index);
        let task = match what {
            What::Waiting => return self.wait(peer, time),
            What::Lat => Task::Echo { load: Load::whole(size) },
            _ => Task::Drain { size },
        };
        peer.begin(index, task)?;
        let cpu = cpu_seconds()?;
        let start = Instant::now();
        let (sent, turn) = match (what, &mut self.pair.end) {
            (What::Lat, End::Floor(floor)) => (None, Some(lat::over_floor(floor, time)?)),
            (What::Lat, end) => (None, Some(each!(end, link => lat::over_link(link, size, ring, time))?)),
            (_, end) => (Some(each!(end, link => flood::pour(link, size, time))?), None),
        };
        let mine = cpu_seconds()? - cpu;
        let done = peer.done()?;
        let messages = done.messages;
        if let Some(sent) = sent.filter(|&sent| sent != messages) {
            return Err(format!("{sent} messages were sent, {messages} came").into());
        }
        // Until the other process has them all: what is still under way was not carried.
        let turn = match turn {
            Some(turn) => Turn::Lat(turn),
            None => Turn::Flood { rate: messages as f64 / start.elapsed().as_secs_f64(), messages },
        };
        Ok((turn, [mine, done.cpu_s]))
    }

    /// Sends some messages, and then has them taken: for half of the time out of the blue, then each time after the receiver
    /// has waited for one before them.
    fn wait(&mut self, peer: &Peer, time: Duration) -> Result<(Turn, [f64; 2])> {
        let message = vec![0; self.size];
        let (mut awaited, mut unawaited) = (Vec::new(), Vec::new());
        // That it waited in the last turn is forgotten by then.
        std::thread::sleep(waiting::FORGOTTEN);
        let start = Instant::now();
        while unawaited.is_empty() || start.elapsed() < time / 2 {
            unawaited.push(self.taken(peer, &message)?);
        }
        while awaited.is_empty() || start.elapsed() < time {
            self.begin_to_take(peer, 1, false)?;
            let told = Instant::now();
            while told.elapsed() < waiting::SETTLE {
                core::hint::spin_loop();
            }
            self.send(&message)?;
            peer.done()?;
            awaited.push(self.taken(peer, &message)?);
        }
        let p50 = percentile(&mut awaited, 500);
        let unawaited = Some(percentile(&mut unawaited, 500));
        Ok((Turn::Lat(lat::Turn { p50, singles: awaited, unawaited }), [0.0; 2]))
    }

    fn taken(&mut self, peer: &Peer, message: &[u8]) -> Result<f32> {
        self.begin_to_take(peer, waiting::COUNT, true)?;
        for _ in 0..waiting::COUNT {
            self.send(message)?;
        }
        peer.go_on()?;
        Ok(peer.done()?.ns as f32)
    }

    fn begin_to_take(&self, peer: &Peer, packets: usize, later: bool) -> Result<()> {
        let (load, timing) = (Load::whole(self.size), Timing::Whole);
        peer.begin(self.pair.index, Task::Take { load, packets, later, timing })
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        each!(&mut self.pair.end, link => Ok(link.send(message)?))
    }
}
