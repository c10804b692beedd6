//! From text to rules.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use dp_edge::sys::raw;

use crate::place::{mask4, mask6, Net, Place};
use crate::problem::{Problem, RuleError, Word};
use crate::who::Within;
use crate::{Action, Direction, Origin, Pattern, Rule, Rules};

/// Where names of users and groups have their numbers.
pub trait Names {
    /// The number of a user.
    fn user(&self, name: &str) -> Option<u32>;
    /// The number of a group.
    fn group(&self, name: &str) -> Option<u32>;
}

/// /etc/passwd and /etc/group alone: what else there is of names (NSS) is asked through code and sockets of others, which has
/// no business in a program that only wants to start.
pub struct Files;

impl Names for Files {
    fn user(&self, name: &str) -> Option<u32> {
        third_of(c"/etc/passwd", name)
    }

    fn group(&self, name: &str) -> Option<u32> {
        third_of(c"/etc/group", name)
    }
}

/// The number in the third field of the line whose first is `name`.
fn third_of(path: &std::ffi::CStr, name: &str) -> Option<u32> {
    let mut found = None;
    let _ = raw::read_lines(path, |line| {
        let mut fields = line.split(|&byte| byte == b':');
        if found.is_none() && fields.next() == Some(name.as_bytes()) {
            found = fields.nth(1).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        }
    });
    found
}

/// See [`Rules::read`].
pub(crate) fn rules(list: &mut Rules, text: &str, number: u16, names: &dyn Names) -> Result<(), RuleError> {
    for (index, line) in text.lines().enumerate() {
        let line_number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let rules_on_it = line.split('#').next().unwrap_or_default();
        for part in rules_on_it.split(';').filter(|part| !part.trim().is_empty()) {
            // Where a piece of the line begins in it, in characters from 1.
            let column = |piece: &str| {
                let before = piece.as_ptr() as usize - line.as_ptr() as usize;
                u32::try_from(line[..before].chars().count() + 1).unwrap_or(u32::MAX)
            };
            let rule = rule(part, names).map_err(|(word, problem)| RuleError {
                line: line_number,
                column: column(word),
                problem,
            })?;
            let origin = Origin { text: number, line: line_number, column: column(part.trim_start()) };
            list.push(rule, origin)?;
        }
    }
    Ok(())
}

/// What is wrong, and the word that it is wrong with, or the place behind the last.
type At<'a> = (&'a str, Problem);

/// Reads `ACTION DIRECTION ADDRESS [CONDITION=VALUE ...] [SETTING=VALUE ...]`.
fn rule<'a>(text: &'a str, names: &dyn Names) -> Result<Rule, At<'a>> {
    let mut words = text.split_whitespace();
    let end = &text[text.trim_end().len()..];
    let mut next = |what| words.next().ok_or((end, Problem::Missing(what)));
    let action = next("action")?;
    let action = match action {
        // Both words are read, and one is written.
        "channel" | "dp" => Action::Channel,
        "tcp" => Action::Tcp,
        "require" => Action::Require,
        "refuse" => Action::Refuse,
        other => return Err((other, Problem::Action(Word::new(other)))),
    };
    let direction = match next("direction")? {
        "connect" => Some(Direction::Connect),
        "listen" => Some(Direction::Listen),
        "any" => None,
        other => return Err((other, Problem::Direction(Word::new(other)))),
    };
    let place = next("address")?;
    let place = place.parse().map_err(|problem| (place, problem))?;
    let mut rule = Rule::new(action, direction, place);
    let mut named = 0;
    for word in words {
        option(&mut rule, word, &mut named, names).map_err(|problem| (word, problem))?;
    }
    Ok(rule)
}

/// What may stand behind the address; bit i of `named`: number i stood there.
const OPTIONS: [&str; 9] =
    ["program", "user", "group", "cgroup", "unit", "ring", "ring-long", "spin", "after"];

