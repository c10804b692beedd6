//! What a peer is told when it is made.

use core::fmt;

/// What is done to frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Mode {
    /// Who sends a frame is proven, and that it is as it was sent. Everybody on the way can read it.
    Authenticate,
    /// The same, and nobody on the way can read it. How long it is and when it was sent can still be seen.
    Encrypt,
}

/// Times, in nanoseconds, and numbers of frames: when a session gives way to the next. The defaults are WireGuard's, but
/// for the retries, which are meant for nodes of one site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A session so old gets a successor as soon as something is sent: from whoever began it; the other side lets
    /// an eighth more pass. 120 s.
    pub renew_after: u64,
    /// So does one of which this side sent so many frames. 2^30: were all of them of 64 KiB, whoever saw them could tell
    /// AES-GCM from chance with a probability of 2^-45.
    pub renew_frames: u64,
    /// A session so old is forgotten. 180 s; at least five quarters of `renew_after`.
    pub end_after: u64,
    /// This side sends no more frames of one session than that. 2^31; at least `renew_frames`.
    pub end_frames: u64,
    /// A handshake that was not answered is repeated after this time, which doubles ... 250 ms.
    pub retry_first: u64,
    /// ... up to this one ... 5 s.
    pub retry_last: u64,
    /// ... and given up after this one, if nothing more is to be sent. 90 s.
    pub give_up_after: u64,
    /// Frames were sent, or came that cannot be opened, and for so long nothing else of the other side was heard: a
    /// handshake finds out whether it still knows the session. 10 s.
    pub doubt_after: u64,
}

impl Limits {
    /// Those that the fields name.
    pub const DEFAULT: Limits = Limits {
        renew_after: 120_000_000_000,
        renew_frames: 1 << 30,
        end_after: 180_000_000_000,
        end_frames: 1 << 31,
        retry_first: 250_000_000,
        retry_last: 5_000_000_000,
        give_up_after: 90_000_000_000,
        doubt_after: 10_000_000_000,
    };

    fn are_sound(&self) -> bool {
        let end_least = self.renew_after.saturating_add(self.renew_after / 4);
        self.renew_after > 0
            && self.end_after >= end_least
            && (1..=self.end_frames).contains(&self.renew_frames)
            && (1..=self.retry_last).contains(&self.retry_first)
    }
}

/// What a peer is told when it is made. But for `here` and `there`, which are exchanged, both sides are told the same.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This node. Not 0.
    pub here: u16,
    /// The other node. Not 0.
    pub there: u16,
    /// What is done to frames. Both sides must be told the same, or nothing passes.
    pub mode: Mode,
    /// What a wall clock shows when the clock of all `now` shows 0: nanoseconds since 1970. A node that is started again
    /// says by it that its handshake is a later one. If its clock was set back meanwhile, the other side tells it.
    pub epoch: u64,
    /// When sessions end.
    pub limits: Limits,
}

impl Config {
    /// With the defaults.
    pub const fn new(here: u16, there: u16, mode: Mode, epoch: u64) -> Config {
        Config { here, there, mode, epoch, limits: Limits::DEFAULT }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.here == 0 || self.there == 0 || self.here == self.there {
            return Err(Invalid::Node);
        }
        if !self.limits.are_sound() {
            return Err(Invalid::Limits);
        }
        Ok(())
    }
}

/// Why a peer cannot be made like that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Invalid {
    /// A node is 0, or both are the same.
    Node,
    /// Limits contradict one another.
    Limits,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::Node => "a node is 0, or both are the same",
            Invalid::Limits => "limits of sessions contradict one another",
        })
    }
}

impl core::error::Error for Invalid {}
