//! The file beside a packet that says who sent it, and what a program that reads plainly must not see.

use std::os::fd::{AsFd, OwnedFd};

use crate::addr::Addr;
use crate::edge::beside::Beside;
use crate::error::{Error, Result};
use dp_edge::ring::ROUTED;
use dp_edge::segment::{sealed_len, sealed_memory};

/// What a tag says: what does not fit into a packet that programs may read plainly.
///
/// ```text
///   0      4      6      8
///  +------+------+------+- - - - - - - - - - -
///  |"DPtg"| nid  | dpid | what came beside it      as `edge/beside.rs` has it; nothing, where nothing did
///  +------+------+------+- - - - - - - - - - -
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The sender.
    pub from: Addr,
    /// What came beside the message.
    pub beside: Beside,
}

/// Bytes of a tag before that.
const TAG: usize = 8;

impl Tag {
    /// The file that says so.
    ///
    /// # Errors
    ///
    /// EMFILE and others of memfd_create(2).
    pub fn make(self) -> Result<OwnedFd> {
        use std::os::unix::fs::FileExt;
        let (beside, len) = self.beside.encode();
        let len = TAG + len;
        let fd = sealed_memory(c"dp-tag", len).map_err(Error::io("memfd_create"))?;
        let file = std::fs::File::from(fd);
        let mut text = [0; TAG + ROUTED];
        text[..4].copy_from_slice(b"DPtg");
        text[4..6].copy_from_slice(&self.from.nid.to_ne_bytes());
        text[6..8].copy_from_slice(&self.from.dpid.to_ne_bytes());
        text[TAG..].copy_from_slice(&beside);
        file.write_all_at(&text[..len], 0).map_err(Error::io("write"))?;
        Ok(file.into())
    }

    /// What a descriptor that came with a message says.
    pub fn read(fd: OwnedFd) -> Option<Tag> {
        use std::os::unix::fs::FileExt;
        let mut text = [0; TAG + ROUTED];
        // Only a memfd is read: anything else could block.
        let len = sealed_len(fd.as_fd()).ok().filter(|len| (TAG..=text.len()).contains(len))?;
        std::fs::File::from(fd).read_exact_at(&mut text[..len], 0).ok()?;
        let word = |at: usize| u16::from_ne_bytes([text[at], text[at + 1]]);
        let beside = Beside::decode(&text[TAG..len])?;
        (&text[..4] == b"DPtg").then(|| Tag { from: Addr { nid: word(4), dpid: word(6) }, beside })
    }
}
