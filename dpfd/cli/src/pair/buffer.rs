//! The program's memory: packets out of one buffer, into another.

use std::io;

use dp_measure::cost::probe::Load;

use super::link::Link;

/// The memory that packets come from and go to: the same all the time, and touched before it counts.
#[derive(Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// A walk through as many packets as the load says.
    pub fn walk(&mut self, load: Load) -> Walk<'_> {
        let bytes = load.packets() * load.packet;
        if self.0.len() < bytes {
            // Not 0: of zeroed memory that nobody wrote, all pages are the same one.
            self.0.resize(bytes, 1);
        }
        Walk { bytes: &mut self.0[..bytes], packet: load.packet, at: 0 }
    }
}

/// A part of it, packet by packet, round and round.
pub struct Walk<'a> {
    bytes: &'a mut [u8],
    packet: usize,
    at: usize,
}

impl Walk<'_> {
    #[inline(always)]
    pub fn next(&mut self) -> &mut [u8] {
        let from = self.at;
        self.at += self.packet;
        if self.at == self.bytes.len() {
            self.at = 0;
        }
        &mut self.bytes[from..from + self.packet]
    }

    /// The last byte of the last packet.
    pub fn mark(&mut self) -> &mut u8 {
        let last = self.bytes.len() - 1;
        &mut self.bytes[last]
    }
}

/// Sends so many packets.
#[inline(always)]
pub fn send<L: Link>(link: &mut L, from: &mut Walk<'_>, packets: usize) -> io::Result<()> {
    for _ in 0..packets {
        link.send(from.next())?;
    }
    Ok(())
}

/// Receives so many.
#[inline(always)]
pub fn take<L: Link>(link: &mut L, into: &mut Walk<'_>, packets: usize) -> io::Result<()> {
    for _ in 0..packets {
        link.recv_all(into.next())?;
    }
    Ok(())
}
