//! A way of sending as a system whose costs are measured: this process sends first, the other one receives.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use dp_measure::cost::probe::{Load, System};
use dp_measure::stats::{median, undisturbed};
use dpfd::Error;
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::unistd::write;

use crate::pair::buffer::{self, Buffer, Walk};
use crate::pair::clock::{compute, window, Clock, Timing};
use crate::pair::end::{each, End};
use crate::pair::endpoints::SILENCE;
use crate::pair::link::Link;
use crate::pair::peer::{Pair, Peer, Task};
use crate::pair::transport::Transport;
use crate::pair::{Result, STOP};

/// Bytes of packets that are sent while nobody receives, where the way takes so many: half of an edge.
const PORTION: usize = 512 * 1024;
/// The same on a way of the kernel, whose buffers are smaller, and count more for each packet than it has bytes.
pub const KERNEL_PORTION: usize = 32 * 1024;
pub const KERNEL_BESIDE: usize = 256;
/// Packets of one batch that are sent while nobody receives, at most.
const BURST: usize = 512;
/// Bytes that a packet takes beside its own, about.
const BESIDE: usize = 64;
/// Windows of packets whose gaps are measured, with the one in front of them: of short packets, which are many in each, and of
/// long ones.
const WINDOWS: [usize; 2] = [3, 9];
/// The shortest long one.
const LONG: usize = 2048;
/// How long the round trips of a batch should take together, ns.
const TRIPS: f64 = 2e6;
/// Round trips of a batch.
const TRIPS_RANGE: [f64; 2] = [2.0, 200.0];
/// Computations of a batch with packets meanwhile, and as many without.
const COMPUTATIONS: usize = 12;
/// Packets that arrive during one.
const ARRIVALS: usize = 256;
/// How long a computation is, ns, and for each packet that arrives meanwhile: longer than these take.
const COMPUTATION: [f64; 2] = [20_000.0, 400.0];

/// How often it is tried how long packets from another node take to come.
const TRIES: usize = 2;
/// However long they take, a computation is not longer, ns: the other node hears nothing meanwhile, and is not to give up.
const LONGEST_COMPUTATION: f64 = SILENCE as f64 * 1e9 / 2.0;

/// How long what was sent to another node may be on its way, and how often it is looked whether it is there.
const ARRIVED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(1);
/// So often in a row in vain, and all between two nodes is full.
const FULL: u32 = 200;
/// Bytes that a queue is flooded with, at most, and packets.
const FLOOD: [usize; 2] = [1 << 28, 1 << 20];

/// Such a way.
pub struct Measured<'a> {
    pub pair: &'a mut Pair,
    pub peer: &'a Peer,
    pub buffer: &'a mut Buffer,
    pub clock: Clock,
    /// ns of a turn of a computation.
    pub turn: f64,
}

