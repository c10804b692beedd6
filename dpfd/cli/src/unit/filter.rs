//! SystemCallFilter= and RestrictAddressFamilies=: what a unit's list leaves forbidden of that which the shim needs, and whether
//! a line of ours allows it.

use std::collections::HashSet;
use std::process::Command;

/// Calls that systemd allows in every list of allowed ones, by its name.
const ALWAYS: &str = "@default";

/// What a group like `@system-service` has; None: that cannot be told here.
pub type Groups<'a> = &'a dyn Fn(&str) -> Option<Vec<String>>;

/// What the list is of.
#[derive(Clone, Copy)]
pub enum Of<'a> {
    Calls(Groups<'a>),
    Families,
}

/// A line where our drop-in is read would not hold, or would begin the list and so forbid all else.
#[derive(Debug, PartialEq, Eq)]
pub struct Undone;

/// Those of `needed` that must be allowed by a line between the assignments `before` and `after`. What a word that cannot be told
/// may forbid is among them: to allow once more what is allowed changes nothing.
pub fn missing<'a>(
    before: &[&str],
    after: &[&str],
    needed: &[&'a str],
    of: Of,
) -> Result<Vec<&'a str>, Undone> {
    let read = |parts: &[&[&str]]| List::read(&parts.concat(), needed, of);
    let Some(without) = read(&[before, after]) else { return Ok(Vec::new()) };
    let missing = without.forbidden(needed);
    if missing.is_empty() {
        return Ok(missing);
    }
    let ours = missing.join(" ");
    let with = read(&[before, &[ours.as_str()], after]);
    let holds = read(&[before]).is_some()
        && with.is_some_and(|with| with.forbids == without.forbids && with.forbidden(needed).is_empty());
    holds.then_some(missing).ok_or(Undone)
}

/// A list as systemd has read it so far.
struct List<'a> {
    /// It names what is forbidden; otherwise, what is allowed.
    forbids: bool,
    /// False after `none`, which forbids all until the next assignment begins a list anew.
    is_begun: bool,
    /// Those of the needed that it allows for certain.
    allowed: HashSet<&'a str>,
}

impl<'a> List<'a> {
    /// None: there is no list, and all is allowed.
    fn read(assignments: &[&str], needed: &[&'a str], of: Of) -> Option<List<'a>> {
        let mut list: Option<List> = None;
        for &assignment in assignments {
            if assignment.is_empty() {
                list = None;
                continue;
            }
            if matches!(of, Of::Families) && assignment == "none" {
                list = Some(List { forbids: false, is_begun: false, allowed: HashSet::new() });
                continue;
            }
            let (names, inverted) = match assignment.strip_prefix('~') {
                Some(names) => (names, true),
                None => (assignment, false),
            };
            let begun = list.take().filter(|list| list.is_begun);
            // The first one says whether the list is of what is allowed or of what is forbidden.
            let mut now = begun.unwrap_or_else(|| List::begin(inverted, needed, of));
            for word in names.split_whitespace() {
                // `name:errno` says with what a forbidden one fails.
                now.set(word.split(':').next().unwrap_or(word), !inverted, needed, of);
            }
            list = Some(now);
        }
        list
    }

    fn begin(forbids: bool, needed: &[&'a str], of: Of) -> List<'a> {
        let allowed = if forbids { needed.iter().copied().collect() } else { HashSet::new() };
        let mut list = List { forbids, is_begun: true, allowed };
        if !forbids && matches!(of, Of::Calls(_)) {
            list.set(ALWAYS, true, needed, of);
        }
        list
    }

    fn set(&mut self, name: &str, allow: bool, needed: &[&'a str], of: Of) {
        let members = match of {
            Of::Calls(groups) => expand(name, groups, 0),
            Of::Families => Some(vec![name.to_owned()]),
        };
        match members {
            Some(members) => {
                for name in needed.iter().filter(|name| members.iter().any(|member| member == *name)) {
                    match allow {
                        true => self.allowed.insert(*name),
                        false => self.allowed.remove(*name),
                    };
                }
            }
            // It may forbid each of them, and allows none for certain.
            None if !allow => self.allowed.clear(),
            None => {}
        }
    }

    fn forbidden(&self, needed: &[&'a str]) -> Vec<&'a str> {
        needed.iter().copied().filter(|name| !self.allowed.contains(name)).collect()
    }
}

fn expand(name: &str, groups: Groups, depth: u32) -> Option<Vec<String>> {
    const DEEPEST: u32 = 8;
    if !name.starts_with('@') {
        return Some(vec![name.to_owned()]);
    }
    let members = (depth < DEEPEST).then(|| groups(name)).flatten()?;
    let expanded: Option<Vec<_>> = members.iter().map(|member| expand(member, groups, depth + 1)).collect();
    Some(expanded?.concat())
}

/// As the systemd that is installed here tells.
pub fn of_systemd(group: &str) -> Option<Vec<String>> {
    let said = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", group]).output().ok()?;
    let text = String::from_utf8(said.stdout).ok().filter(|_| said.status.success())?;
    let names = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Some(names.map(str::to_owned).collect())
}
