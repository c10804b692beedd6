//! What is measured, at which sizes: one survey of one way of sending.

use serde::{Deserialize, Serialize};

use super::fit::Border;
use crate::stats::Estimate;
use crate::turns::order;

/// Packets, and the program's buffers that they come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of each of the two buffers, which are walked through packet by packet: what does not fit into a cache is not
    /// there the next time.
    pub spread: usize,
}

impl Load {
    /// A message that is one packet.
    pub fn whole(size: usize) -> Load {
        Load { packet: size, spread: size }
    }

    /// Packets that the buffer holds: k of a message of that length.
    pub fn packets(self) -> usize {
        (self.spread / self.packet).max(1)
    }
}

/// What can be measured: a way of sending between two processors, or the simulation of one. All results are nanoseconds for
/// a packet, but for messages and for room.
pub trait System {
    /// What can go wrong; a survey passes it on.
    type Error;

    /// O_s and U_r: packets are sent while nobody receives, then taken while nobody sends.
    fn overheads(&mut self, load: Load) -> Result<[f64; 2], Self::Error>;

    /// g_s and g_r: from one packet to the next, seen by the sender and by the receiver, when packets are sent and taken as
    /// fast as possible and have been for a while.
    fn gaps(&mut self, load: Load) -> Result<[f64; 2], Self::Error>;

    /// T: from the begin of sending a message of [`Load::packets`] to the end of taking it. Half a round trip.
    fn one_way(&mut self, load: Load) -> Result<f64, Self::Error>;

    /// O_r: how much longer a computation of the receiver takes for each packet that arrives meanwhile.
    fn slowdown(&mut self, packet: usize) -> Result<f64, Self::Error>;

    /// Packets that are taken in while nobody receives, until no more are.
    fn room(&mut self, packet: usize) -> Result<f64, Self::Error>;
}

/// Which points there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Lengths of packets that are fitted, ascending.
    pub sizes: Vec<usize>,
    /// Lengths of packets for O_r, ascending.
    pub slow: Vec<usize>,
    /// Lengths of packets for B_L, ascending.
    pub room: Vec<usize>,
    /// b: the length of packets that longer messages are cut into.
    pub packet: usize,
    /// Lengths of buffers for packets of b bytes, ascending.
    pub spreads: Vec<usize>,
    /// Lengths of messages that are predicted, as one packet, and as packets of b bytes where they are a multiple of it.
    pub messages: Vec<usize>,
}

/// The longest packets whose gaps are measured, bytes: what is longer is one message.
const LONGEST_PACKET: usize = 1 << 20;
/// Lengths that are measured in a piece of which something is predicted: a line goes through any two, and how far a third is
/// from it says how good it is.
const ENOUGH: usize = 3;
/// The begin of a piece of long packets.
const LONG: usize = 64 << 10;
/// How near to the ends of a piece lengths are put, in parts of the room there.
const NEAR: usize = 16;

impl Plan {
    /// Fits from 3 bytes to 7/8 of `longest`, predictions for powers of two up to `longest`, which is one itself, as is
    /// `packet`. `quick`: every other of each.
    pub fn new(packet: usize, longest: usize, quick: bool) -> Plan {
        let powers = |from: usize| (from.trailing_zeros()..=longest.trailing_zeros()).map(|n| 1usize << n);
        let mut sizes = vec![3, 7, 14, 28, 56];
        sizes.extend(powers(32).map(|power| 3 * power).filter(|&m| m < LONGEST_PACKET));
        // Less even than shorter ones: memory of the kernel's takes part.
        sizes.extend(powers(LONGEST_PACKET / 4).flat_map(|power| [5 * power, 7 * power]));
        sizes.retain(|&m| m < longest);
        let mut spreads = vec![packet];
        spreads.extend(powers(packet).map(|s| 3 * s).filter(|&s| s < 2 * longest).step_by(2));
        let mut messages: Vec<usize> = powers(1).collect();
        let mut slow = vec![8, 64, 256, 1024, 4096, 16_384];
        let mut room = vec![64, 256, 1024, 4096, 16_384, 65_536];
        if quick {
            for list in [&mut sizes, &mut spreads, &mut messages, &mut slow, &mut room] {
                let all = std::mem::take(list);
                *list = all.into_iter().step_by(2).collect();
            }
        }
        // The longest message lies between two lengths of buffers, not behind the last one.
        if spreads.last().is_some_and(|&last| last < longest) {
            // Just behind it: between memories the gap jumps, and does not grow evenly.
            spreads.push(longest + (longest / NEAR).max(packet));
        }
        Plan { sizes, slow, room, packet, spreads, messages }
    }