impl Measured<'_> {
    /// Packets that are surely taken in while nobody receives.
    fn portion(&self, packet: usize) -> usize {
        match self.pair.transport {
            Transport::Endpoint | Transport::Kernel | Transport::Route => PORTION / (packet + BESIDE),
            _ => KERNEL_PORTION / (packet + KERNEL_BESIDE),
        }
    }

    /// Has the other process begin.
    pub fn ready(&self, task: Task) -> Result<()> {
        self.peer.begin(self.pair.index, task)
    }

    /// What came of it.
    pub fn ns(&self) -> Result<f64> {
        Ok(self.peer.done()?.ns)
    }

    /// Sends so many packets: ns for each.
    fn sent(&mut self, load: Load, packets: usize, timing: Timing) -> Result<f64> {
        let (mut from, clock) = (self.buffer.walk(load), self.clock);
        each!(&mut self.pair.end, link => {
            Ok(timing.of(clock, load.packet, packets, |n| buffer::send(link, &mut from, n))?)
        })
    }

    /// One way of a message: half a round trip.
    fn trips<L: Link>(link: &mut L, load: Load, buffer: &mut Buffer, clock: Clock) -> io::Result<f64> {
        let (mut message, packets) = (buffer.walk(load), load.packets());
        *message.mark() = 0;
        let mut trip = |link: &mut L| {
            let start = Instant::now();
            buffer::send(link, &mut message, packets)?;
            buffer::take(link, &mut message, packets)?;
            Ok::<f64, io::Error>(clock.since(start))
        };
        let first = trip(link)?.min(trip(link)?);
        let times = (TRIPS / first.max(1.0)).clamp(TRIPS_RANGE[0], TRIPS_RANGE[1]) as usize;
        let mut samples = Vec::with_capacity(times);
        for _ in 0..times {
            samples.push(trip(link)?);
        }
        *message.mark() = STOP;
        buffer::send(link, &mut message, packets)?;
        Ok(undisturbed(&mut samples) / 2.0)
    }

    /// Messages that the other node has taken, if it is on one.
    fn arrived(&self) -> Result<Option<(u64, bool)>> {
        self.pair.end.one().map_or(Ok(None), |end| end.arrived())
    }

    /// Waits until it has so many more: what is on its way is not there for a receiver that begins now.
    fn wait_for(&self, before: Option<(u64, bool)>, packets: usize) -> Result<()> {
        let Some((before, _)) = before else { return Ok(()) };
        let end = Instant::now() + ARRIVED;
        while let Some((now, all)) = self.arrived()? {
            if all && now >= before + packets as u64 {
                break;
            }
            if Instant::now() > end {
                return Err(format!(
                    "{packets} messages were sent, and did not arrive for {} s",
                    ARRIVED.as_secs()
                )
                .into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// How many turns of a computation are longer than so many packets take to come, where they come from another node: by
    /// the faster try, because a packet that is lost makes one long.
    fn turns_for<L: Link>(link: &mut L, into: &mut Walk<'_>, packets: usize, turn: f64) -> io::Result<u32> {
        let mut ns = LONGEST_COMPUTATION;
        for _ in 0..TRIES {
            let start = Instant::now();
            link.send(&[1])?;
            buffer::take(link, into, packets)?;
            ns = ns.min(2.0 * start.elapsed().as_nanos() as f64);
        }
        Ok((ns / turn) as u32)
    }

    /// Computations in turns with and without packets that arrive meanwhile: how much longer, for each packet.
    fn computations<L: Link>(
        link: &mut L,
        into: &mut Walk<'_>,
        packets: usize,
        turns: u32,
        clock: Clock,
    ) -> io::Result<f64> {
        let mut longer = Vec::with_capacity(COMPUTATIONS);
        for _ in 0..COMPUTATIONS {
            let mut once = |flag: u8| {
                link.send(&[flag])?;
                let start = Instant::now();
                compute(turns);
                let ns = clock.since(start);
                buffer::take(link, into, packets * usize::from(flag))?;
                Ok::<f64, io::Error>(ns)
            };
            let without = once(0)?;
            longer.push((once(1)? - without) / packets as f64);
        }
        Ok(median(&longer))
    }
}

impl System for Measured<'_> {
    type Error = Box<dyn std::error::Error>;

    fn overheads(&mut self, load: Load) -> Result<[f64; 2]> {
        let packets = self.portion(load.packet).min(BURST);
        // Longer ones are not taken in while nobody receives, or only one.
        let later = packets > 0 || self.pair.transport.is_endpoint();
        let packets = packets.max(1);
        let before = self.arrived()?;
        self.ready(Task::Take { load, packets, later, timing: Timing::Chunks })?;
        let o_s = self.sent(load, packets, Timing::Chunks)?;
        if later {
            self.wait_for(before, packets)?;
            self.peer.go_on()?;
        }
        Ok([o_s, self.ns()?])
    }

    fn gaps(&mut self, load: Load) -> Result<[f64; 2]> {
        // All of the program's buffers twice, behind what fills the queue: messages that are predicted come from and go to
        // buffers that were used before, so the second time is the one that counts, which is the faster half.
        let (window, windows) = (window(load.packet), WINDOWS[usize::from(load.packet >= LONG)]);
        let timing = if self.pair.transport == Transport::Route { Timing::Full } else { Timing::Steady };
        let fill = timing.fill();
        let packets = ((windows + fill - 1) * window).max(fill * window + 2 * load.packets());
        self.ready(Task::Take { load, packets, later: false, timing })?;
        let g_s = self.sent(load, packets, timing)?;
        Ok([g_s, self.ns()?])
    }

    fn one_way(&mut self, load: Load) -> Result<f64> {
        self.ready(Task::Echo { load })?;
        let clock = self.clock;
        let ns = each!(&mut self.pair.end, link => Self::trips(link, load, self.buffer, clock))?;
        self.ns()?;
        Ok(ns)
    }

    fn slowdown(&mut self, packet: usize) -> Result<f64> {
        let packets = self.portion(packet).clamp(1, ARRIVALS);
        let far = self.pair.transport == Transport::Route;
        self.ready(Task::Feed { packet, packets, times: 2 * COMPUTATIONS + TRIES * usize::from(far) })?;
        let ns = COMPUTATION[0] + packets as f64 * (COMPUTATION[1] + packet as f64);
        let (mut turns, clock, turn) = ((ns / self.turn) as u32, self.clock, self.turn);
        let mut into = self.buffer.walk(Load::whole(packet));
        let slower = each!(&mut self.pair.end, link => {
            if far {
                turns = turns.max(Self::turns_for(link, &mut into, packets, turn)?);
            }
            Self::computations(link, &mut into, packets, turns, clock)
        })?;
        self.ns()?;
        Ok(slower)
    }

    fn room(&mut self, packet: usize) -> Result<f64> {
        let bytes = flood(&self.pair.end, packet)?;
        self.ready(Task::Empty { packet, bytes })?;
        self.ns()?;
        Ok(bytes as f64 / packet as f64)
    }
}

/// Sends packets while nobody receives until no more are taken in: how many bytes were.
fn flood(end: &End, packet: usize) -> Result<usize> {
    let message = vec![0; packet];
    let mut bytes = 0;
    let most = FLOOD[0].min(FLOOD[1] * packet);
    match end {
        // Sockets: what is written to is the same open file.
        End::Fds(fds) => {
            let fd = fds.as_fd();
            let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
            fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
            while bytes < most {
                match write(fd, &message) {
                    Ok(n) => bytes += n,
                    Err(nix::Error::EAGAIN) => break,
                    Err(e) => return Err(e.into()),
                }
            }
            fcntl(fd, FcntlArg::F_SETFL(flags))?;
        }
        end => {
            let endpoint = end.endpoint()?;
            // A gateway makes room as it hands on what it has.
            let patience = if end.one()?.arrived()?.is_some() { FULL } else { 0 };
            let mut in_vain = 0;
            endpoint.set_nonblocking(true)?;
            while bytes < most {
                match endpoint.send(&message) {
                    Ok(()) => (bytes, in_vain) = (bytes + packet, 0),
                    Err(Error::WouldBlock) if in_vain < patience => {
                        in_vain += 1;
                        std::thread::sleep(LOOK);
                    }
                    Err(Error::WouldBlock) => break,
                    Err(e) => return Err(e.into()),
                }
            }
            endpoint.set_nonblocking(false)?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its packets come after so long, at each try a time of its own.
    struct Late(Vec<Duration>);

    impl Link for Late {
        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            self.0.pop().map(std::thread::sleep).ok_or(io::ErrorKind::UnexpectedEof.into())
        }

        fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
            Ok(into.len())
        }
    }

    #[test]
    fn one_try_that_takes_long_makes_no_long_computations() {
        let [long, short] = [500, 1].map(Duration::from_millis);
        for tries in [vec![long, short], vec![short, long]] {
            let (mut link, mut buffer) = (Late(tries), Buffer::default());
            let mut into = buffer.walk(Load::whole(8));
            let turns = Measured::turns_for(&mut link, &mut into, 3, 1000.0).unwrap();
            assert!((2000..900_000).contains(&turns) && link.0.is_empty(), "{turns}");
        }
    }
}
