//! A way of sending as a system whose parameters are measured: this process requests, the other one replies.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use dp_measure::logp::probe::{Load, System};

use super::peer::{Answer, Job};
use crate::bench::lat::{median, STOP};
use crate::bench::link::Link;
use crate::bench::peer::{each, End};
use crate::bench::Result;
use crate::helper::Helper;

/// Round trips at the begin of a batch that do not count.
const WARM_UP: u32 = 8;

/// Both ends of one way: the own one, and where the other process keeps the other.
pub struct Pair<'a> {
    pub end: &'a mut End,
    pub index: usize,
    pub helper: &'a Helper,
    pub ends: Requester,
}

/// What a requester needs beside a link.
pub struct Requester {
    load: Load,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// What reading the clock takes, ns.
    clock: f64,
}

impl Requester {
    pub fn new() -> Requester {
        let mut costs: Vec<f64> = (0..256)
            .map(|_| {
                let start = Instant::now();
                start.elapsed().as_nanos() as f64
            })
            .collect();
        let load = Load { size: 1, reply: 1, window: 1 };
        Requester { load, request: vec![0; 1], reply: vec![0; 1], clock: median(&mut costs) }
    }

    pub fn load(&mut self, load: Load) {
        self.load = load;
        self.request.clear();
        self.request.resize(load.size, 0);
        self.reply.resize(load.reply, 0);
    }

    fn since(&self, start: Instant) -> f64 {
        (start.elapsed().as_nanos() as f64 - self.clock).max(0.0)
    }

    #[inline(always)]
    fn burst<L: Link>(&mut self, link: &mut L, messages: u32, turns: u32) -> io::Result<f64> {
        let window = self.load.window;
        let start = Instant::now();
        for sent in 0..messages {
            if sent >= window {
                link.recv_all(&mut self.reply)?;
            }
            link.send(&self.request)?;
            compute(turns);
        }
        let took = self.since(start);
        for _ in 0..messages.min(window) {
            link.recv_all(&mut self.reply)?;
        }
        Ok(took)
    }

    #[inline(always)]
    fn round_trips<L: Link>(&mut self, link: &mut L, trips: u32) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..trips {
            link.send(&self.request)?;
            link.recv_all(&mut self.reply)?;
        }
        Ok(self.since(start))
    }

    /// Requests as fast as replies allow, for so many seconds: how many, and the nanoseconds for each.
    pub fn stream<L: Link>(&mut self, link: &mut L, seconds: f64) -> io::Result<(u64, f64)> {
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed().as_secs_f64() < seconds {
            for _ in 0..64 {
                if sent >= u64::from(self.load.window) {
                    link.recv_all(&mut self.reply)?;
                }
                link.send(&self.request)?;
                sent += 1;
            }
        }
        let took = start.elapsed().as_nanos() as f64;
        for _ in 0..sent.min(u64::from(self.load.window)) {
            link.recv_all(&mut self.reply)?;
        }
        self.stop(link)?;
        Ok((sent, took / sent as f64))
    }

    /// Tells the other end that no more requests come.
    pub fn stop<L: Link>(&mut self, link: &mut L) -> io::Result<()> {
        let last = self.request.len() - 1;
        self.request[last] = STOP;
        link.send(&self.request)?;
        self.request[last] = 0;
        Ok(())
    }
}

/// Keeps the processor busy and touches nothing: each turn waits for the one before it.
#[inline(always)]
pub fn compute(turns: u32) {
    let mut x = black_box(1u64);
    for _ in 0..turns {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x);
}

impl System for Pair<'_> {
    type Error = Box<dyn std::error::Error>;

    fn begin(&mut self, load: Load) -> Result<()> {
        self.ends.load(load);
        self.helper.tell(&Job::Reply { end: self.index, size: load.size, reply: load.reply }, &[])?;
        self.helper.answer::<Answer>()?;
        self.round_trips(WARM_UP)?;
        Ok(())
    }

    fn burst(&mut self, messages: u32, turns: u32) -> Result<f64> {
        Ok(each!(self.end, link => self.ends.burst(link, messages, turns))?)
    }

    fn round_trips(&mut self, trips: u32) -> Result<f64> {
        Ok(each!(self.end, link => self.ends.round_trips(link, trips))?)
    }

    fn compute(&mut self, times: u32, turns: u32) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..times {
            compute(turns);
        }
        Ok(self.ends.since(start))
    }

    fn end(&mut self) -> Result<()> {
        each!(self.end, link => self.ends.stop(link))?;
        match self.helper.answer()? {
            Answer::Done => Ok(()),
            _ => Err("an answer out of turn".into()),
        }
    }
}

/// The replying end, until a request says stop.
pub fn reply<L: Link>(link: &mut L, size: usize, reply: usize) -> io::Result<()> {
    let mut request = vec![0; size];
    let reply = vec![0; reply];
    loop {
        link.recv_all(&mut request)?;
        if request[size - 1] == STOP {
            return Ok(());
        }
        link.send(&reply)?;
    }
}