/// Takes one word behind the address into the rule.
#[inline(never)]
fn option(rule: &mut Rule, word: &str, named: &mut u16, names: &dyn Names) -> Result<(), Problem> {
    let split = word.split_once('=');
    let known = split.and_then(|(name, value)| Some((OPTIONS.iter().position(|o| *o == name)?, value)));
    let Some((i, value)) = known else { return Err(Problem::Extra(Word::new(word))) };
    let name = OPTIONS[i];
    if *named & 1 << i != 0 {
        return Err(Problem::Twice(name));
    }
    *named |= 1 << i;
    match name {
        "program" => {
            let kept = Pattern::new(value);
            rule.who.program = kept.ok_or_else(|| Problem::Pattern(Word::new(value), name, " or /"))?;
        }
        "user" => rule.who.user = Some(id(value, |name| names.user(name), "/etc/passwd")?),
        "group" => rule.who.group = Some(id(value, |name| names.group(name), "/etc/group")?),
        "cgroup" | "unit" => {
            if rule.who.within != Within::Anything {
                return Err(Problem::TwoGroups(name));
            }
            rule.who.within = if name == "unit" { Within::Unit } else { Within::Path };
            let kept = if name == "unit" { unit(value) } else { Pattern::path(value) };
            let also = if name == "unit" { " or /" } else { "" };
            rule.who.cgroup = kept.ok_or_else(|| Problem::Pattern(Word::new(value), name, also))?;
        }
        _ => setting(rule, name, value)?,
    }
    Ok(())
}

/// Takes a setting, which is one by its name.
#[inline(never)]
fn setting(rule: &mut Rule, name: &'static str, value: &str) -> Result<(), Problem> {
    if !rule.action.makes_channels() {
        return Err(Problem::Idle(name, rule.action.word()));
    }
    let Some((number, slot)) = rule.settings.slot(name) else { return Err(Problem::Extra(Word::new(name))) };
    let fits = |n: &u32| (number.low..=number.high).contains(&u64::from(*n));
    let wrong = || Problem::Number(Word::new(value), name, number.low, number.high, number.unit);
    *slot = Some(whole(value).filter(fits).ok_or_else(wrong)?);
    Ok(())
}

/// A pattern for units: as for systemctl(1), what has no ending is a service.
fn unit(text: &str) -> Option<Pattern> {
    const ENDING: &str = ".service";
    if text.contains('.') {
        return Pattern::new(text);
    }
    let mut whole = [0; crate::MAX_PATTERN];
    let len = text.len() + ENDING.len();
    whole.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    whole.get_mut(text.len()..len)?.copy_from_slice(ENDING.as_bytes());
    let pattern = Pattern::new(std::str::from_utf8(&whole[..len]).ok()?);
    pattern.filter(|_| !text.is_empty())
}

/// The number of a user or a group. The last one means "none" to the kernel.
fn id(text: &str, look_up: impl Fn(&str) -> Option<u32>, file: &'static str) -> Result<u32, Problem> {
    let number = whole(text).filter(|&id| id != u32::MAX);
    number.or_else(|| look_up(text)).ok_or_else(|| Problem::NoSuch(Word::new(text), file))
}

/// A plain decimal number; unlike `parse` alone it knows no sign.
fn whole(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

impl FromStr for Rule {
    type Err = Problem;

    /// Reads `ACTION DIRECTION ADDRESS [CONDITION=VALUE ...] [SETTING=VALUE ...]`.
    fn from_str(text: &str) -> Result<Rule, Problem> {
        rule(text, &Files).map_err(|(_, problem)| problem)
    }
}

impl FromStr for Place {
    type Err = Problem;

    /// Reads `ADDRESS[/PREFIX][:PORT[-PORT]]`; the address is IPv4, IPv6 in brackets, `localhost` or `*`.
    // Pieces of parsing that are not inlined: the stack is the program's.
    #[inline(never)]
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

/// [`whole`] of two bytes.
fn number(text: &str) -> Option<u16> {
    whole(text).and_then(|n| u16::try_from(n).ok())
}
