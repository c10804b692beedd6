//! What stands between flows and routes, one for each other node and route: who may have sent a frame, and who can read it.
//!
//! Frames pass it on their way out just before the route, and on their way in just behind it, in place. It may put bytes before
//! and behind a frame ([`Guard::head`], [`Guard::around`]), exchange packets of its own ([`Guard::next`]), and keep frames
//! back until it has agreed on keys ([`Guard::is_open`]). Nothing else has to know which it is.

use dp_graph::trust::Security;
use dp_seal::{Config, GraphKey, Mode};
use dpfd::Nid;
use thiserror::Error;

/// The guard of another node on one of its routes.
#[derive(Default)]
pub enum Guard {
    /// The wire is trusted: frames are as flows write them. Their addresses are compared with the NART's, which anybody on
    /// the wire can forge.
    #[default]
    None,
    /// Frames are authenticated, or encrypted.
    Sealed(Box<dp_seal::Peer>),
}

/// What a packet that came is.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened<'a> {
    /// A frame of the other node's.
    Frame(&'a mut [u8]),
    /// The guard's own; it has been taken.
    Own,
    /// Nobody's who may send here.
    Refused,
}

/// Why there is no guard.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoGuard {
    /// Frames are to be sealed, and there is no key.
    #[error("frames are to be sealed, and the graph names no key")]
    NoKey,
    /// It cannot be made like that.
    #[error("{0}")]
    Invalid(&'static str),
}

/// What guards are made of.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// The graph's key.
    pub key: Option<GraphKey>,
    /// What a wall clock shows when the node's clock shows 0: nanoseconds since 1970.
    pub epoch: u64,
}

impl Keys {
    /// The guard between node `here` and node `there` on a route that is to be like that.
    ///
    /// # Errors
    ///
    /// There is no key, or the two are one.
    pub fn guard(&self, security: Security, here: Nid, there: Nid) -> Result<Guard, NoGuard> {
        let mode = match security {
            Security::None => return Ok(Guard::None),
            Security::Authenticate => Mode::Authenticate,
            Security::Encrypt => Mode::Encrypt,
        };
        let key = self.key.as_ref().ok_or(NoGuard::NoKey)?;
        let peer = dp_seal::Peer::new(key, Config::new(here, there, mode, self.epoch));
        peer.map(|peer| Guard::Sealed(Box::new(peer))).map_err(|_| NoGuard::Invalid("a node is no other one"))
    }
}

impl Guard {
    /// Bytes that it puts before each frame.
    pub fn head(&self) -> usize {
        match self {
            Guard::None => 0,
            Guard::Sealed(_) => dp_seal::HEAD,
        }
    }

    /// Bytes that it adds to each frame, before and behind it.
    pub fn around(&self) -> usize {
        match self {
            Guard::None => 0,
            Guard::Sealed(_) => dp_seal::OVERHEAD,
        }
    }

    /// Whether frames can pass now; else they stay where they are, and it does what is needed that they can.
    pub fn is_open(&mut self, now: u64) -> bool {
        match self {
            Guard::None => true,
            Guard::Sealed(peer) => {
                if !peer.is_ready(now) {
                    peer.connect(now);
                }
                peer.is_ready(now)
            }
        }
    }

    /// Makes a packet of a frame of `length` bytes, which stands in `room` from [`Guard::head`] on; there are
    /// [`Guard::around`] bytes more. How long the packet is; 0: the frame cannot pass, and its flow sends it again.
    pub fn seal(&mut self, now: u64, room: &mut [u8], length: usize) -> usize {
        match self {
            Guard::None => length,
            Guard::Sealed(peer) => peer.seal(now, room, length).unwrap_or(0),
        }
    }

    /// The reverse, of a packet that anybody may have sent.
    pub fn open<'a>(&mut self, now: u64, packet: &'a mut [u8]) -> Opened<'a> {
        match self {
            Guard::None => Opened::Frame(packet),
            Guard::Sealed(peer) => match peer.open(now, packet) {
                Ok(Some(frame)) => Opened::Frame(frame),
                Ok(None) => Opened::Own,
                Err(_) => Opened::Refused,
            },
        }
    }

    /// Writes a packet of its own that is to be sent into `out`: how long it is.
    pub fn next(&mut self, now: u64, out: &mut [u8]) -> Option<usize> {
        match self {
            Guard::None => None,
            Guard::Sealed(peer) => peer.poll_transmit(now, out),
        }
    }

    /// When to ask for one, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<u64> {
        match self {
            Guard::None => None,
            Guard::Sealed(peer) => peer.poll_timeout(),
        }
    }

    /// The word for it, as in the graph.
    pub fn word(&self) -> &'static str {
        match self {
            Guard::None => Security::None.word(),
            Guard::Sealed(peer) => match peer.mode() {
                Mode::Authenticate => Security::Authenticate.word(),
                Mode::Encrypt => Security::Encrypt.word(),
            },
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