    /// With further sizes, so that each piece in which a message lies has enough of them, and for gaps that of packets of
    /// b bytes, too. `most`: the longest packet there can be, bytes. A piece that has no room for them stays without.
    pub fn covering(mut self, borders: &[Border], most: usize) -> Plan {
        for (lengths, most) in [(self.messages.clone(), most), (vec![self.packet], LONGEST_PACKET.min(most))]
        {
            let mut from = 1;
            for border in borders {
                let inside = |&&m: &&usize| (from..=border.upto).contains(&m);
                if let Some(&longest) = lengths.iter().filter(inside).max() {
                    self.cover(from, border.upto.min(most).min(2 * longest));
                }
                from = border.upto.saturating_add(1);
            }
        }
        self
    }

    /// Puts sizes where those in `low..=high` leave the most room: at the ends, because the message may lie there, and
    /// between.
    fn cover(&mut self, low: usize, high: usize) {
        loop {
            let inside: Vec<usize> =
                self.sizes.iter().copied().filter(|m| (low..=high).contains(m)).collect();
            if inside.len() >= ENOUGH {
                return self.cover_begin(low, inside[0]);
            }
            let below = inside.first().unwrap_or(&high) - low;
            let above = high - inside.last().unwrap_or(&low);
            let mut places = vec![(low + below / NEAR, below), (high - above / NEAR, above)];
            places.extend(inside.windows(2).map(|pair| ((pair[0] + pair[1]) / 2, pair[1] - pair[0])));
            // Powers of two are predicted.
            let places = places.into_iter().map(|(m, room)| (m + usize::from(m.is_power_of_two()), room));
            let new = |(m, _): &(usize, usize)| (low..=high).contains(m) && !inside.contains(m);
            let Some((size, _)) = places.filter(new).max_by_key(|&(_, room)| room) else { return };
            self.sizes.push(size);
            self.sizes.sort_unstable();
        }
    }

    /// One more size near the begin of a piece of long packets, if the first is far from it: a line that is continued from
    /// twice the length on goes below 0 where few rounds were measured.
    fn cover_begin(&mut self, low: usize, first: usize) {
        let size = low + low / NEAR;
        if low >= LONG && first > low + low / 4 && !size.is_power_of_two() {
            self.sizes.push(size);
            self.sizes.sort_unstable();
        }
    }

    /// Messages of k > 1 packets.
    pub fn cut(&self) -> impl Iterator<Item = Load> + '_ {
        let fits = |&&m: &&usize| m > self.packet && m % self.packet == 0;
        self.messages.iter().filter(fits).map(|&spread| Load { packet: self.packet, spread })
    }
}

/// What one point is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// O_s and U_r.
    Overheads,
    /// g_s and g_r.
    Gaps,
    /// T of a size that is fitted.
    Trip,
    /// T of a message that is predicted.
    Message,
    /// O_r.
    Slowdown,
    /// What B_L follows from.
    Room,
}

/// One point: one or two results of each batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What it is.
    pub what: What,
    /// With which packets.
    pub load: Load,
    batches: [Vec<f64>; 2],
}

