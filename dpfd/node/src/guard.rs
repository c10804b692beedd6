//! What stands between flows and routes, one for each other node: who may have sent a frame, and who can read it.
//!
//! Frames pass it on their way out just before the route, and on their way in just behind it, in place. A layer that
//! authenticates or encrypts is another variant here, and nothing else has to know of it: it may put bytes before and behind
//! a frame ([`Guard::head`], [`Guard::around`]), exchange packets of its own ([`Guard::next`]), and keep frames back until it
//! has agreed on keys ([`Guard::is_open`]).

/// The guard of one other node.
#[derive(Debug, Default)]
pub enum Guard {
    /// The wire is trusted: frames are as flows write them. Their addresses are compared with the NART's, which anybody on
    /// the wire can forge.
    #[default]
    None,
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

impl Guard {
    /// Bytes that it puts before each frame.
    pub fn head(&self) -> usize {
        match self {
            Guard::None => 0,
        }
    }

    /// Bytes that it adds to each frame, before and behind it.
    pub fn around(&self) -> usize {
        match self {
            Guard::None => 0,
        }
    }

    /// Whether frames can pass now; else they stay where they are, and it does what is needed that they can.
    pub fn is_open(&mut self, _now: u64) -> bool {
        match self {
            Guard::None => true,
        }
    }

    /// Makes a packet of a frame of `length` bytes, which stands in `room` from [`Guard::head`] on; there are
    /// [`Guard::around`] bytes more. How long the packet is; 0: the frame cannot pass, and its flow sends it again.
    pub fn seal(&mut self, _now: u64, _room: &mut [u8], length: usize) -> usize {
        match self {
            Guard::None => length,
        }
    }

    /// The reverse, of a packet that anybody may have sent.
    pub fn open<'a>(&mut self, _now: u64, packet: &'a mut [u8]) -> Opened<'a> {
        match self {
            Guard::None => Opened::Frame(packet),
        }
    }

    /// Writes a packet of its own that is to be sent into `out`: how long it is.
    pub fn next(&mut self, _now: u64, _out: &mut [u8]) -> Option<usize> {
        match self {
            Guard::None => None,
        }
    }

    /// When to ask for one, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<u64> {
        match self {
            Guard::None => None,
        }
    }
}
