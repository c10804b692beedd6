//! Which program: its name, user, group and control group.

use std::fmt;

use crate::pattern::Pattern;

/// A process, as rules know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'a> {
    /// The last part of the path by which it was started.
    pub name: &'a [u8],
    /// Its effective user.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
    /// Its control group, as in /proc/self/cgroup; empty: not known, and in none that a rule could name.
    pub cgroup: &'a [u8],
}

impl<'a> Program<'a> {
    /// A program of which the name matters alone.
    pub fn named(name: &'a [u8]) -> Program<'a> {
        Program { name, user: 0, group: 0, cgroup: b"" }
    }
}

/// The programs that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) program: Pattern,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) within: Within,
    /// What the control group's path, or the unit, must match; `*` where `within` asks for none.
    pub(crate) cgroup: Pattern,
}

/// What a rule asks of the control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    /// Nothing.
    Anything,
    /// `cgroup=`: the whole path matches.
    Path,
    /// `unit=`: the innermost unit of systemd matches.
    Unit,
}

impl Who {
    pub(crate) const ANYBODY: Who = Who {
        program: Pattern::ANY,
        user: None,
        group: None,
        within: Within::Anything,
        cgroup: Pattern::ANY,
    };

    pub(crate) fn is_in(&self, cgroup: &[u8]) -> bool {
        match self.within {
            Within::Anything => true,
            Within::Path => !cgroup.is_empty() && self.cgroup.matches(cgroup),
            Within::Unit => unit(cgroup).is_some_and(|unit| self.cgroup.matches(unit)),
        }
    }
}

/// The innermost unit of systemd that a control group is of: the last part of its path that is a service or a scope.
pub fn unit(cgroup: &[u8]) -> Option<&[u8]> {
    let is_unit = |part: &&[u8]| part.ends_with(b".service") || part.ends_with(b".scope");
    cgroup.rsplit(|&byte| byte == b'/').find(is_unit)
}

/// The control group in the text of /proc/PID/cgroup: that of version 2, where there is one, or systemd's own of version 1.
/// What is on their line is the whole path, from `/` on.
pub fn cgroup(text: &[u8]) -> &[u8] {
    let of = |before: &[u8]| {
        text.split(|&byte| byte == b'\n').find_map(|line| {
            let rest = line.split(|&byte| byte == b':').next().map(|number| &line[number.len()..])?;
            rest.strip_prefix(before)
        })
    };
    match (of(b"::"), of(b":name=systemd:")) {
        // Where both are in use, systemd has its own one, and version 2 lies empty.
        (Some(b"/") | None, Some(path)) => path,
        (path, _) => path.unwrap_or_default(),
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.program != Pattern::ANY {
            write!(f, " program={}", self.program)?;
        }
        for (name, value) in [("user", self.user), ("group", self.group)] {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        match self.within {
            Within::Anything => Ok(()),
            Within::Path => write!(f, " cgroup={}", self.cgroup),
            Within::Unit => write!(f, " unit={}", self.cgroup),
        }
    }
}
