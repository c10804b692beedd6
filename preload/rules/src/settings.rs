//! How the channels of a rule are to be, where that is not left to the program's environment.

use std::fmt;

use dp_edge::setting::Number;

/// A rule's numbers; where there is none, those of the program's environment hold, or the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of each ring, [`RING`]: rounded up to a power of two where it is used.
    pub ring: Option<u32>,
    /// Bytes of the ring for streams, [`RING_LONG`]; not above `ring`: none.
    pub ring_long: Option<u32>,
    /// How long a wait spins before it sleeps, at most, ns, [`SPIN`].
    pub spin: Option<u32>,
    /// Calls before the connection is offered a channel, or an offer is looked for, [`AFTER`].
    pub after: Option<u32>,
}

/// `ring=`.
pub const RING: Number = Number { name: "ring", ..crate::config::environment::RING };
/// `ring-long=`.
pub const RING_LONG: Number = Number { name: "ring-long", ..crate::config::environment::RING_LONG };
/// `spin=`.
pub const SPIN: Number = Number { name: "spin", ..crate::config::environment::SPIN };
/// `after=`. A connection keeps it in half a word, so it ends earlier than `DP_AFTER`.
pub const AFTER: Number = Number { name: "after", high: 65_534, ..crate::config::environment::AFTER };

impl Settings {
    /// None of its own.
    pub const NONE: Settings = Settings { ring: None, ring_long: None, spin: None, after: None };

    /// The settings by their names, in the order in which they are written.
    pub fn each(&self) -> [(&'static Number, Option<u32>); 4] {
        [(&RING, self.ring), (&RING_LONG, self.ring_long), (&SPIN, self.spin), (&AFTER, self.after)]
    }

    pub(crate) fn slot(&mut self, name: &str) -> Option<(&'static Number, &mut Option<u32>)> {
        match name {
            "ring" => Some((&RING, &mut self.ring)),
            "ring-long" => Some((&RING_LONG, &mut self.ring_long)),
            "spin" => Some((&SPIN, &mut self.spin)),
            "after" => Some((&AFTER, &mut self.after)),
            _ => None,
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, value) in self.each() {
            if let Some(value) = value {
                write!(f, " {}={value}", number.name)?;
            }
        }
        Ok(())
    }
}
