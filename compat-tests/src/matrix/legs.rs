//! Which connections of a way became channels, leg by leg, and how many of its bytes went through rings.
//!
//! A chain is a way's servers, first the one that the client talks to, last the one that answers. Each of them counts
//! what became channels and what it moved through rings, on both of its sides; what the next one counted belongs to the
//! leg between the two. So the legs are told apart by totals of processes that live on, and no connection has to be caught
//! while it is open. A server's workers may be families of their own: all of the processes below it count.
//!
//! A leg is a channel when its connections are. How many of the bytes go through rings is told beside it and not judged:
//! a sender that is faster than its receiver goes back to TCP's buffers for a while (ARCHITECTURE.md).

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;

use super::run::{children, Run};
use crate::measure::process::Process;
use crate::measure::Error;

/// So many of a leg's connections must be channels: one can have been too short, such as a probe of curl's own.
const ENOUGH: f64 = 0.9;

/// One leg.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leg {
    /// `curl to nginx`
    pub name: String,
    /// Connections that became channels.
    pub channels: u64,
    /// Connections that there were, as far as the row knows: at least so many.
    pub connections: u64,
    /// Bytes that went through rings, both directions together.
    pub carried: u64,
    /// Bytes of content that were moved in all; 0: nobody counted any.
    pub content: u64,
    /// Connections of the server at its end that stayed on TCP, by reason.
    pub on_tcp: String,
    /// Why it stays on TCP, if it has to.
    pub reason: Option<&'static str>,
}

impl Leg {
    /// Of a program that has no shim, or none that works.
    pub fn without(name: &str, reason: &'static str) -> Leg {
        let (name, on_tcp) = (name.to_string(), String::new());
        Leg { name, channels: 0, connections: 1, carried: 0, content: 1, on_tcp, reason: Some(reason) }
    }

    /// The same leg, which need not be a channel, for this reason.
    pub fn excused(self, reason: &'static str) -> Leg {
        Leg { reason: Some(reason), ..self }
    }

    /// The part of its connections that became channels.
    pub fn part(&self) -> f64 {
        (self.channels as f64 / self.connections.max(1) as f64).min(1.0)
    }

    /// The part of its content that went through rings.
    pub fn carried(&self) -> f64 {
        (self.carried as f64 / self.content.max(1) as f64).min(1.0)
    }

    /// Connections that were closed before they could become channels.
    fn too_short(&self) -> u64 {
        let closed = |reason: &str| reason.strip_suffix(" closed").and_then(|n| n.parse().ok());
        self.on_tcp.split(", ").find_map(closed).unwrap_or(0)
    }

    /// Whether it was one. Connections that were too short count for nothing, unless most were.
    pub fn is_channel(&self) -> bool {
        let long = self.connections.saturating_sub(self.too_short());
        self.channels * 2 >= self.connections && self.channels as f64 >= long as f64 * ENOUGH
    }

    /// The leg's fault in a figure, if it has one: some of the load must have gone through rings as well.
    pub fn fault_of_a_load(&self) -> Option<String> {
        let idle = self.is_channel() && self.carried == 0 && self.reason.is_none();
        idle.then(|| format!("{}: nothing of the load went through the channels", self.name))
            .or_else(|| self.fault())
    }

    /// The leg's fault in a check, if it has one.
    pub fn fault(&self) -> Option<String> {
        let Leg { name, channels, connections, carried, content, on_tcp, .. } = self;
        (!self.is_channel() && self.reason.is_none()).then(|| {
            format!(
                "{name}: {channels} of {connections} connections became channels, and {carried} of {content} bytes went \
                 through them; left on TCP: {on_tcp}"
            )
        })
    }
}

/// Counts from its making on.
pub struct Meter<'a> {
    run: &'a Run<'a>,
    chain: Vec<(String, u32)>,
    earlier: Vec<Totals>,
}

/// Of a server with its workers.
#[derive(Clone, Debug, Default)]
struct Totals {
    channels: u64,
    bytes: u64,
    on_tcp: BTreeMap<String, u64>,
}

impl<'a> Meter<'a> {
    /// Of these servers: the name of the leg that ends at each, and its process.
    ///
    /// # Errors
    /// The counters cannot be had.
    pub fn start(run: &'a Run<'a>, chain: &[(&str, &Process)]) -> Result<Meter<'a>, Error> {
        let chain: Vec<_> = chain.iter().map(|(name, server)| (name.to_string(), server.pid())).collect();
        let mut meter = Meter { run, chain, earlier: Vec::new() };
        meter.earlier = meter.totals()?;
        Ok(meter)
    }

    /// The legs, when so many bytes of content have passed through each of them, over so many connections. The servers'
    /// workers must be the same that they were at the start.
    ///
    /// # Errors
    /// The counters cannot be had.
    pub fn legs(self, content: u64, connections: u64) -> Result<Vec<Leg>, Error> {
        let same = vec![(content, connections); self.chain.len()];
        self.legs_of(&same)
    }

    /// The same where the legs do not carry the same: content and connections of each.
    ///
    /// # Errors
    /// The counters cannot be had.
    pub fn legs_of(self, expected: &[(u64, u64)]) -> Result<Vec<Leg>, Error> {
        let totals = self.totals()?;
        let since = |at: usize, what: fn(&Totals) -> u64| match (totals.get(at), self.earlier.get(at)) {
            (Some(now), Some(earlier)) => what(now).saturating_sub(what(earlier)),
            _ => 0,
        };
        let own = |at: usize, what: fn(&Totals) -> u64| since(at, what).saturating_sub(since(at + 1, what));
        let leg = |(at, (content, connections)): (usize, &(u64, u64))| Leg {
            name: self.chain[at].0.clone(),
            channels: own(at, |totals| totals.channels),
            connections: *connections,
            carried: own(at, |totals| totals.bytes),
            content: *content,
            on_tcp: left(&totals[at].on_tcp),
            reason: None,
        };
        Ok(expected.iter().enumerate().map(leg).collect())
    }

    fn totals(&self) -> Result<Vec<Totals>, Error> {
        if !self.run.is_shimmed() {
            return Ok(vec![Totals::default(); self.chain.len()]);
        }
        let families = self.run.families()?;
        let of = |pid: u32| {
            let below = below(pid);
            let mut totals = Totals::default();
            for family in families.iter().filter(|family| family.has(&below)) {
                totals.channels += family.channels;
                totals.bytes += family.tx_bytes + family.rx_bytes;
                for (reason, count) in &family.on_tcp {
                    *totals.on_tcp.entry(reason.clone()).or_default() += count;
                }
            }
            totals
        };
        Ok(self.chain.iter().map(|(_, pid)| of(*pid)).collect())
    }
}

/// `2 no-offer, 1 silent`, or `none`.
pub(super) fn left<K: Display>(on_tcp: &BTreeMap<K, u64>) -> String {
    let counts: Vec<String> = on_tcp.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if counts.is_empty() {
        "none".into()
    } else {
        counts.join(", ")
    }
}

/// A process and all below it.
fn below(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all
}
