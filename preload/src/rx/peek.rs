//! What there is to read, without taking any of it: FIONREAD.

use core::sync::atomic::Ordering;

use dpfd::edge::stream;
use dpfd::edge::switch::{in_ring, View};
use dpfd::family::Conn;
use dpfd::sys::raw;

use crate::channel;

/// FIONREAD: bytes for the program, in the ring and before the switch, never bells.
pub fn readable_bytes(fd: i32, c: &Conn) -> Result<usize, i32> {
    let rx = channel::receiving(c);
    let r = c.rx_epoch.load(Ordering::Acquire);
    let at = c.rx_kernel.load(Ordering::Relaxed);
    let ring = || stream::bytes_waiting(&rx.ring, &rx.rx.cursor, 4096);
    let there = || raw::queued(fd).map(|n| n as u64);
    let after = |q: u64, there: u64| there.saturating_sub(q.saturating_sub(at));
    Ok(match rx.tx.view(r) {
        Ok(View::Same) if in_ring(r) => ring(),
        Ok(View::TcpAt { q, .. }) => ring() + after(q, there()?) as usize,
        Ok(View::RingAt(p)) => {
            let there = there()?;
            let bells = c.rx_data.load(Ordering::Relaxed).saturating_sub(at);
            let before = there.min(p.saturating_sub(at)).saturating_sub(bells);
            before as usize + ring() + rx.tx.beyond(r).map_or(0, |q| after(q, there)) as usize
        }
        _ => after(c.rx_data.load(Ordering::Relaxed), there()?) as usize,
    })
}
