//! What comes by an endpoint's descriptor in pool mode: bells, and messages of senders that have no edge, or whose message no
//! edge can hold.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::endpoint::{Rx, UserEndpoint};
use super::note::OutOfLinePacket;
use super::tag::Tag;
use crate::addr::Addr;
use crate::edge::beside::Beside;
use crate::edge::wake::Event;
use crate::error::{Error, Result};
use crate::pool::out_of_line::{Memory, Own};
use dp_edge::sys::unix;

/// Messages taken from the descriptor at a time, while senders with an edge wait, and bytes of them.
const TURN: (usize, usize) = (32, 256 * 1024);
/// Packets that are more than any descriptor holds at once.
const ALL: usize = 4096;

/// How much to take from the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    /// What is there, up to the first bell: where one sender rings, and no bell is late, there is no second.
    Bell,
    /// A few messages: what is not taken waits in the kernel, and its senders with it.
    Some,
    /// What is there now.
    All,
}

impl UserEndpoint {
    /// Takes from the descriptor: bells, and messages of senders without an edge.
    pub(super) fn drain(&self, rx: &mut Rx, fd: i32, how: Drain) -> Result<()> {
        let mut heard = false;
        let drained = self.take_packets(rx, fd, how, &mut heard);
        // A bell, or what stood for one where there was no room for it, may be for the number that the word has now, and for
        // a message that was taken before: its sender would not ring again for that number, so there must be another before
        // the receiver sleeps.
        rx.wake = rx.wake.step(Event::Drained { heard });
        drained
    }

    fn take_packets(&self, rx: &mut Rx, fd: i32, how: Drain, heard: &mut bool) -> Result<()> {
        let (mut buf, mut messages, mut bytes) = (Vec::new(), 0, 0);
        let mut belled = false;
        for _ in 0..ALL {
            if how != Drain::All && (messages >= TURN.0 || bytes >= TURN.1) {
                return Ok(());
            }
            let got = match unix::take(fd, &mut buf) {
                Ok(got) => got,
                Err(libc::EAGAIN) => {
                    rx.late = !belled;
                    return Ok(());
                }
                Err(libc::EINTR) => continue,
                Err(libc::EBADF | libc::ENOTSOCK) => return Err(Error::NotAnEndpoint(fd)),
                Err(e) => return Err(Error::system("recvmsg")(e)),
            };
            *heard = true;
            let [tag, memory] = got.fds;
            let tag = tag.and_then(Tag::read);
            let text = &buf[..got.len.min(buf.len())];
            if let Some(memory) = memory {
                self.take_elsewhere(rx, tag, text, memory);
            } else if tag.is_none() && text.is_empty() {
                // A bell, or the end: that comes again, and again.
                if self.is_retired() || (belled && self.is_closed()) {
                    return Err(Error::Closed);
                }
                if how == Drain::Bell {
                    return Ok(());
                }
                belled = true;
                continue;
            } else {
                bytes += text.len();
                let from = tag.map_or(Addr::default(), |t| t.from);
                rx.tokens.add_own(from, Own::Bytes(text.into(), tag.map_or(Beside::default(), |t| t.beside)));
            }
            messages += 1;
        }
        Ok(())
    }

    /// A packet with memory beside it. Nonsense of a sender that is not honest is let go.
    #[cold]
    fn take_elsewhere(&self, rx: &mut Rx, tag: Option<Tag>, packet: &[u8], memory: OwnedFd) {
        let (Some(packet), Some(tag)) = (OutOfLinePacket::decode(packet), tag) else { return };
        let Some(message) = Memory::new(memory, packet.beside) else { return };
        if packet.has_no_edge() {
            return rx.tokens.add_own(tag.from, Own::OutOfLine(message));
        }
        if self.news.load(Ordering::Acquire) {
            self.adopt(rx); // its edge may be that new
        }
        rx.tokens.add_out_of_line(packet.key, packet.number, message);
    }
}
