//! What the receiver of an endpoint has asked its senders for, and what it knows of its descriptor by that (PROTOCOLS U3).
//!
//! ```text
//!              Ask                     Nothing                      Doze
//!   Awake ------------> Armed(unsure) ---------> Armed(settled) ------------> Dozing
//!   ^ | ^                    |                        |                         |
//!   | | +--- Look, Told -----+------------------------+-------------------------+
//!   | | Silence                                                                 | Woken, Rouse
//!   | v                                                                         v
//!   Silent <---------------------------- Silence ---------------------------- Woken
//! ```
//!
//! The word that senders read ([`super::arm`]) is written in one place, [`Wake::go`], so it says what the state says. The two
//! ways to sleep, [`settle`] and [`doze`], are here as well: what a thread does before it lies down is what the proofs drive.

use super::arm::Arm;

/// What is known of bells on the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bell {
    /// Nothing.
    Unknown,
    /// There is one: seen or rung, and not taken since.
    There,
    /// There is none, and nobody was asked to ring since.
    None,
}

/// Whether senders ring, and whether a call sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Senders ring. Settled: the descriptor was empty then, and nothing was seen or taken since.
    Armed {
        /// As above.
        settled: bool,
    },
    /// Nobody rings. A call looks by itself, or messages are there, and the descriptor tells.
    Awake(Bell),
    /// Nobody rings, and no call looks: the program waits in its calls, and is about to come back. The service sees to it
    /// that it does.
    Silent(Bell),
    /// A call sleeps on the word of the edge, or is about to.
    Dozing(Bell),
    /// It sleeps no more; what the senders were asked for is as it was.
    Woken {
        /// What it knew when it lay down.
        bell: Bell,
        /// By its sender, who has rung for all that is older: no bell is late.
        by_sender: bool,
    },
}

/// What happens to a receiver, or what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Bells were taken from the descriptor; `heard`: something was there.
    Drained {
        /// As above.
        heard: bool,
    },
    /// It asks for bells. A look must follow.
    Ask,
    /// It looked behind that, and nothing was there.
    Nothing,
    /// It sleeps until a bell comes, or one came: what was settled is no longer.
    Spent,
    /// It looks by itself from here on, or found something.
    Look,
    /// Messages are there; whether a bell is, too.
    Told(bool),
    /// It asks for a wake-up of the edge's word. A look must follow.
    Doze,
    /// It looked behind that, and nothing was there; whether a bell for what was taken may still come.
    LieDown {
        /// As above.
        late: bool,
    },
    /// Its sender woke it.
    Woken,
    /// Somebody else did, or brings what senders without an edge may follow.
    Rouse,
    /// The program waits in its calls: nobody is to ring. Whether the descriptor was just emptied.
    Silence {
        /// As above.
        emptied: bool,
    },
    /// It looked for as long as it pays.
    Cool,
}

impl Default for Wake {
    /// As a new inbox is: the first message rings.
    fn default() -> Wake {
        Wake::Armed { settled: false }
    }
}

impl Bell {
    fn drained(self) -> Bell {
        if self == Bell::There {
            Bell::Unknown
        } else {
            self
        }
    }

    /// Somebody may ring from here on.
    fn doubted(self) -> Bell {
        if self == Bell::None {
            Bell::Unknown
        } else {
            self
        }
    }
}

impl Wake {
    /// What is known of the descriptor.
    pub fn bell(self) -> Bell {
        match self {
            Wake::Armed { .. } => Bell::Unknown,
            Wake::Awake(bell) | Wake::Silent(bell) | Wake::Dozing(bell) | Wake::Woken { bell, .. } => bell,
        }
    }

    /// Whether nobody rings, though no call looks.
    #[inline(always)]
    pub fn is_silent(self) -> bool {
        matches!(self, Wake::Silent(_))
    }

    /// Whether a call sleeps on the edge's word.
    #[inline(always)]
    pub fn is_dozing(self) -> bool {
        matches!(self, Wake::Dozing(_))
    }

    /// Whether senders ring.
    pub fn is_armed(self) -> bool {
        matches!(self, Wake::Armed { .. })
    }

