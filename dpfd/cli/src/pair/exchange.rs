//! As many packets in both directions at once, by one thread of each process or by two.

use std::io;
use std::time::Instant;

use dp_measure::cost::bandwidth::ACK;

use super::buffer::{self, Walk};
use super::cores;
use super::endpoints::{patiently, OneEnd, USUAL_SPIN};
use super::link::Link;
use super::Result;
use crate::signals::Also;

/// Meets the other process, then sends and receives so many packets, by turns; ns behind the meeting.
pub fn by_turns<L: Link>(link: &mut L, mut walk: Walk<'_>, packets: usize, ahead: usize) -> io::Result<f64> {
    link.send(&[0; ACK])?;
    link.recv_all(&mut [0; ACK])?;
    let start = Instant::now();
    let ahead = ahead.min(packets);
    buffer::send(link, &mut walk, ahead)?;
    for _ in ahead..packets {
        buffer::take(link, &mut walk, 1)?;
        buffer::send(link, &mut walk, 1)?;
    }
    buffer::take(link, &mut walk, ahead)?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// The same with a thread that sends and one that receives, on `core` if there is one for it.
pub fn threads(end: &OneEnd, packet: usize, packets: usize, core: Option<usize>) -> Result<f64> {
    let endpoint = &end.endpoint;
    patiently(|| endpoint.send(&[0; ACK]))?;
    end.take(&mut [0; ACK])?;
    if core.is_none() {
        // It may share its core with the sender.
        endpoint.set_spin(USUAL_SPIN);
    }
    let start = Instant::now();
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let _ticks = Also::this_thread();
            if let Some(core) = core {
                cores::stay(core)?;
            }
            let mut into = vec![1; packet];
            for _ in 0..packets {
                end.take(&mut into)?;
            }
            Ok::<(), io::Error>(())
        });
        let from = vec![1; packet];
        let sent = (0..packets).try_for_each(|_| patiently(|| endpoint.send(&from)));
        receiver.join().map_err(|_| "the receiving thread panicked")??;
        Ok::<(), Box<dyn std::error::Error>>(sent?)
    });
    let ns = start.elapsed().as_nanos() as f64;
    endpoint.set_spin(end.spin());
    received.map(|()| ns)
}
