//! Which TCP connections get a channel, and which stay as they are.
//!
//! A [`Rules`] value is a short list; the first rule that matches a connection decides, and what no rule
//! matches stays on TCP. A list that names no `channel` at all ends with `channel any localhost`, so that
//! an empty list means "all TCP within this host" and a list of exceptions means "all of that but these".
//!
//! ```
//! use dp_channel::rules::{Action, Direction, Rules};
//!
//! let rules = Rules::parse("tcp any localhost:5432  # leave the database alone")?;
//! let here = "127.0.0.1".parse().unwrap();
//! assert_eq!(rules.decide(b"psql", Direction::Connect, here, 5432, true), Action::Tcp);
//! assert_eq!(rules.decide(b"redis-cli", Direction::Connect, here, 6379, true), Action::Channel);
//! # Ok::<(), dp_channel::rules::RuleError>(())
//! ```
//!
//! Parsing allocates only for an error's words; deciding neither allocates nor locks, because hooks decide.

mod parse;
mod pattern;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use parse::{Problem, RuleError, Word};
pub use pattern::{Pattern, MAX_PATTERN};

#[cfg(test)]
mod tests;

/// The most rules one list can hold.
pub const MAX_RULES: usize = 64;

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A channel is offered or taken; the connection stays on TCP if the other side takes no part.
    Channel,
    /// The connection is left alone.
    Tcp,
}

/// Which side of a connection the program is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It called connect(2): the address in question is the remote one, as getpeername(2) tells it.
    Connect,
    /// It called accept(2): the address in question is its own, as getsockname(2) tells it.
    Listen,
}

/// A set of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Net {
    /// `*`: every address, IPv4 and IPv6.
    Any,
    /// `localhost`: this host, by whichever of its addresses.
    Host,
    /// IPv4 addresses that share the first bits (0 to 32) with the address; v4-mapped IPv6 is IPv4.
    V4(Ipv4Addr, u8),
    /// IPv6 addresses that share the first bits (0 to 128) with the address.
    V6(Ipv6Addr, u8),
}

/// Addresses and ports: what `--connect`, `--listen`, `--not` and the third word of a rule name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    net: Net,
    /// First and last port; 0 and 65535 when the text named none.
    ports: (u16, u16),
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    action: Action,
    /// None: both.
    direction: Option<Direction>,
    place: Place,
    program: Pattern,
}

/// A list of 1 to [`MAX_RULES`] rules. About 6 KiB, without pointers.
#[derive(Clone, PartialEq, Eq)]
pub struct Rules {
    rules: [Rule; MAX_RULES],
    len: usize,
}

impl Rules {
    /// All TCP within this host, both directions: what holds when nobody said anything. Renders as
    /// `channel any localhost`.
    pub const DEFAULT: Rules = Rules { rules: [Rule::HOST; MAX_RULES], len: 1 };

    /// Reads a list: rules on lines of their own or separated by `;`, `#` to the end of the line is a comment.
    ///
    /// A list without a `channel` rule gets `channel any localhost` as its last; that one counts towards
    /// [`MAX_RULES`].
    ///
    /// # Errors
    /// The first thing that could not be understood: which rule, which word, what can stand there.
    pub fn parse(text: &str) -> Result<Rules, RuleError> {
        parse::rules(text)
    }

    /// Makes a list of rules at hand, completed as [`Rules::parse`] does.
    ///
    /// # Errors
    /// More than [`MAX_RULES`].
    pub fn new(rules: &[Rule]) -> Result<Rules, RuleError> {
        let mut list = Rules { len: 0, ..Rules::DEFAULT };
        rules.iter().try_for_each(|rule| list.push(*rule))?;
        list.complete()?;
        Ok(list)
    }

    /// What happens to a connection of the program (the last part of its path) in this direction, where
    /// address and port are the remote ones for [`Direction::Connect`], the local ones for
    /// [`Direction::Listen`]. `here`: both ends are this host's. Neither allocates nor locks.
    pub fn decide(&self, program: &[u8], dir: Direction, addr: IpAddr, port: u16, here: bool) -> Action {
        let addr = addr.to_canonical();
        self.iter()
            .find(|rule| rule.concerns(program, dir, port) && rule.place.net.contains(addr, here))
            .map_or(Action::Tcp, |rule| rule.action)
    }

