//! From text to rules, and what is said about text that is none.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use super::{mask4, mask6, Action, Direction, Net, Pattern, Place, Rule, Rules, MAX_PATTERN, MAX_RULES};

/// A rule that cannot be used: which one, and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("rule {rule}{}: {problem}", on_line(*line))]
pub struct RuleError {
    /// The line of the text, from 1; 0 when the rules came from no text.
    pub line: usize,
    /// The rule's place in the list, from 1; comments and empty lines do not count.
    pub rule: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a rule, and what can stand there instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The first word.
    #[error("{0} is not an action; write channel or tcp")]
    Action(Word),
    /// The second word.
    #[error("{0} is not a direction; write connect, listen or any")]
    Direction(Word),
    /// The rule ends too early.
    #[error(
        "the {0} is missing; a rule reads ACTION DIRECTION ADDRESS, as in channel connect 127.0.0.1:6379"
    )]
    Missing(&'static str),
    /// The rule goes on after its end.
    #[error("{0} is one word too many; only program=NAME may follow the address")]
    Extra(Word),
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
    /// What follows `program=`.
    #[error("{0} names no program; write 1 to {MAX_PATTERN} characters without / ; # or space, where * and ? stand for any")]
    Program(Word),
    /// More rules than a list can hold.
    #[error("a list holds at most {MAX_RULES} rules, the final one for localhost included; join some by prefixes or port ranges")]
    TooMany,
}

/// A word of somebody else's text, cut to 60 characters and with unprintable ones escaped, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(String);

impl Word {
    const LONGEST: usize = 60;

    fn new(text: impl fmt::Display) -> Word {
        let text = text.to_string();
        let mut word: String = text.chars().take(Word::LONGEST).flat_map(char::escape_debug).collect();
        if text.chars().nth(Word::LONGEST).is_some() {
            word.push_str("...");
        }
        if word.is_empty() {
            word.push_str("(nothing)");
        }
        Word(word)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn on_line(line: usize) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(" on line {line}")
    }
}

impl RuleError {
    pub(super) fn too_many() -> RuleError {
        RuleError { line: 0, rule: MAX_RULES + 1, problem: Problem::TooMany }
    }
}

/// See [`Rules::parse`].
pub(super) fn rules(text: &str) -> Result<Rules, RuleError> {
    let mut list = Rules { len: 0, ..Rules::DEFAULT };
    for (index, line) in text.lines().enumerate() {
        let rules_on_it = line.split('#').next().unwrap_or_default();
        for words in rules_on_it.split(';').filter(|part| !part.trim().is_empty()) {
            let at = |problem| RuleError { line: index + 1, rule: list.len + 1, problem };
            let rule = words.parse().map_err(at)?;
            list.push(rule).map_err(|error| RuleError { line: index + 1, ..error })?;
        }
    }
    list.complete().map_err(|error| RuleError { line: text.lines().count(), ..error })?;
    Ok(list)
}

impl FromStr for Rule {
    type Err = Problem;

    /// Reads `ACTION DIRECTION ADDRESS [program=NAME]`.
    fn from_str(text: &str) -> Result<Rule, Problem> {
        let mut words = text.split_whitespace();
        let action = match words.next() {
            Some("channel") => Action::Channel,
            Some("tcp") => Action::Tcp,
            Some(other) => return Err(Problem::Action(Word::new(other))),
            None => return Err(Problem::Missing("action")),
        };
        let direction = match words.next() {
            Some("connect") => Some(Direction::Connect),
            Some("listen") => Some(Direction::Listen),
            Some("any") => None,
            Some(other) => return Err(Problem::Direction(Word::new(other))),
            None => return Err(Problem::Missing("direction")),
        };
        let place = words.next().ok_or(Problem::Missing("address"))?.parse()?;
        let rule = Rule::new(action, direction, place);
        let Some(word) = words.next() else { return Ok(rule) };
        let Some(name) = word.strip_prefix("program=") else { return Err(Problem::Extra(Word::new(word))) };
        let program = Pattern::new(name).ok_or_else(|| Problem::Program(Word::new(name)))?;
        match words.next() {
            Some(word) => Err(Problem::Extra(Word::new(word))),
            None => Ok(rule.for_program(program)),
        }
    }
}

