//! One node as another one sees it: frames to it are sealed, packets from it are opened.

mod words;

use crate::calling::Calling;
use crate::count::add;
use crate::handshake;
use crate::key::Secrets;
use crate::packet::{self, Head, Kind, FRAME_MIN, HEAD, TAG, WORD};
use crate::session::{Sessions, Which};
use crate::{Config, Counts, GraphKey, Invalid, Mode, Refused, OVERHEAD};

/// Why a frame was not sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum NotSealed {
    /// There is no session yet. A handshake begins, or goes on; [`Peer::is_ready`] tells when there is one.
    NoSession,
    /// The frame is shorter than [`FRAME_MIN`], or there is no room around it.
    Length,
}

impl core::fmt::Display for NotSealed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            NotSealed::NoSession => "there is no session with the other node yet",
            NotSealed::Length => "a frame is too short, or has no room around it",
        })
    }
}

impl core::error::Error for NotSealed {}

/// How it stands with a peer, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// How old the session is, nanoseconds; nothing: there is none.
    pub session: Option<u64>,
    /// When something authentic was heard last; nothing: never.
    pub heard: Option<u64>,
    /// A handshake that this side began is not answered yet.
    pub calling: bool,
}

/// One node as another one sees it. See the [crate](crate) for how it is used.
pub struct Peer {
    config: Config,
    secrets: Secrets,
    sessions: Sessions,
    calling: Calling,
    /// A RESPONSE or LATER that is to be sent.
    response: Option<[u8; WORD]>,
    /// The other side is to be shown that this one has the keys.
    confirm: bool,
    /// When it was to be shown that last.
    confirmed_at: Option<u64>,
    /// The latest time of an INITIATION that was answered.
    answered: u64,
    answered_at: Option<u64>,
    /// When one was told last that it is not later.
    told_at: Option<u64>,
    heard: Option<u64>,
    /// When the first frame was sealed since something was heard.
    unheard: Option<u64>,
    counts: Counts,
}

impl Peer {
    /// A node of which nothing was heard yet.
    ///
    /// # Errors
    /// It cannot be told that.
    pub fn new(key: &GraphKey, config: Config) -> Result<Peer, Invalid> {
        config.check()?;
        Ok(Peer {
            config,
            secrets: Secrets::new(key),
            sessions: Sessions::default(),
            calling: Calling::default(),
            response: None,
            confirm: false,
            confirmed_at: None,
            answered: 0,
            answered_at: None,
            told_at: None,
            heard: None,
            unheard: None,
            counts: Counts::default(),
        })
    }

    /// Has a handshake begin if there is no session, so that the first frame need not wait for it.
    pub fn connect(&mut self, now: u64) {
        if !self.is_ready(now) {
            self.calling.want(&self.config.limits, now);
        }
    }

    /// Whether a frame would be sealed now.
    pub fn is_ready(&self, now: u64) -> bool {
        self.sessions.current(&self.config.limits, now).is_some()
    }

    /// Makes a packet of a frame, in place. The frame has `frame` bytes from [`HEAD`] on, and [`OVERHEAD`] bytes more are
    /// needed than it has. How long the packet is.
    ///
    /// # Errors
    /// It is not sealed, and is still as it was.
    pub fn seal(&mut self, now: u64, room: &mut [u8], frame: usize) -> Result<usize, NotSealed> {
        let length = frame.saturating_add(OVERHEAD);
        if frame < FRAME_MIN || length > room.len() {
            return Err(NotSealed::Length);
        }
        if !self.put(now, Kind::Frame(self.config.mode), &mut room[..length]) {
            self.calling.want(&self.config.limits, now);
            return Err(NotSealed::NoSession);
        }
        add(&mut self.counts.sealed);
        let unheard = *self.unheard.get_or_insert(now);
        let limits = &self.config.limits;
        let worn = self.sessions.current(limits, now).is_none_or(|session| session.is_worn(limits, now));
        if worn || now.saturating_sub(unheard) >= limits.doubt_after {
            self.calling.want(limits, now);
        }
        Ok(length)
    }

