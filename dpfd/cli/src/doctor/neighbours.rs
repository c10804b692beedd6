//! A process's connections that are open now, one by one: which line of its rules keeps one on TCP, and whose shim is of another
//! version than its own. What the shim counts has neither.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use dp_channel::family::Reason;
use dp_rules::config::{self, Found, Source};
use dp_rules::{Direction, Program, Question, Rules};

use super::{advice, process, Finding};
use crate::ls::families::{Family, State};
use crate::ls::sockets::{Sockets, Within};
use crate::rules::Line;

/// Of a process, and the family that it is of.
pub fn examine(pid: u32, family: &Family, families: &[Family], sockets: &mut Sockets) -> Vec<Finding> {
    let within = sockets.within(pid);
    let mut found = by_rules(pid, family, &within);
    if family.state == State::Idle && !within.is_empty() && found.is_empty() {
        found.push(unfollowed(within.len()));
    }
    found.extend(of_other_versions(family, &within, families));
    found.extend(by_other_ends(family, &within, families));
    found
}

/// So many are open, no rule keeps them on TCP, and the shim has noted none.
fn unfollowed(n: usize) -> Finding {
    let text = format!("{n} open within this host, and none is followed: they had no more than three calls, or the shim had no memory for its notes");
    let way_out = "a program that was started with DP_LOG=stderr tells where it is left alone, as by a filter that forbids memfd_create(2)";
    Finding::note("connections", text, way_out)
}

/// The rules by which connections are on TCP.
fn by_rules(pid: u32, family: &Family, within: &[Within]) -> Vec<Finding> {
    if within.is_empty() || !process::has_our_files(pid) {
        return Vec::new();
    }
    let environ = process::read(pid, "environ").unwrap_or_default();
    let variable = |name: &str| variable(&environ, name);
    let Some([user, group]) = process::effective(pid) else { return Vec::new() };
    let mut rules = Rules::DEFAULT;
    let found = match config::load_of(variable, user, &mut rules) {
        Ok(found) => found,
        // As of a program that is started now; one that runs may have read others.
        Err(error) => {
            let text = format!("it would find none that it could use now, and leave all on TCP: {error}");
            return vec![Finding::bad("rules", text, "mend that, and see dp rules check")];
        }
    };
    let (name, cgroup) = (process::own_name(pid, family), process::cgroup(pid));
    let program = Program { name: name.as_bytes(), user, group, cgroup: &cgroup };
    told(&rules, &found, program, within)
}

/// How many open connections each line keeps on TCP.
fn told(rules: &Rules, found: &Found, program: Program, within: &[Within]) -> Vec<Finding> {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for connection in within {
        let (direction, addr) = match connection.accepted {
            true => (Direction::Listen, connection.own),
            false => (Direction::Connect, connection.other),
        };
        let question = Question { program, direction, addr: addr.ip(), port: addr.port(), here: true };
        let decision = rules.decide(&question);
        if decision.action.makes_channels() {
            continue;
        }
        let line = decision.because.and_then(|i| Line::of(rules, i, Some(&found.source)));
        let line =
            line.map_or("no rule that matches".into(), |line| format!("{}: {}", line.place(), line.rule));
        *lines.entry(line).or_default() += 1;
    }
    let way_out = match found.source {
        Source::Environment => {
            "if they should be channels, start it with other rules: DP_RULES, or options of dp run"
        }
        _ => "change that if they should be channels (dp-preload.conf(5)), then dp rules reload",
    };
    let finding = |(line, n)| Finding::note("rules", format!("{n} open on TCP by {line}"), way_out);
    lines.into_iter().map(finding).collect()
}

pub fn variable(environ: &[u8], name: &str) -> Option<OsString> {
    let mut all = environ.split(|&byte| byte == 0);
    let value = all.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(OsStr::from_bytes(value).to_owned())
}

/// Programs at the other ends whose shim is of another version.
fn of_other_versions(family: &Family, within: &[Within], families: &[Family]) -> Vec<Finding> {
    let Some(own) = family.shim.as_deref() else { return Vec::new() };
    let mut others: BTreeMap<(u32, &str, &str), usize> = BTreeMap::new();
    for connection in within {
        let has = |other: &&Family| other.processes.iter().any(|p| connection.with.contains(&p.pid));
        let Some(other) = families.iter().find(has) else { continue };
        let (Some(its), Some(first)) = (other.shim.as_deref(), other.processes.first()) else { continue };
        let other_layout = family.layout.zip(other.layout).is_some_and(|(own, its)| own != its);
        if its != own || other_layout {
            *others.entry((first.pid, &first.program, its)).or_default() += 1;
        }
    }
    let finding = |((pid, program, its), n): ((u32, &str, &str), usize)| {
        let text = format!("{n} open with {program} ({pid}), whose shim is {its}; the one here is {own}");
        let way_out = match numbers(its).cmp(&numbers(own)) {
            std::cmp::Ordering::Less => format!("restart {program}, whose shim is the older one"),
            std::cmp::Ordering::Greater => "restart this program, whose shim is the older one".into(),
            std::cmp::Ordering::Equal => "restart the one of the two that was started first".into(),
        };
        Finding::note("version", text, way_out)
    };
    others.into_iter().map(finding).collect()
}

