//! A channel as the packets of a TCP connection: what a network would have shown.
//!
//! Sequence numbers count the bytes of each direction from 1 on, whichever way they went, so a gap is as long as what is
//! missing. A packet acknowledges what its sender had taken by then; where nothing is sent the other way, an empty packet
//! does so by and by.

use std::net::SocketAddr;
use std::time::Duration;

use etherparse::{PacketBuilder, TcpHeader};

/// Bytes, and time, after which what was taken is acknowledged by an empty packet; the kernel's own delay.
const UNACKNOWLEDGED: u64 = 32 << 10;
const DELAY: Duration = Duration::from_millis(40);
/// Of every packet; what it stands for is in the first one of each side.
const WINDOW: u16 = u16::MAX;
const WINDOW_SCALE: u8 = 14;
const HOPS: u8 = 64;

/// One end of a conversation; its number is an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client = 0,
    Server = 1,
}

impl End {
    pub const BOTH: [End; 2] = [End::Client, End::Server];

    pub fn other(self) -> End {
        End::BOTH[1 - self as usize]
    }
}

/// One direction: how far its packets are.
#[derive(Debug, Default, Clone, Copy)]
struct Stream {
    /// Bytes before the next one.
    next: u64,
    /// Bytes that the other end has taken, and that its packets have acknowledged.
    taken: u64,
    acknowledged: u64,
    /// A FIN went, and takes a number of its own.
    ended: bool,
}

/// A packet, and who sends it.
pub struct Packet<'a> {
    pub from: End,
    pub bytes: &'a [u8],
}

/// See the module.
#[derive(Debug)]
pub struct Conversation {
    addresses: [SocketAddr; 2],
    streams: [Stream; 2],
    /// When something was found that is not acknowledged yet, since the capture began.
    waits: Option<Duration>,
    over: bool,
    packet: Vec<u8>,
}

impl Conversation {
    /// Between these two ends, of which `before` bytes were sent before.
    pub fn new(client: SocketAddr, server: SocketAddr, before: [u64; 2]) -> Conversation {
        let streams = before.map(|next| Stream { next, taken: next, acknowledged: next, ended: false });
        Conversation { addresses: [client, server], streams, waits: None, over: false, packet: Vec::new() }
    }

    /// The handshake.
    pub fn begin(&mut self, give: &mut impl FnMut(Packet)) {
        for (from, acknowledges, syn) in
            [(End::Client, false, true), (End::Server, true, true), (End::Client, true, false)]
        {
            let mut header = self.header(from);
            header.sequence_number = u32::from(!syn);
            header.acknowledgment_number = u32::from(acknowledges);
            (header.syn, header.ack) = (syn, acknowledges);
            if syn {
                let scale = [etherparse::TcpOptionElement::WindowScale(WINDOW_SCALE)];
                // One option of three bytes fits.
                let _ = header.set_options(&scale);
            }
            self.give(from, header, &[], give);
        }
    }

    /// Bytes that `from` sent.
    pub fn data(&mut self, from: End, bytes: &[u8], now: Duration, give: &mut impl FnMut(Packet)) {
        let mut header = self.header(from);
        header.psh = true;
        self.acknowledge(from, &mut header);
        self.streams[from as usize].next += bytes.len() as u64;
        self.waits.get_or_insert(now);
        self.give(from, header, bytes, give);
    }

    /// Bytes of `from` that are not there.
    pub fn gap(&mut self, from: End, bytes: u64) {
        self.streams[from as usize].next += bytes;
    }

    /// The other end has taken all that `from` sent.
    pub fn taken(&mut self, from: End) {
        let stream = &mut self.streams[from as usize];
        stream.taken = stream.next;
    }

    /// Acknowledges what nothing that was sent did, if it is time.
    pub fn acknowledge_late(&mut self, now: Duration, give: &mut impl FnMut(Packet)) {
        let Some(since) = self.waits else { return };
        let late = now.saturating_sub(since) >= DELAY;
        for from in End::BOTH {
            let stream = self.streams[from as usize];
            let open = stream.taken - stream.acknowledged;
            if open >= UNACKNOWLEDGED || late && open > 0 {
                self.empty(from.other(), |_| {}, give);
            }
        }
        let settled = |s: &Stream| s.acknowledged == s.next;
        if late && self.streams.iter().all(settled) {
            self.waits = None;
        }
    }

    /// `from` sends nothing more.
    pub fn end(&mut self, from: End, give: &mut impl FnMut(Packet)) {
        if !self.streams[from as usize].ended && !self.over {
            self.empty(from, |header| header.fin = true, give);
            self.streams[from as usize].ended = true;
        }
    }

    /// The connection is over as no program ends it by itself.
    pub fn reset(&mut self, from: End, give: &mut impl FnMut(Packet)) {
        if !self.over {
            self.empty(from, |header| header.rst = true, give);
            self.over = true;
        }
    }

    /// Both ends have sent all: what they acknowledge last.
    pub fn close(&mut self, give: &mut impl FnMut(Packet)) {
        for from in End::BOTH {
            self.end(from, give);
            self.taken(from);
        }
        if !self.over {
            self.empty(End::Client, |_| {}, give);
            self.over = true;
        }
    }

    fn empty(&mut self, from: End, change: impl FnOnce(&mut TcpHeader), give: &mut impl FnMut(Packet)) {
        let mut header = self.header(from);
        self.acknowledge(from, &mut header);
        change(&mut header);
        self.give(from, header, &[], give);
    }

    fn header(&self, from: End) -> TcpHeader {
        let [own, other] = [from, from.other()].map(|end| self.addresses[end as usize].port());
        let stream = &self.streams[from as usize];
        // The number of the SYN is 0, and a FIN is counted like a byte.
        let sequence = stream.next.wrapping_add(1 + u64::from(stream.ended)) as u32;
        TcpHeader::new(own, other, sequence, WINDOW)
    }

    fn acknowledge(&mut self, from: End, header: &mut TcpHeader) {
        let stream = &mut self.streams[from.other() as usize];
        stream.acknowledged = stream.taken;
        let fin = stream.ended && stream.taken == stream.next;
        header.ack = true;
        header.acknowledgment_number = stream.taken.wrapping_add(1 + u64::from(fin)) as u32;
    }

    fn give(&mut self, from: End, header: TcpHeader, payload: &[u8], give: &mut impl FnMut(Packet)) {
        let [own, other] = [from, from.other()].map(|end| self.addresses[end as usize].ip());
        let builder = match (own, other) {
            (std::net::IpAddr::V4(own), std::net::IpAddr::V4(other)) => {
                PacketBuilder::ipv4(own.octets(), other.octets(), HOPS)
            }
            (own, other) => {
                let [own, other] = [own, other].map(|ip| match ip {
                    std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    std::net::IpAddr::V6(ip) => ip.octets(),
                });
                PacketBuilder::ipv6(own, other, HOPS)
            }
        };
        self.packet.clear();
        // Into memory, and no token is longer than an IP packet: it cannot fail.
        if builder.tcp_header(header).write(&mut self.packet, payload).is_ok() {
            give(Packet { from, bytes: &self.packet });
        }
    }
}

#[cfg(test)]
mod tests;
