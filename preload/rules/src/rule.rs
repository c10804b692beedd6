//! One rule: what it is for, and what it says.

use std::fmt;
use std::net::IpAddr;

use crate::place::Place;
use crate::settings::Settings;
use crate::who::{Who, Within};
use crate::{Pattern, Question};

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A channel is offered or taken; the connection stays on TCP if the other side takes no part.
    Channel,
    /// The connection is left alone.
    Tcp,
    /// As `Channel`; a connection that cannot become one fails.
    Require,
    /// The connection is not made, or ended where it came in.
    Refuse,
}

impl Action {
    /// Whether a connection is to become a channel.
    pub fn makes_channels(self) -> bool {
        matches!(self, Action::Channel | Action::Require)
    }

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Action::Channel => "channel",
            Action::Tcp => "tcp",
            Action::Require => "require",
            Action::Refuse => "refuse",
        }
    }
}

/// Which side of a connection the program is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It called connect(2): the address in question is the remote one, as getpeername(2) tells it.
    Connect,
    /// It called accept(2): the address in question is its own, as getsockname(2) tells it.
    Listen,
}

impl Direction {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Connect => "connect",
            Direction::Listen => "listen",
        }
    }
}

/// One rule of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) action: Action,
    /// None: both.
    pub(crate) direction: Option<Direction>,
    pub(crate) place: Place,
    pub(crate) who: Who,
    pub(crate) settings: Settings,
}

/// The first thing about a question that a rule is not for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It is for the other direction.
    Direction,
    /// It is for other ports.
    Port,
    /// It is for other addresses.
    Address,
    /// It is for programs of another name.
    Program,
    /// It is for another user.
    User,
    /// It is for another group.
    Group,
    /// It is for another control group, or unit.
    Cgroup,
}

impl Rule {
    pub(crate) const HOST: Rule = Rule {
        action: Action::Channel,
        direction: None,
        place: Place::HOST,
        who: Who::ANYBODY,
        settings: Settings::NONE,
    };

    /// A rule for every program; no direction means both.
    pub fn new(action: Action, direction: Option<Direction>, place: Place) -> Rule {
        Rule { action, direction, place, ..Rule::HOST }
    }

    /// The same rule for programs whose name matches.
    pub fn for_program(mut self, program: Pattern) -> Rule {
        self.who.program = program;
        self
    }

    /// What it says.
    pub fn action(&self) -> Action {
        self.action
    }

    /// How channels are to be that it makes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether it is for connections in this direction.
    pub fn is_for(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|own| own == direction)
    }

    pub(crate) fn asks_for_users(&self) -> bool {
        self.who.user.is_some() || self.who.group.is_some()
    }

    pub(crate) fn asks_for_cgroups(&self) -> bool {
        self.who.within != Within::Anything
    }

    /// Why it does not match; None: it does. `addr` is that of the question, canonical.
    pub(crate) fn mismatch(&self, question: &Question, addr: IpAddr) -> Option<Mismatch> {
        let other_address = || (!self.place.net.contains(addr, question.here)).then_some(Mismatch::Address);
        self.mismatch_but_for_address(question).or_else(other_address)
    }

    pub(crate) fn mismatch_but_for_address(&self, question: &Question) -> Option<Mismatch> {
        let (who, program) = (&self.who, &question.program);
        let is = |own: Option<u32>, asked: u32| own.is_none_or(|own| own == asked);
        if !self.is_for(question.direction) {
            Some(Mismatch::Direction)
        } else if !self.place.has_port(question.port) {
            Some(Mismatch::Port)
        } else if !who.program.matches(program.name) {
            Some(Mismatch::Program)
        } else if !is(who.user, program.user) {
            Some(Mismatch::User)
        } else if !is(who.group, program.group) {
            Some(Mismatch::Group)
        } else if !who.is_in(program.cgroup) {
            Some(Mismatch::Cgroup)
        } else {
            None
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = self.direction.map_or("any", Direction::word);
        write!(f, "{} {direction} {}{}{}", self.action.word(), self.place, self.who, self.settings)
    }
}

/// What a person is told: what the rule is for, in the place of the question's.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mismatch::Direction => "another direction",
            Mismatch::Port => "other ports",
            Mismatch::Address => "other addresses",
            Mismatch::Program => "another program",
            Mismatch::User => "another user",
            Mismatch::Group => "another group",
            Mismatch::Cgroup => "another control group",
        })
    }
}
