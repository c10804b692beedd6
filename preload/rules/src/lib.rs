//! Which TCP connections of which programs become channels, which stay as they are, and which are not to be.
//!
//! A [`Rules`] value is a short list; the first rule that matches a connection decides, and what no rule
//! matches stays on TCP. A list that names no `channel` and no `require` ends with `channel any localhost`, so that
//! an empty list means "all TCP within this host" and a list of exceptions means "all of that but these".
//!
//! ```
//! use dp_rules::{Action, Direction, Program, Question, Rules};
//!
//! let rules = Rules::parse("tcp any localhost:5432  # leave the database alone")?;
//! let to = |name, port| Question {
//!     program: Program::named(name),
//!     direction: Direction::Connect,
//!     addr: "127.0.0.1".parse().unwrap(),
//!     port,
//!     here: true,
//! };
//! assert_eq!(rules.decide(&to(b"psql", 5432)).action, Action::Tcp);
//! assert_eq!(rules.decide(&to(b"redis-cli", 6379)).action, Action::Channel);
//! # Ok::<(), dp_rules::RuleError>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `rule`, `place`, `who`, `settings`, `pattern` | one rule, and its parts |
//! | `parse`, `problem` | from text to rules, and what is said about text that is none |
//! | [`config`] | where rules and settings come from, and how running programs read them anew |
//!
//! The shim and `dp` use the same code. Neither parsing nor deciding allocates, and nothing panics: the shim does both inside
//! calls of the program's.
#![forbid(unsafe_code)]

pub mod config;
mod parse;
mod pattern;
mod place;
mod problem;
mod rule;
mod settings;
mod who;

use std::fmt;
use std::net::IpAddr;

pub use parse::{Files, Names};
pub use pattern::{Pattern, MAX_PATTERN};
pub use place::Place;
pub use problem::{Problem, RuleError, Word};
pub use rule::{Action, Direction, Mismatch, Rule};
pub use settings::{Settings, AFTER, RING, RING_LONG, SPIN};
pub use who::{cgroup, unit, Program};

#[cfg(test)]
mod tests;

/// The most rules one list can hold.
pub const MAX_RULES: usize = 128;

/// A list of at most [`MAX_RULES`] rules. About 28 KiB, without pointers; a short list touches its first page alone, which every
/// process under the shim has of its own.
#[derive(Clone)]
#[repr(C)]
pub struct Rules {
    len: usize,
    entries: [(Rule, Origin); MAX_RULES],
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which of the texts that the list was read from, from 0.
    pub text: u16,
    /// The line, from 1; 0: in none, the rule completes the list, or was made by hand.
    pub line: u32,
    /// The character in that line, from 1.
    pub column: u32,
}

/// What is asked of rules: a connection, or one that is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// Whose it is.
    pub program: Program<'a>,
    /// Which side of it the program is on.
    pub direction: Direction,
    /// The remote address for [`Direction::Connect`], the program's own for [`Direction::Listen`].
    pub addr: IpAddr,
    /// The port that belongs to it.
    pub port: u16,
    /// Both ends are this host's, by whichever addresses.
    pub here: bool,
}

/// What rules answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What happens to the connection.
    pub action: Action,
    /// How its channel is to be.
    pub settings: Settings,
    /// The rule that decided, by its place in the list from 0; None: no rule matches.
    pub because: Option<usize>,
}

impl Rules {
    /// All TCP within this host, both directions: what holds when nobody said anything. Renders as
    /// `channel any localhost`.
    pub const DEFAULT: Rules = Rules { len: 1, entries: [(Rule::HOST, Origin::NONE); MAX_RULES] };

    /// Reads a list: rules on lines of their own or separated by `;`, `#` to the end of the line is a comment.
    ///
    /// A list without a rule that makes channels gets `channel any localhost` as its last; that one counts towards
    /// [`MAX_RULES`]. Names of users and groups are looked up in /etc/passwd and /etc/group.
    ///
    /// # Errors
    /// The first thing that could not be understood: where, which word, what can stand there.
    pub fn parse(text: &str) -> Result<Rules, RuleError> {
        let mut list = Rules::DEFAULT;
        list.clear();
        list.read(text, 0, &Files)?;
        list.complete()?;
        Ok(list)
    }

    /// Makes a list of rules at hand, completed as [`Rules::parse`] does.
    ///
    /// # Errors
    /// More than [`MAX_RULES`].
    pub fn new(rules: &[Rule]) -> Result<Rules, RuleError> {
        let mut list = Rules::DEFAULT;
        list.clear();
        rules.iter().try_for_each(|rule| list.push(*rule, Origin::NONE))?;
        list.complete()?;
        Ok(list)
    }

