//! What is said about text that is no rule. Nothing here allocates: running programs read rules anew, inside a call of theirs.

use std::fmt::{self, Write};

use thiserror::Error;

use crate::{MAX_PATTERN, MAX_RULES};

/// A rule that cannot be used: where it stands, and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{line}:{column}: {problem}")]
pub struct RuleError {
    /// The line of the text, from 1.
    pub line: u32,
    /// The character in that line at which the word begins, from 1.
    pub column: u32,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a rule, and what can stand there instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The first word.
    #[error("{0} is not an action; write channel, tcp, require or refuse")]
    Action(Word),
    /// The second word.
    #[error("{0} is not a direction; write connect, listen or any")]
    Direction(Word),
    /// The rule ends too early.
    #[error(
        "the {0} is missing; a rule reads ACTION DIRECTION ADDRESS, as in channel connect 127.0.0.1:6379"
    )]
    Missing(&'static str),
    /// What follows the address is no condition and no setting.
    #[error("{0} is neither a condition nor a setting; behind the address write program=, user=, group=, cgroup=, unit=, ring=, ring-long=, spin= or after=")]
    Extra(Word),
    /// A condition or a setting twice.
    #[error("{0}= stands here for the second time; write one of them")]
    Twice(&'static str),
    /// A control group by its path and by its unit.
    #[error("{0}= and another word both say which control group; write cgroup= or unit=")]
    TwoGroups(&'static str),
    /// A setting where there is no channel.
    #[error("{0}= says how a channel is to be, and {1} makes none; write it behind channel or require")]
    Idle(&'static str, &'static str),
    /// The third word as a whole.
    #[error("{0} is not an address; write an IP address, localhost or *, as in 127.0.0.1:6379, [::1]:6379, 10.0.0.0/8")]
    Address(Word),
    /// IPv6 without brackets.
    #[error("{0} has more than one colon; write an IPv6 address in brackets, as in [::1] or [::1]:6379")]
    Brackets(Word),
    /// A port alone.
    #[error("{0} is a port without an address; write *:{0} or localhost:{0}")]
    BarePort(Word),
    /// What follows the slash.
    #[error("/{0} is not a prefix length; write 0 to {1}")]
    Prefix(Word, u8),
    /// A network with bits set that its prefix length leaves open.
    #[error("{0} has bits set beyond its prefix; write {1}")]
    HostBits(Word, Word),
    /// What follows the colon.
    #[error("{0} is not a port; write 1 to 65535, or FIRST-LAST")]
    Port(Word),
    /// Ports the wrong way round.
    #[error("{0} ends before it begins; write {1}")]
    PortOrder(Word, Word),
    /// What follows `program=`, `cgroup=` or `unit=`.
    #[error("{0} cannot be behind {1}=; write 1 to {MAX_PATTERN} bytes without ; # or space{2}, where * and ? stand for any")]
    Pattern(Word, &'static str, &'static str),
    /// What follows `user=` or `group=`.
    #[error("{0} is not in {1}; write a name that is, or a number")]
    NoSuch(Word, &'static str),
    /// What follows the equals sign of a setting.
    #[error("{0} is not for {1}=; write {2} to {3} {4}")]
    Number(Word, &'static str, u64, u64, &'static str),
    /// More rules than a list can hold.
    #[error("a list holds at most {MAX_RULES} rules, the final one for localhost included; join some by prefixes or port ranges")]
    TooMany,
}

/// A word of somebody else's text, cut to 48 bytes or less and with unprintable characters escaped, for messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word {
    bytes: [u8; Word::LONGEST],
    len: u8,
    cut: bool,
}

impl Word {
    const LONGEST: usize = 48;

    pub(crate) fn new(text: impl fmt::Display) -> Word {
        let mut word = Word { bytes: [0; Word::LONGEST], len: 0, cut: false };
        // It only fails where the word is full.
        let _ = write!(word, "{text}");
        word
    }
}

impl fmt::Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars().flat_map(char::escape_debug) {
            let mut utf8 = [0; 4];
            let piece = c.encode_utf8(&mut utf8).as_bytes();
            let at = usize::from(self.len);
            let Some(room) = self.bytes.get_mut(at..at + piece.len()) else {
                self.cut = true;
                return Err(fmt::Error);
            };
            room.copy_from_slice(piece);
            self.len += piece.len() as u8;
        }
        Ok(())
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            return f.write_str("(nothing)");
        }
        // Whole characters were put in, so nothing is lost here.
        f.write_str(std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default())?;
        f.write_str(if self.cut { "..." } else { "" })
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({self})")
    }
}
