//! Words of the handshake: those that come, and those that answer them.

use super::{is_soon, Peer};
use crate::count::add;
use crate::handshake;
use crate::packet::{self, Kind, WordHead, MAC_AT, WORD};
use crate::session::Session;
use crate::{Config, Refused};

/// No two INITIATIONs are answered within this time, nanoseconds: one costs some hundred microseconds, and who recorded
/// many could have them answered by a node that was started again.
const ANSWER_GAP: u64 = 10_000_000;
/// A node that was heard so lately, nanoseconds, has most likely not been started again ...
const HEARD_LATELY: u64 = 2_000_000_000;
/// ... and is told that its INITIATION is stale no sooner than so long after the last time, nanoseconds.
const TELL_GAP: u64 = 1_000_000_000;

impl Peer {
    pub(super) fn initiation(&mut self, now: u64, packet: &[u8]) -> Result<(), Refused> {
        let (head, initiation) = self.authentic(Kind::Initiation, packet)?;
        if head.time <= self.answered {
            let gap = if self.is_heard_lately(now) { TELL_GAP } else { ANSWER_GAP };
            if !is_soon(self.told_at, gap, now) && self.response.is_none() {
                let mut later = [0; WORD];
                self.word(Kind::Later, head.time, &mut later);
                packet::write_least(&mut later, self.answered);
                self.finish(&mut later);
                (self.response, self.told_at) = (Some(later), Some(now));
            }
            return Err(Refused::Stale);
        }
        if is_soon(self.answered_at, ANSWER_GAP, now) {
            return Err(Refused::Soon);
        }
        let mut response = [0; WORD];
        self.word(Kind::Response, head.time, &mut response);
        let keys =
            handshake::answer(&self.secrets.psk, initiation, &mut response).ok_or(Refused::Handshake)?;
        let session = Session::new(&keys, self.config.mode, false, now).ok_or(Refused::Handshake)?;
        self.finish(&mut response);
        (self.answered, self.answered_at) = (head.time, Some(now));
        self.sessions.offered(session);
        self.response = Some(response);
        Ok(())
    }

    pub(super) fn response(&mut self, now: u64, packet: &[u8]) -> Result<(), Refused> {
        let (head, response) = self.authentic(Kind::Response, packet)?;
        if !self.calling.waits_for(head.time) {
            return Err(Refused::Unasked);
        }
        let pending = self.calling.take().ok_or(Refused::Unasked)?;
        let keys = handshake::complete(pending, response).ok_or(Refused::Handshake)?;
        let session = Session::new(&keys, self.config.mode, true, now).ok_or(Refused::Handshake)?;
        self.sessions.answered(session);
        self.calling.done();
        (self.confirm, self.confirmed_at) = (true, Some(now));
        add(&mut self.counts.sessions);
        self.hear(now);
        Ok(())
    }

    pub(super) fn later(&mut self, now: u64, packet: &[u8]) -> Result<(), Refused> {
        let (head, later) = self.authentic(Kind::Later, packet)?;
        if !self.calling.waits_for(head.time) {
            return Err(Refused::Unasked);
        }
        self.calling.later(now, packet::least(later));
        Ok(())
    }

    /// A word of the handshake from the other node, made with the graph's key: the one look that everything else costs.
    fn authentic<'p>(&self, kind: Kind, packet: &'p [u8]) -> Result<(WordHead, &'p [u8; WORD]), Refused> {
        let word = packet.first_chunk::<WORD>().ok_or(Refused::Short)?;
        let head = WordHead::read(kind, word);
        if (head.from, head.to) != (self.config.there, self.config.here) {
            return Err(Refused::Node);
        }
        let (said, mac) = word.split_at(MAC_AT);
        if !self.secrets.is_mac(said, mac) {
            return Err(Refused::Key);
        }
        if head.mode != Some(self.config.mode) {
            return Err(Refused::Mode);
        }
        Ok((head, word))
    }

    /// Begins a word to the other node.
    pub(super) fn word(&self, kind: Kind, time: u64, word: &mut [u8; WORD]) {
        let Config { here, there, mode, .. } = self.config;
        WordHead { kind, from: here, to: there, mode: Some(mode), time }.write(word);
    }

    /// Completes it.
    pub(super) fn finish(&self, word: &mut [u8; WORD]) {
        let (said, mac) = word.split_at_mut(MAC_AT);
        mac.copy_from_slice(&self.secrets.mac(said));
    }

    fn is_heard_lately(&self, now: u64) -> bool {
        is_soon(self.heard, HEARD_LATELY, now)
    }
}