    /// Whether a listener bound to this address could accept a connection that gets a channel.
    ///
    /// On a wildcard address (0.0.0.0, ::) the answer covers all addresses the connection may come in
    /// on: yes may turn out needless, no is final. Neither allocates nor locks.
    pub fn may_accept(&self, program: &[u8], bound: IpAddr, port: u16) -> bool {
        let bound = bound.to_canonical();
        if !bound.is_unspecified() {
            return self.decide(program, Direction::Listen, bound, port, true) == Action::Channel;
        }
        for rule in self.iter().filter(|rule| rule.concerns(program, Direction::Listen, port)) {
            match rule.action {
                Action::Channel if rule.place.net.meets(bound) => return true,
                Action::Tcp if rule.place.net.holds_all_of(bound) => return false,
                _ => {}
            }
        }
        false
    }

    /// The rules in order, the one that completes the list included.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules[..self.len].iter()
    }

    fn push(&mut self, rule: Rule) -> Result<(), RuleError> {
        let Some(free) = self.rules.get_mut(self.len) else { return Err(RuleError::too_many()) };
        *free = rule;
        self.len += 1;
        Ok(())
    }

    /// Appends the default where no rule makes a channel.
    fn complete(&mut self) -> Result<(), RuleError> {
        if self.iter().all(|rule| rule.action == Action::Tcp) {
            self.push(Rule::HOST)?;
        }
        // Unused slots stay alike, so that equal lists compare equal.
        self.rules[self.len..].fill(Rule::HOST);
        Ok(())
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules::DEFAULT
    }
}

impl Rule {
    const HOST: Rule = Rule {
        action: Action::Channel,
        direction: None,
        place: Place { net: Net::Host, ports: (0, u16::MAX) },
        program: Pattern::ANY,
    };

    /// A rule for every program; no direction means both.
    pub fn new(action: Action, direction: Option<Direction>, place: Place) -> Rule {
        Rule { action, direction, place, program: Pattern::ANY }
    }

    /// The same rule for programs whose name matches.
    pub fn for_program(self, program: Pattern) -> Rule {
        Rule { program, ..self }
    }

    /// Everything but the address.
    fn concerns(&self, program: &[u8], dir: Direction, port: u16) -> bool {
        let (first, last) = self.place.ports;
        self.direction.is_none_or(|d| d == dir)
            && (first..=last).contains(&port)
            && self.program.matches(program)
    }
}

impl Net {
    /// Whether the address, of this host if it is `here`, is one of the set; it must be canonical, a v4-mapped one is not.
    fn contains(self, addr: IpAddr, here: bool) -> bool {
        match (self, addr) {
            (Net::Any, _) => true,
            (Net::Host, _) => here,
            (Net::V4(net, bits), IpAddr::V4(addr)) => (net.to_bits() ^ addr.to_bits()) & mask4(bits) == 0,
            (Net::V6(net, bits), IpAddr::V6(addr)) => (net.to_bits() ^ addr.to_bits()) & mask6(bits) == 0,
            _ => false,
        }
    }

    /// Whether the set has a member of those a wildcard listener accepts on. One on `::` usually accepts
    /// IPv4 as well.
    fn meets(self, wildcard: IpAddr) -> bool {
        !(wildcard.is_ipv4() && matches!(self, Net::V6(..)))
    }

    /// Whether the set has all members of those a wildcard listener accepts on.
    fn holds_all_of(self, wildcard: IpAddr) -> bool {
        matches!(self, Net::Any | Net::Host) || (wildcard.is_ipv4() && matches!(self, Net::V4(_, 0)))
    }
}

/// The first bits of an IPv4 address.
fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

/// The first bits of an IPv6 address.
fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Channel => "channel",
            Action::Tcp => "tcp",
        };
        let direction = match self.direction {
            Some(Direction::Connect) => "connect",
            Some(Direction::Listen) => "listen",
            None => "any",
        };
        write!(f, "{action} {direction} {}", self.place)?;
        if self.program != Pattern::ANY {
            write!(f, " program={}", self.program)?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.net {
            Net::Any => f.write_str("*")?,
            Net::Host => f.write_str("localhost")?,
            Net::V4(addr, 32) => write!(f, "{addr}")?,
            Net::V4(addr, bits) => write!(f, "{addr}/{bits}")?,
            Net::V6(addr, 128) => write!(f, "[{addr}]")?,
            Net::V6(addr, bits) => write!(f, "[{addr}]/{bits}")?,
        }
        match self.ports {
            (0, u16::MAX) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}
