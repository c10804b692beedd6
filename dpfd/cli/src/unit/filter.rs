//! SystemCallFilter=: which of the shim's calls a unit's filter lacks.

use std::collections::HashSet;
use std::process::Command;

/// Calls that systemd allows in every list of allowed ones, by its name.
const ALWAYS: &str = "@default";

/// What a group like `@system-service` has; None: that cannot be told here.
pub type Groups<'a> = &'a dyn Fn(&str) -> Option<Vec<String>>;

/// Those of `needed` that the words of all assignments, in their order, leave forbidden; all of them, if one of the words
/// cannot be told: to allow once more what is allowed changes nothing.
pub fn missing<'a>(assignments: &[&str], needed: &[&'a str], groups: Groups) -> Vec<&'a str> {
    // The first one says whether the list is of what is allowed or of what is forbidden.
    let Some(forbids) = assignments.first().map(|first| first.starts_with('~')) else { return Vec::new() };
    let mut listed = HashSet::new();
    let mut all = assignments.to_vec();
    if !forbids {
        all.insert(0, ALWAYS);
    }
    for assignment in all {
        let (names, inverted) = match assignment.strip_prefix('~') {
            Some(names) => (names, true),
            None => (assignment, false),
        };
        for word in names.split_whitespace() {
            // `name:errno` says with what a forbidden one fails.
            let name = word.split(':').next().unwrap_or(word);
            let Some(calls) = expand(name, groups, 0) else { return needed.to_vec() };
            for call in calls {
                match inverted == forbids {
                    true => listed.insert(call),
                    false => listed.remove(&call),
                };
            }
        }
    }
    needed.iter().copied().filter(|call| listed.contains(*call) == forbids).collect()
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
