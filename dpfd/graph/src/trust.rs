//! How far a route is trusted: what is done to frames on it, and who users of other nodes are here.
//!
//! A frame says which user sent it. That is a claim: a node whose frames are authenticated can make it, and whoever gets
//! at the wire of a route whose frames are not. So nobody is believed unless the graph says so, number by number.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use dp_route::xdp::Xdp;
use thiserror::Error;

use crate::speed::Speed;

/// The user that all users of other nodes are who are not mapped: `nobody`, who owns nothing.
pub const NOBODY: u32 = 65534;
/// The greatest number that a user can have.
const USER_MAX: u32 = u32::MAX - 1;

/// What is done to frames on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// Nothing: whoever gets at its wire can read, forge and replay frames.
    None,
    /// Frames are from a node of the graph, as they were sent, and come once.
    Authenticate,
    /// And nobody else can read them.
    Encrypt,
}

impl Security {
    const ALL: [(&'static str, Security); 3] =
        [("none", Security::None), ("authenticate", Security::Authenticate), ("encrypt", Security::Encrypt)];

    /// All words for it.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Security::ALL.into_iter().map(|(word, _)| word)
    }

    /// The word for it in a file.
    pub fn word(self) -> &'static str {
        Security::ALL.iter().find(|(_, security)| *security == self).map_or("", |(word, _)| word)
    }

    /// What this word means.
    pub fn of_word(word: &str) -> Option<Security> {
        Security::ALL.iter().find(|(known, _)| *known == word).map(|(_, security)| *security)
    }

    /// Where a graph says nothing: `eth` goes no further than one segment, whose machines can stop each other in any case, and
    /// the kernel driver's frames on it are as they are; `sim` leaves no process. All others, of which nobody knows where they
    /// lead, are authenticated.
    pub fn by_default(route: &str) -> Security {
        match route {
            "eth" | "sim" => Security::None,
            _ => Security::Authenticate,
        }
    }
}

/// Users of other nodes, and who they are here: those from the first number on are the users from `here` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Their numbers there.
    pub there: RangeInclusive<u32>,
    /// The first one's number here. There is room for all of them up to 4294967294.
    pub here: u32,
}

/// Who users of other nodes are here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Users {
    /// All are [`NOBODY`].
    #[default]
    Squash,
    /// Those that are named are users of this node, all others [`NOBODY`]. No number is in two ranges.
    Map(Vec<Mapped>),
}

impl Users {
    /// Who a user of another node is here.
    ///
    /// ```
    /// use dp_graph::trust::{Users, NOBODY};
    ///
    /// let users = Users::Map(vec!["1000-1999:5000".parse()?, "0:1".parse()?]);
    /// assert_eq!([1000, 1007, 0, 4711].map(|user| users.here(user)), [5000, 5007, 1, NOBODY]);
    /// assert_eq!(Users::Squash.here(0), NOBODY);
    /// # Ok::<(), dp_graph::trust::BadMapped>(())
    /// ```
    pub fn here(&self, there: u32) -> u32 {
        self.mapped(there).unwrap_or(NOBODY)
    }

    /// The same of one who is mapped; of all others nothing. Who lets somebody in asks this: a user of this node may have the
    /// number of [`NOBODY`].
    ///
    /// ```
    /// use dp_graph::trust::{Users, NOBODY};
    ///
    /// let users = Users::Map(vec!["1000:65534".parse()?]);
    /// assert_eq!([1000, 1001].map(|user| users.mapped(user)), [Some(NOBODY), None]);
    /// # Ok::<(), dp_graph::trust::BadMapped>(())
    /// ```
    pub fn mapped(&self, there: u32) -> Option<u32> {
        let Users::Map(all) = self else { return None };
        let of = all.iter().find(|mapped| mapped.there.contains(&there) && there <= USER_MAX);
        let here = of.and_then(|mapped| mapped.here.checked_add(there - mapped.there.start()));
        here.filter(|here| *here <= USER_MAX)
    }

    /// The word for it in a file.
    pub fn word(&self) -> &'static str {
        match self {
            Users::Squash => "squash",
            Users::Map(_) => "map",
        }
    }
}

/// What a text is that maps no users.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadMapped {
    /// It is written otherwise.
    #[error(
        "{0:?} maps no users; write THERE:HERE or FIRST-LAST:HERE, as in \"1000:1000\" or \"1000-1999:5000\""
    )]
    Form(String),
    /// Numbers that no user has.
    #[error("{0:?} goes beyond the users that there can be; numbers go from 0 to {USER_MAX}, the first of a range first")]
    Range(String),
}

impl FromStr for Mapped {
    type Err = BadMapped;

    fn from_str(text: &str) -> Result<Mapped, BadMapped> {
        let number = |digits: &str| {
            let form = || BadMapped::Form(text.into());
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(form());
            }
            digits.parse::<u32>().ok().filter(|n| *n <= USER_MAX).ok_or_else(|| BadMapped::Range(text.into()))
        };
        let (there, here) = text.split_once(':').ok_or_else(|| BadMapped::Form(text.into()))?;
        let (first, last) = there.split_once('-').unwrap_or((there, there));
        let (first, last, here) = (number(first)?, number(last)?, number(here)?);
        if first > last || here.checked_add(last - first).is_none_or(|end| end > USER_MAX) {
            return Err(BadMapped::Range(text.into()));
        }
        Ok(Mapped { there: first..=last, here })
    }
}

impl fmt::Display for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.there.start(), self.there.end());
        write!(f, "{first}")?;
        if first != last {
            write!(f, "-{last}")?;
        }
        write!(f, ":{}", self.here)
    }
}

/// What a graph says of one route: how far it is trusted, how quick its link is, and of Ethernet how it is received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The route.
    pub route: String,
    /// What is done to frames.
    pub security: Security,
    /// Who users are.
    pub users: Users,
    /// How quick its link is; nothing: flows find that out.
    pub speed: Option<Speed>,
    /// Of `eth`: whether frames are taken by AF_XDP.
    pub xdp: Xdp,
}

#[cfg(test)]
mod tests;