    /// Whether it may sleep as it is.
    pub fn is_settled(self) -> bool {
        self == Wake::Armed { settled: true }
    }

    /// The next state. What makes no difference in a state leaves it as it is.
    #[must_use]
    pub fn step(self, event: Event) -> Wake {
        use Wake::{Armed, Awake, Dozing, Silent, Woken};
        match (event, self) {
            (Event::Drained { heard }, Armed { settled }) => Armed { settled: settled && !heard },
            (Event::Drained { .. }, Awake(bell)) => Awake(bell.drained()),
            (Event::Ask, _) | (Event::Spent, Armed { .. }) => Armed { settled: false },
            (Event::Nothing, Armed { .. }) => Armed { settled: true },
            // Whoever is in silence looks by itself already.
            (Event::Look, Silent(_)) => self,
            (Event::Look, _) => Awake(self.bell()),
            (Event::Told(true), _) => Awake(Bell::There),
            (Event::Told(false), _) => Awake(Bell::Unknown),
            (Event::Doze, _) => Dozing(self.bell().drained()),
            (Event::LieDown { late }, Dozing(_)) => Dozing(if late { Bell::Unknown } else { Bell::None }),
            (Event::Woken, Dozing(bell)) => Woken { bell, by_sender: true },
            (Event::Rouse, Dozing(_)) => Woken { bell: Bell::Unknown, by_sender: false },
            (Event::Rouse, Woken { by_sender, .. }) => Woken { bell: Bell::Unknown, by_sender },
            (Event::Rouse, Awake(bell)) => Awake(bell.doubted()),
            (Event::Rouse, Silent(bell)) => Silent(bell.doubted()),
            (Event::Silence { emptied: true }, _) => Silent(Bell::None),
            (Event::Silence { emptied: false }, _) => Silent(self.bell().drained()),
            (Event::Cool, Silent(bell)) => Awake(bell),
            _ => self,
        }
    }

    /// Takes the step, and has the word say so. Only the receiver calls this, one thread at a time.
    #[inline]
    pub fn go(&mut self, event: Event, word: &Arm) {
        let next = self.step(event);
        match next {
            // Also if it was armed: what was rung for before is not what is asked for now.
            Wake::Armed { .. } if event == Event::Ask => word.arm(),
            Wake::Dozing(_) if event == Event::Doze => word.doze(),
            Wake::Awake(_) | Wake::Silent(_) => word.disarm(),
            _ => {}
        }
        *self = next;
    }
}

/// A receiver, as far as its sleeps go.
pub trait Sleeper {
    /// What makes that it cannot.
    type Error;
    /// Its state.
    fn wake(&mut self) -> &mut Wake;
    /// Takes what is on the descriptor ([`Event::Drained`]).
    fn drain(&mut self) -> Result<(), Self::Error>;
    /// Whether something is there, in any edge.
    fn waiting(&self) -> bool;
}

/// The way to sleep until a bell comes: takes those that are there, asks for the next, looks once more. Whether something is
/// there, so that it must not sleep. The order matters: a bell that is taken behind the asking may be the only one that its
/// sender rings.
///
/// # Errors
///
/// Those of `drain`.
#[inline]
pub fn settle<S: Sleeper>(sleeper: &mut S, word: &Arm) -> Result<bool, S::Error> {
    if sleeper.wake().bell() != Bell::None {
        sleeper.drain()?;
    }
    sleeper.wake().go(Event::Ask, word);
    dp_edge::sync::settle();
    let there = sleeper.waiting();
    if !there {
        sleeper.wake().go(Event::Nothing, word);
    }
    Ok(there)
}

/// The way to sleep on the word of the only edge, whose key was read before. Whether nothing came meanwhile, so that it
/// sleeps. `late`: a bell for what was taken may still come.
#[inline]
pub fn doze<S: Sleeper>(sleeper: &mut S, word: &Arm, late: bool) -> bool {
    sleeper.wake().go(Event::Doze, word);
    dp_edge::sync::settle();
    let there = sleeper.waiting();
    sleeper.wake().go(if there { Event::Look } else { Event::LieDown { late } }, word);
    !there
}