/// Connections that the other end keeps on TCP for a reason that this one cannot know.
fn by_other_ends(family: &Family, within: &[Within], families: &[Family]) -> Vec<Finding> {
    let reason_of = |family: &Family, own, other| {
        let entry = family.connections.iter().find(|c| (c.local, c.peer) == (own, other))?;
        Reason::ALL.iter().copied().find(|reason| entry.reason == Some(reason.word()))
    };
    // By these an end says that it was the other one.
    let is_guess =
        |reason| matches!(reason, Reason::NoDoor | Reason::NoOffer | Reason::Silent | Reason::PeerLeft);
    let mut others: BTreeMap<(u32, &str, &str), (usize, Reason)> = BTreeMap::new();
    for connection in within {
        let own = reason_of(family, connection.own, connection.other);
        if !own.is_none_or(is_guess) {
            continue;
        }
        let has = |other: &&Family| other.processes.iter().any(|p| connection.with.contains(&p.pid));
        let Some(other) = families.iter().find(has) else { continue };
        let its = reason_of(other, connection.other, connection.own).filter(|reason| !is_guess(*reason));
        if let (Some(its), Some(first)) = (its, other.processes.first()) {
            others.entry((first.pid, &first.program, its.word())).or_insert((0, its)).0 += 1;
        }
    }
    let finding = |((pid, program, word), (n, its)): ((u32, &str, &str), (usize, Reason))| {
        let text = format!("{n} open with {program} ({pid}), which has them on TCP, {word}: {}", its.text());
        let way_out = advice::of(its).unwrap_or("see dp doctor of that program");
        Finding::note("other end", text, way_out)
    };
    others.into_iter().map(finding).collect()
}

/// `0.10.1` is behind `0.9.0`.
fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-', '+']).map_while(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ls::tests::listing;

    fn within(own: &str, other: &str, accepted: bool, with: u32) -> Within {
        let end = |text: &str| text.parse().unwrap();
        Within { own: end(own), other: end(other), accepted, with: [with].into() }
    }

    #[test]
    fn the_line_that_keeps_a_connection_on_tcp_is_named() {
        let text = "tcp listen *:7000 program=redis*; tcp connect localhost:9-10; channel any localhost";
        let env = |name: &str| (name == "DP_RULES").then(|| OsString::from(text));
        let mut rules = Rules::DEFAULT;
        let found = config::load_of(env, 0, &mut rules).unwrap();
        let all = [
            within("127.0.0.1:7000", "127.0.0.1:40000", true, 5),
            within("127.0.0.1:7000", "127.0.0.1:40001", true, 5),
            within("127.0.0.1:40002", "127.0.0.1:9", false, 5),
            within("127.0.0.1:40003", "127.0.0.1:11", false, 5),
        ];
        let told = told(&rules, &found, Program::named(b"redis-server"), &all);
        let texts: Vec<&str> = told.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "2 open on TCP by DP_RULES:1:1: tcp listen *:7000 program=redis*",
                "1 open on TCP by DP_RULES:1:35: tcp connect localhost:9-10",
            ]
        );
    }

    #[test]
    fn what_the_other_end_knows_is_told() {
        let mut families = listing().families;
        let mut client = families[0].clone();
        client.processes.truncate(1);
        (client.processes[0].pid, client.processes[0].program) = (90, "redis-cli".into());
        client.connections.remove(0);
        families[0].connections.remove(0);
        let [own, other] = ["127.0.0.1:7000", "127.0.0.1:40000"].map(|end| end.parse().unwrap());
        (client.connections[0].local, client.connections[0].peer) = (other, own);
        let open = [within("127.0.0.1:40000", "127.0.0.1:7000", false, 71)];
        for (ours, theirs, expected) in [
            (
                "no-door",
                "slots",
                Some("1 open with redis-server (71), which has them on TCP, slots: As many"),
            ),
            ("silent", "memory", Some("1 open with redis-server (71), which has them on TCP, memory: There")),
            ("option", "slots", None),
            ("peer-left", "no-offer", None),
        ] {
            client.connections[0].reason = Some(ours);
            families[0].connections[0].reason = Some(theirs);
            let told = by_other_ends(&client, &open, &families);
            match expected {
                Some(text) => assert!(told.len() == 1 && told[0].text.starts_with(text), "{told:?}"),
                None => assert_eq!(told, [], "{ours}, {theirs}"),
            }
        }
    }

    #[test]
    fn the_older_one_of_two_versions_is_named() {
        let mut families = listing().families;
        let mut client = families[0].clone();
        client.processes.truncate(1);
        (client.processes[0].pid, client.processes[0].program) = (90, "redis-cli".into());
        client.shim = Some("0.0.9".into());
        families.push(client);
        let open = [within("127.0.0.1:7000", "127.0.0.1:40000", true, 90)];
        let told = of_other_versions(&families[0], &open, &families);
        assert_eq!(told[0].text, "1 open with redis-cli (90), whose shim is 0.0.9; the one here is 0.1.0");
        assert_eq!(told[0].way_out.as_deref(), Some("restart redis-cli, whose shim is the older one"));
        let open = [within("127.0.0.1:40000", "127.0.0.1:7000", false, 71)];
        let told = of_other_versions(&families[1], &open, &families);
        assert!(told[0].way_out.as_ref().is_some_and(|out| out.starts_with("restart this program")));
        families[1].shim = Some("0.1.0".into());
        assert_eq!(of_other_versions(&families[1], &open, &families), []);
        assert!(numbers("0.10.1") > numbers("0.9.0") && numbers("1.2.3-rc1") == numbers("1.2.3"));
    }
}
