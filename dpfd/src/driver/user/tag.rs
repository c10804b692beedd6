//! The file beside a packet that says who sent it, and what a program that reads plainly must not see.

use std::os::fd::{AsFd, OwnedFd};

use crate::addr::Addr;
use crate::error::{Error, Result};
use dp_edge::segment::{sealed_len, sealed_memory};

/// What a tag says: what does not fit into a packet that programs may read plainly.
///
/// ```text
///   0      4      6      8           16
///  +------+------+------+- - - - - - +
///  |"DPtg"| nid  | dpid | immediate  |      a file without one ends before it
///  +------+------+------+- - - - - - +
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The sender.
    pub from: Addr,
    /// What came beside the message.
    pub immediate: Option<u64>,
}

/// Bytes of a tag, without an immediate and with one.
const TAG: [usize; 2] = [8, 16];

impl Tag {
    /// The file that says so.
    ///
    /// # Errors
    ///
    /// EMFILE and others of memfd_create(2).
    pub fn make(self) -> Result<OwnedFd> {
        use std::os::unix::fs::FileExt;
        let len = TAG[usize::from(self.immediate.is_some())];
        let fd = sealed_memory(c"dp-tag", len).map_err(Error::io("memfd_create"))?;
        let file = std::fs::File::from(fd);
        let mut text = [0; TAG[1]];
        text[..4].copy_from_slice(b"DPtg");
        text[4..6].copy_from_slice(&self.from.nid.to_ne_bytes());
        text[6..8].copy_from_slice(&self.from.dpid.to_ne_bytes());
        text[8..].copy_from_slice(&self.immediate.unwrap_or(0).to_ne_bytes());
        file.write_all_at(&text[..len], 0).map_err(Error::io("write"))?;
        Ok(file.into())
    }

    /// What a descriptor that came with a message says.
    pub fn read(fd: OwnedFd) -> Option<Tag> {
        use std::os::unix::fs::FileExt;
        let mut text = [0; TAG[1]];
        // Only a memfd is read: anything else could block.
        let len = sealed_len(fd.as_fd()).ok().filter(|len| TAG.contains(len))?;
        std::fs::File::from(fd).read_exact_at(&mut text[..len], 0).ok()?;
        let word = |at: usize| u16::from_ne_bytes([text[at], text[at + 1]]);
        let mut double = [0; 8];
        double.copy_from_slice(&text[TAG[0]..]);
        let immediate = (len == TAG[1]).then_some(u64::from_ne_bytes(double));
        (&text[..4] == b"DPtg").then(|| Tag { from: Addr { nid: word(4), dpid: word(6) }, immediate })
    }
}