impl FromStr for Place {
    type Err = Problem;

    /// Reads `ADDRESS[/PREFIX][:PORT[-PORT]]`; the address is IPv4, IPv6 in brackets, `localhost` or `*`.
    fn from_str(text: &str) -> Result<Place, Problem> {
        let no_address = || Problem::Address(Word::new(text));
        let (address, ports) = split_ports(text)?;
        let ports = ports.map_or(Ok((0, u16::MAX)), parse_ports)?;
        let (name, prefix) = match address.split_once('/') {
            Some((name, prefix)) => (name, Some(prefix)),
            None => (address, None),
        };
        let net = match name {
            "*" if prefix.is_none() => Net::Any,
            "localhost" if prefix.is_none() => Net::Host,
            _ => match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(v6) => net6(v6.parse().map_err(|_| no_address())?, prefix, address)?,
                None => net4(name.parse().map_err(|_| no_address())?, prefix, address)?,
            },
        };
        Ok(Place { net, ports })
    }
}

/// Parts the address from the ports, at the colon that stands outside of brackets.
fn split_ports(text: &str) -> Result<(&str, Option<&str>), Problem> {
    let from = text.find(']').unwrap_or(0);
    let Some(colon) = text[from..].find(':').map(|at| from + at) else {
        let is_port = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        return if is_port { Err(Problem::BarePort(Word::new(text))) } else { Ok((text, None)) };
    };
    let (address, ports) = (&text[..colon], &text[colon + 1..]);
    if ports.contains(':') {
        return Err(Problem::Brackets(Word::new(text)));
    }
    Ok((address, Some(ports)))
}

fn parse_ports(text: &str) -> Result<(u16, u16), Problem> {
    let port = |word: &str| match number(word) {
        Some(port @ 1..) => Ok(port),
        _ => Err(Problem::Port(Word::new(text))),
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None if text == "*" => (0, u16::MAX),
        None => (port(text)?, port(text)?),
    };
    if first > last {
        return Err(Problem::PortOrder(Word::new(text), Word::new(format_args!("{last}-{first}"))));
    }
    Ok((first, last))
}

fn net4(addr: Ipv4Addr, prefix: Option<&str>, text: &str) -> Result<Net, Problem> {
    let bits = prefix_length(prefix, 32)?;
    let masked = Ipv4Addr::from_bits(addr.to_bits() & mask4(bits));
    if masked != addr {
        return Err(host_bits(text, Net::V4(masked, bits)));
    }
    Ok(Net::V4(addr, bits))
}

fn net6(addr: Ipv6Addr, prefix: Option<&str>, text: &str) -> Result<Net, Problem> {
    let bits = prefix_length(prefix, 128)?;
    let masked = Ipv6Addr::from_bits(addr.to_bits() & mask6(bits));
    if masked != addr {
        return Err(host_bits(text, Net::V6(masked, bits)));
    }
    // Sockets tell v4-mapped addresses for IPv4 peers; rules know them as IPv4 only.
    Ok(match addr.to_ipv4_mapped() {
        Some(v4) if bits >= 96 => Net::V4(v4, bits - 96),
        _ => Net::V6(addr, bits),
    })
}

fn host_bits(text: &str, net: Net) -> Problem {
    Problem::HostBits(Word::new(text), Word::new(Place { net, ports: (0, u16::MAX) }))
}

fn prefix_length(text: Option<&str>, longest: u8) -> Result<u8, Problem> {
    let Some(text) = text else { return Ok(longest) };
    number(text)
        .and_then(|bits| u8::try_from(bits).ok())
        .filter(|bits| *bits <= longest)
        .ok_or_else(|| Problem::Prefix(Word::new(text), longest))
}

/// A plain decimal number; unlike `parse` alone it knows no sign.
fn number(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}