impl Point {
    fn batch<S: System>(&mut self, system: &mut S) -> Result<(), S::Error> {
        let load = self.load;
        let results = match self.what {
            What::Overheads => system.overheads(load)?,
            What::Gaps => system.gaps(load)?,
            What::Trip | What::Message => [system.one_way(load)?; 2],
            What::Slowdown => [system.slowdown(load.packet)?; 2],
            What::Room => [system.room(load.packet)?; 2],
        };
        for (batches, result) in self.batches.iter_mut().zip(results) {
            batches.push(result);
        }
        Ok(())
    }

    /// Both results, and how sure; where there is only one, twice the same.
    pub fn costs(&self) -> [Estimate; 2] {
        [self.estimate(0), self.estimate(1)]
    }

    /// The first of them.
    pub fn cost(&self) -> Estimate {
        self.estimate(0)
    }

    fn estimate(&self, which: usize) -> Estimate {
        match self.what {
            // Differences, which are disturbed either way.
            What::Slowdown | What::Room => Estimate::of(&self.batches[which]),
            _ => Estimate::of(&faster_half(&self.batches[which])),
        }
    }
}

/// Of batches that others on the machine can only make longer, the faster half, but three at least.
fn faster_half(batches: &[f64]) -> Vec<f64> {
    let mut sorted = batches.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.truncate(batches.len().div_ceil(2).max(3));
    sorted
}

/// Everything that is measured of one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    plan: Plan,
    points: Vec<Point>,
    rounds: u32,
}

impl Survey {
    /// Of nothing yet. Points lie in the order of their buffers' lengths: what a prediction stands on is measured next to what it is
    /// compared with.
    pub fn new(plan: Plan) -> Survey {
        let mut points = Vec::new();
        let mut add = |what, load| points.push(Point { what, load, batches: [Vec::new(), Vec::new()] });
        for &size in &plan.sizes {
            add(What::Overheads, Load::whole(size));
            if size <= LONGEST_PACKET {
                add(What::Gaps, Load::whole(size));
            }
            add(What::Trip, Load::whole(size));
        }
        plan.messages.iter().for_each(|&m| add(What::Message, Load::whole(m)));
        plan.cut().for_each(|load| add(What::Message, load));
        for &spread in &plan.spreads {
            add(What::Gaps, Load { packet: plan.packet, spread });
        }
        plan.slow.iter().for_each(|&m| add(What::Slowdown, Load::whole(m)));
        plan.room.iter().for_each(|&m| add(What::Room, Load::whole(m)));
        points.sort_by_key(|p| (p.load.spread, p.load.packet));
        Survey { plan, points, rounds: 0 }
    }

    /// What it covers.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Rounds so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// One batch more of each point, upwards and downwards in turns. `enough` is asked before each, told how many are
    /// done, and ends a round that is not the first.
    pub fn round<S: System>(
        &mut self,
        system: &mut S,
        mut enough: impl FnMut(usize) -> bool,
    ) -> Result<(), S::Error> {
        let n = self.points.len();
        for (done, at) in order(n, self.rounds as usize).enumerate() {
            if enough(done) && self.rounds > 0 {
                return Ok(());
            }
            self.points[at].batch(system)?;
        }
        self.rounds += 1;
        Ok(())
    }

    /// One round by itself, counted from 0.
    pub fn only(&self, round: u32) -> Survey {
        let only = |point: &Point| Point {
            batches: point.batches.each_ref().map(|batches| vec![batches[round as usize]]),
            ..*point
        };
        Survey { plan: self.plan.clone(), points: self.points.iter().map(only).collect(), rounds: 1 }
    }

    /// One point.
    pub fn point(&self, what: What, load: Load) -> Option<&Point> {
        self.points.iter().find(|p| p.what == what && p.load == load)
    }

    /// All points of one kind, by length of packet.
    pub fn of(&self, what: What) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |p| p.what == what)
    }
}