    /// Takes in a packet that anybody may have sent, in place. The frame that was in it; nothing if there was none, but a
    /// word of the handshake: then [`poll_transmit`](Peer::poll_transmit) may have an answer.
    ///
    /// # Errors
    /// It is to be dropped; it was counted.
    pub fn open<'p>(&mut self, now: u64, packet: &'p mut [u8]) -> Result<Option<&'p mut [u8]>, Refused> {
        let opened = match packet::kind(packet) {
            Ok(Kind::Initiation) => self.initiation(now, packet).map(|()| false),
            Ok(Kind::Response) => self.response(now, packet).map(|()| false),
            Ok(Kind::Later) => self.later(now, packet).map(|()| false),
            Ok(kind @ Kind::Frame(mode)) if mode == self.config.mode => {
                self.frame(now, kind, packet).map(|()| true)
            }
            Ok(Kind::Frame(_)) => Err(Refused::Mode),
            Ok(Kind::Empty) => self.frame(now, Kind::Empty, packet).map(|()| false),
            Err(reason) => Err(reason),
        };
        match opened {
            Ok(true) => {
                add(&mut self.counts.opened);
                let end = packet.len() - TAG;
                Ok(Some(&mut packet[HEAD..end]))
            }
            Ok(false) => Ok(None),
            Err(reason) => {
                self.counts.refuse(reason);
                Err(reason)
            }
        }
    }

    /// Writes a packet that this layer itself has to send, if any is due: call it until there is none. `out` has
    /// [`OWN_MAX`](crate::OWN_MAX) bytes at least, or nothing is written. The length of the packet.
    pub fn poll_transmit(&mut self, now: u64, out: &mut [u8]) -> Option<usize> {
        self.sessions.expire(&self.config.limits, now);
        let out = out.first_chunk_mut::<WORD>()?;
        if let Some(response) = self.response.take() {
            *out = response;
            return Some(WORD);
        }
        if self.calling.is_due(&self.config.limits, now) {
            let time = self.calling.stamp(self.config.epoch, now);
            self.word(Kind::Initiation, time, out);
            let Some(pending) = handshake::initiate(&self.secrets.psk, out) else {
                add(&mut self.counts.failures);
                return None;
            };
            self.finish(out);
            self.calling.sent(time, pending);
            add(&mut self.counts.initiations);
            return Some(WORD);
        }
        let length = OVERHEAD + FRAME_MIN;
        out[..length].fill(0);
        let confirmed = std::mem::take(&mut self.confirm) && self.put(now, Kind::Empty, &mut out[..length]);
        confirmed.then_some(length)
    }

    /// When [`poll_transmit`](Peer::poll_transmit) has something to do, if nothing else happens before; 0: at once.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.response.is_some() || self.confirm {
            return Some(0);
        }
        let end = self.sessions.next_end(&self.config.limits);
        end.into_iter().chain(self.calling.due()).min()
    }

    /// What is done to frames.
    pub fn mode(&self) -> Mode {
        self.config.mode
    }

    /// How it stands.
    pub fn state(&self, now: u64) -> State {
        let session = self.sessions.current(&self.config.limits, now).map(|session| session.age(now));
        State { session, heard: self.heard, calling: !self.calling.is_idle() }
    }

    /// What was counted since it was made.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Frames.
impl Peer {
    /// Completes a packet. False: there is no session.
    fn put(&mut self, now: u64, kind: Kind, packet: &mut [u8]) -> bool {
        let Some(session) = self.sessions.sending(&self.config.limits, now) else { return false };
        let counter = session.next;
        // Before all else: whatever happens, no counter is used twice.
        session.next += 1;
        Head { kind, from: self.config.here, session: session.id, counter }.write(packet);
        let sealed = session.seal.seal(counter, packet);
        // The other side sees by this one that its keys are known here.
        self.confirm &= !sealed;
        sealed
    }

    fn frame(&mut self, now: u64, kind: Kind, packet: &mut [u8]) -> Result<(), Refused> {
        let Head { from, session, counter, .. } = Head::read(kind, packet);
        if from != self.config.there {
            return Err(Refused::Node);
        }
        let limits = &self.config.limits;
        let Some((which, session)) = self.sessions.find(session, limits, now) else {
            // One of the two nodes was started again, and the other one does not know it. Or this is forged: then a few
            // words are sent for nothing, seldomer and seldomer, to where the graph says that node is.
            let doubt = !is_soon(self.heard, limits.doubt_after, now);
            if doubt || !self.is_ready(now) {
                self.calling.want(&self.config.limits, now);
            }
            self.confirm_again(now);
            return Err(Refused::Session);
        };
        session.replay.check(counter)?;
        if !session.open.open(counter, packet) {
            return Err(Refused::Tag);
        }
        session.replay.mark(counter);
        session.heard = true;
        if which == Which::Next {
            self.sessions.confirmed();
            self.calling.done();
            add(&mut self.counts.sessions);
        }
        self.hear(now);
        Ok(())
    }

    /// A packet came that cannot be opened. If nothing came yet by the session that this side began, the other one may send by one
    /// that it had before, and not have heard that the keys are known here: it waits for a word of that, which may be lost, and this
    /// side may have nothing to say by itself. Whoever forges packets has few of these sent.
    fn confirm_again(&mut self, now: u64) {
        let limits = &self.config.limits;
        let unheard =
            self.sessions.current(limits, now).is_some_and(|session| session.began && !session.heard);
        if unheard && !is_soon(self.confirmed_at, limits.retry_first, now) {
            (self.confirm, self.confirmed_at) = (true, Some(now));
        }
    }

    fn hear(&mut self, now: u64) {
        (self.heard, self.unheard) = (Some(now), None);
    }
}

fn is_soon(last: Option<u64>, gap: u64, now: u64) -> bool {
    last.is_some_and(|at| now.saturating_sub(at) < gap)
}

impl core::fmt::Debug for Peer {
    /// Without keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Peer")
            .field("config", &self.config)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