    /// Takes all rules away, also the one that completes the list.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends the rules of a text, which is number `number` of those the list is read from.
    ///
    /// # Errors
    /// As for [`Rules::parse`]. The rules before it are in the list.
    pub fn read(&mut self, text: &str, number: u16, names: &dyn Names) -> Result<(), RuleError> {
        parse::rules(self, text, number, names)
    }

    /// Appends `channel any localhost` where no rule makes a channel.
    ///
    /// # Errors
    /// There is no room.
    pub fn complete(&mut self) -> Result<(), RuleError> {
        if self.iter().all(|rule| !rule.action.makes_channels()) {
            self.push(Rule::HOST, Origin::NONE)?;
        }
        Ok(())
    }

    /// What happens to a connection, how its channel is to be, and which rule says so. Neither allocates nor locks.
    pub fn decide(&self, question: &Question) -> Decision {
        let addr = question.addr.to_canonical();
        match self.iter().position(|rule| rule.mismatch(question, addr).is_none()) {
            Some(i) => {
                let Rule { action, settings, .. } = self.entries[i].0;
                Decision { action, settings, because: Some(i) }
            }
            None => Decision { action: Action::Tcp, settings: Settings::NONE, because: None },
        }
    }

    /// Why each rule before the one that decides does not match, in order. Neither allocates nor locks.
    pub fn passed_over<'a>(&'a self, question: &'a Question) -> impl Iterator<Item = (usize, Mismatch)> + 'a {
        let addr = question.addr.to_canonical();
        self.iter().map(move |rule| rule.mismatch(question, addr)).map_while(|why| why).enumerate()
    }

    /// Whether a listener bound to this address could accept a connection that gets a channel.
    ///
    /// On a wildcard address (0.0.0.0, ::) the answer covers all addresses the connection may come in
    /// on: yes may turn out needless, no is final. Neither allocates nor locks.
    pub fn may_accept(&self, program: Program, bound: IpAddr, port: u16) -> bool {
        let addr = bound.to_canonical();
        let question = Question { program, direction: Direction::Listen, addr, port, here: true };
        if !addr.is_unspecified() {
            return self.decide(&question).action.makes_channels();
        }
        for rule in self.iter().filter(|rule| rule.mismatch_but_for_address(&question).is_none()) {
            match rule.action.makes_channels() {
                true if rule.place.net.meets(addr) => return true,
                false if rule.place.net.holds_all_of(addr) => return false,
                _ => {}
            }
        }
        false
    }

    /// Whether a connection in this direction may be one that is ended, or not made: by `refuse` or `require`.
    pub fn may_end(&self, direction: Direction) -> bool {
        let ends = |rule: &Rule| matches!(rule.action, Action::Refuse | Action::Require);
        self.iter().any(|rule| ends(rule) && rule.is_for(direction))
    }

    /// Whether a rule asks for a user or a group.
    pub fn asks_for_users(&self) -> bool {
        self.iter().any(Rule::asks_for_users)
    }

    /// Whether a rule asks for a control group.
    pub fn asks_for_cgroups(&self) -> bool {
        self.iter().any(Rule::asks_for_cgroups)
    }

    /// The rules in order, the one that completes the list included.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.entries[..self.len].iter().map(|(rule, _)| rule)
    }

    /// The rule at a place, and where it stands.
    pub fn get(&self, i: usize) -> Option<(&Rule, Origin)> {
        self.entries[..self.len].get(i).map(|(rule, origin)| (rule, *origin))
    }

    fn push(&mut self, rule: Rule, origin: Origin) -> Result<(), RuleError> {
        let Some(free) = self.entries.get_mut(self.len) else {
            let (line, column) = (origin.line.max(1), origin.column.max(1));
            return Err(RuleError { line, column, problem: Problem::TooMany });
        };
        *free = (rule, origin);
        self.len += 1;
        Ok(())
    }
}

impl Origin {
    const NONE: Origin = Origin { text: 0, line: 0, column: 0 };
}

impl Default for Rules {
    fn default() -> Self {
        Rules::DEFAULT
    }
}

/// Where they stand does not matter.
impl PartialEq for Rules {
    fn eq(&self, other: &Rules) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Rules {}

/// Text that [`Rules::parse`] reads back to an equal value, on one line: fit for `DP_RULES`.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rule) in self.iter().enumerate() {
            write!(f, "{}{rule}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rules({self})")
    }
}
