//! The capture file: pcapng, for Wireshark and whatever else reads it.
//!
//! Packets are IP without a link layer below (LINKTYPE_RAW). An interface stands for a pair of programs; what was missed is
//! told in its statistics, at the end, and in a comment on the packet behind each gap.

use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::{DataLink, Endianness, PcapError};

use super::conversation::{End, Packet};
use crate::signals;

/// The format has 16 bits for the length of a comment, in bytes.
const LONGEST: usize = u16::MAX as usize;

/// What there is to say of one pair of programs.
#[derive(Debug, Default, Clone)]
pub struct Interface {
    name: String,
    pub packets: u64,
    pub bytes: u64,
    /// Gaps, and the bytes in them.
    pub gaps: u64,
    pub missed: u64,
    /// Bytes that went over TCP.
    pub on_tcp: u64,
}

/// See the module.
pub struct File {
    out: PcapNgWriter<BufWriter<Interruptible>>,
    snaplen: usize,
    pub interfaces: Vec<Interface>,
}

/// A writer that a signal ends, also where nobody reads a pipe.
struct Interruptible(Box<dyn Write>);

impl Write for Interruptible {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            // BufWriter would try again.
            Err(error) if error.kind() == ErrorKind::Interrupted && signals::caught().is_some() => {
                Err(io::Error::new(ErrorKind::TimedOut, "interrupted before all was written"))
            }
            done => done,
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A time as the format has it, which the library writes as one number of this machine's order.
fn upper_half_first(time: u64) -> u64 {
    if cfg!(target_endian = "little") {
        time.rotate_left(32)
    } else {
        time
    }
}

/// As much of a comment as can be written.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
    }
    text
}

fn plain(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl File {
    /// # Errors
    ///
    /// Those of write(2).
    pub fn new(out: Box<dyn Write>, snaplen: usize) -> io::Result<File> {
        let head = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![
                SectionHeaderOption::OS("Linux".into()),
                SectionHeaderOption::UserApplication(
                    concat!("dp capture ", env!("CARGO_PKG_VERSION")).into(),
                ),
            ],
            ..SectionHeaderBlock::default()
        };
        let out = BufWriter::with_capacity(256 << 10, Interruptible(out));
        let out = PcapNgWriter::with_section_header(out, head).map_err(plain)?;
        Ok(File { out, snaplen, interfaces: Vec::new() })
    }

    /// The interface of two programs.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn interface(&mut self, client: &str, server: &str) -> io::Result<usize> {
        let name = format!("{client} > {server}");
        if let Some(i) = self.interfaces.iter().position(|interface| interface.name == name) {
            return Ok(i);
        }
        let described = format!("Directed Point: channels of {client} to {server}");
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: self.snaplen as u32,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(name.clone())),
                InterfaceDescriptionOption::IfDescription(Cow::Owned(described)),
                // Nanoseconds.
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        };
        self.out.write_pcapng_block(block).map_err(plain)?;
        self.interfaces.push(Interface { name, ..Interface::default() });
        Ok(self.interfaces.len() - 1)
    }

    /// One packet, seen at `time` since 1970.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn packet(
        &mut self,
        interface: usize,
        packet: &Packet,
        time: Duration,
        comment: Option<String>,
    ) -> io::Result<()> {
        // Towards the server, or from it.
        let mut options = vec![EnhancedPacketOption::Flags(if packet.from == End::Client { 1 } else { 2 })];
        options.extend(comment.map(|text| EnhancedPacketOption::Comment(Cow::Owned(cut(text)))));
        let block = EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: time,
            original_len: packet.bytes.len() as u32,
            data: Cow::Borrowed(&packet.bytes[..packet.bytes.len().min(self.snaplen)]),
            options,
        };
        self.out.write_pcapng_block(block).map_err(plain)?;
        self.interfaces[interface].packets += 1;
        Ok(())
    }

    /// What was written so far is there for whoever reads.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.get_mut().flush()
    }

    /// The statistics, at the end.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn finish(mut self, time: Duration) -> io::Result<Vec<Interface>> {
        for (i, interface) in self.interfaces.iter().enumerate() {
            let block = InterfaceStatisticsBlock {
                interface_id: i as u32,
                timestamp: upper_half_first(time.as_nanos() as u64),
                options: vec![
                    InterfaceStatisticsOption::Comment(Cow::Owned(format!(
                        "{} bytes missed in {} gaps, {} bytes over TCP",
                        interface.missed, interface.gaps, interface.on_tcp
                    ))),
                    InterfaceStatisticsOption::IsbIfRecv(interface.packets),
                    InterfaceStatisticsOption::IsbIfDrop(interface.gaps),
                ],
            };
            self.out.write_pcapng_block(block).map_err(plain)?;
        }
        self.flush()?;
        Ok(self.interfaces)
    }
}

#[cfg(test)]
mod tests;
