//! Which lines are wanted.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Parser;
use dp_channel::family::Reason;
use dp_rules::Pattern;

use super::families::{Connection, Family};
use super::Listing;

/// Options that name some of the lines. Those of one kind are alternatives; each kind narrows.
#[derive(clap::Args, Default, Clone)]
pub struct Filter {
    /// Only what belongs to these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pid: Vec<u32>,
    /// Only programs with such a name; * stands for any characters, ? for one.
    #[arg(long, value_name = "NAME", value_parser = pattern)]
    program: Vec<Pattern>,
    /// Only connections in these states.
    #[arg(long, value_delimiter = ',', value_parser = Connection::STATES)]
    state: Vec<String>,
    /// Only connections that are on TCP for these reasons, which dp-preload(7) explains.
    #[arg(long, value_delimiter = ',', value_parser = reasons())]
    reason: Vec<&'static str>,
}

pub fn pid(text: &str) -> Result<u32, String> {
    let known = "the number of a process, as ps shows it; names stand behind --program";
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| known.into())
}

pub fn pattern(text: &str) -> Result<Pattern, String> {
    let known = "a name of up to 63 bytes without white space, /, ; and #";
    Pattern::new(text).ok_or_else(|| known.into())
}

/// Shells complete what it knows.
fn reasons() -> impl TypedValueParser<Value = &'static str> {
    let words = || Reason::ALL.iter().filter(|&&reason| reason != Reason::None).map(|reason| reason.word());
    PossibleValuesParser::new(words())
        .map(move |text| words().find(|&word| word == text).expect("one of these"))
}

/// Bytes that the kernel keeps of a program's name.
pub const CUT: usize = 15;

/// Whether a program with this name, which the kernel may have cut, is one of those that are asked for. A name that is longer
/// than that is asked for as it is written; with `*` or `?` it cannot be told where it would be cut.
pub fn is_called(asked: &Pattern, name: &str) -> bool {
    let whole = asked.to_string();
    let cut =
        whole.len() > CUT && name.len() >= CUT && !whole.contains(['*', '?']) && whole.starts_with(name);
    cut || asked.matches(name.as_bytes())
}

/// Whether one of those asked for is `so`, if any are.
pub fn is_one<T>(asked: &[T], so: impl Fn(&T) -> bool) -> bool {
    asked.is_empty() || asked.iter().any(so)
}

/// As a line that is typed while a list is on the screen.
#[derive(clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Typed {
    #[command(flatten)]
    filter: Filter,
}

impl Filter {
    /// Of a line with the same options; a word by itself is a program's name.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line.
    pub fn typed(line: &str) -> Result<Filter, String> {
        let mut words = Vec::new();
        let mut value_follows = false;
        for word in line.split_whitespace() {
            if !value_follows && !word.starts_with('-') {
                words.push("--program".to_string());
            }
            value_follows = !value_follows && word.starts_with("--") && !word.contains('=');
            words.push(word.to_string());
        }
        let first_line = |error: clap::Error| {
            let said = error.to_string();
            said.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
        };
        Typed::try_parse_from(words).map(|typed| typed.filter).map_err(first_line)
    }

    /// Takes what is not wanted out of `listing`.
    pub fn apply(&self, listing: &mut Listing) {
        listing.families.retain_mut(|family| self.narrow(family));
        let graph = &mut listing.graph;
        graph.endpoints.retain(|e| {
            !self.names_connections() && self.is_of(e.pid as u32, e.program.as_deref().unwrap_or(""))
        });
        let wanted = |end: &str| graph.endpoints.iter().any(|e| e.dpid.to_string() == end);
        graph.edges.retain(|edge| wanted(&edge.from) || wanted(&edge.to));
        if self.asks() {
            for node in listing.gateway.iter_mut().flat_map(|gateway| &mut gateway.nodes) {
                node.flows.retain(|flow| wanted(&flow.here));
            }
            let nodes = listing.gateway.iter_mut().map(|gateway| &mut gateway.nodes);
            nodes.for_each(|nodes| nodes.retain(|node| !node.flows.is_empty()));
            listing.gateway = listing.gateway.take().filter(|gateway| !gateway.nodes.is_empty());
        }
    }

    fn asks(&self) -> bool {
        self.names_connections() || !self.pid.is_empty() || !self.program.is_empty()
    }

    /// Only connections have a state and a reason.
    fn names_connections(&self) -> bool {
        !self.state.is_empty() || !self.reason.is_empty()
    }

    fn is_of(&self, pid: u32, program: &str) -> bool {
        is_one(&self.pid, |&asked| asked == pid) && is_one(&self.program, |asked| is_called(asked, program))
    }

    /// Leaves the connections that are wanted; whether anything of the family is.
    fn narrow(&self, family: &mut Family) -> bool {
        family.connections.retain(|c| {
            self.is_of(c.pid, &c.program)
                && is_one(&self.state, |asked| asked == c.state)
                && is_one(&self.reason, |&asked| c.reason == Some(asked))
        });
        let counted =
            !self.reason.is_empty() && self.reason.iter().any(|why| family.on_tcp.contains_key(why));
        let is_of = family.processes.iter().any(|p| self.is_of(p.pid, &p.program));
        is_of && (!self.names_connections() || !family.connections.is_empty() || counted)
    }
}
