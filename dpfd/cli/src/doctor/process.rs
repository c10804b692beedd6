//! One process: whether it has the shim, what limits it, and what became of its connections.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dp_channel::family::Reason;

use super::unit::{self, Service};
use super::{advice, beyond, host, neighbours, variables, Finding, Verdict};
use crate::ls::families::{Family, State};
use crate::ls::processes;
use crate::ls::sockets::Sockets;
use crate::program::Starter;
use crate::unit::{of_systemd, Hindrances};
use crate::{needs, program, shim};

pub fn read(pid: u32, name: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/{name}")).ok()
}

fn text(pid: u32, name: &str) -> Option<String> {
    read(pid, name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Its name up to 15 bytes, on one line.
pub fn comm(pid: u32) -> Option<String> {
    text(pid, "comm").map(|name| one_line(name.strip_suffix('\n').unwrap_or(&name)))
}

/// A program gives itself its name, and its file another: none of them must be able to add lines, or to steer the terminal.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `redis-server (71)`.
pub fn name(pid: u32) -> String {
    format!("{} ({pid})", comm(pid).unwrap_or_default())
}

fn status(pid: u32, field: &str) -> Option<u64> {
    let status = text(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The process that started it.
pub fn parent(pid: u32) -> Option<u32> {
    status(pid, "PPid").and_then(|n| n.try_into().ok())
}

/// Its effective user and group.
pub fn effective(pid: u32) -> Option<[u32; 2]> {
    let status = text(pid, "status")?;
    let second = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some([second("Uid:")?, second("Gid:")?])
}

/// Whether what it finds by a path is what this process finds there.
pub fn has_our_files(pid: u32) -> bool {
    let root =
        |pid: &str| fs::metadata(format!("/proc/{pid}/root/")).map(|data| (data.dev(), data.ino())).ok();
    root(&pid.to_string()).is_some_and(|its| Some(its) == root("self"))
}

/// The last part of the path by which it was started, which rules go by. Its family keeps 16 bytes.
pub fn own_name(pid: u32, family: &Family) -> String {
    let process = family.processes.iter().find(|process| process.pid == pid);
    let kept = process.map_or_else(String::new, |process| process.program.clone());
    let line = read(pid, "cmdline").unwrap_or_default();
    let first =
        String::from_utf8_lossy(line.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let whole = first.rsplit('/').next().unwrap_or_default();
    if whole.starts_with(&kept) && kept.len() >= 16 || kept.is_empty() {
        whole.into()
    } else {
        kept
    }
}

/// A program that does not run, as far as can be seen: whether it could have the shim.
pub fn of_file(file: &Path, runs_not: bool) -> Vec<Finding> {
    if let Some(why) = program::obstacle_here(file, std::env::var_os("ASAN_OPTIONS").as_deref()) {
        return vec![Finding::bad("program", why.to_string(), why.way_out())];
    }
    // Root, who asks before a rollout, does not meet what the user meets who will run the program.
    if let Some(why) = program::obstacle_for(file, Starter::default()) {
        let text = format!("{why}, where others than you start it");
        return vec![Finding::note("program", text, why.way_out())];
    }
    let now = if runs_not { "; it does not run now" } else { "" };
    vec![Finding::fine("program", format!("takes the shim{now}: dp run -- starts it with it"))]
}

/// All that there is to say.
pub fn examine(pid: u32, families: &[Family]) -> Vec<Finding> {
    if !processes::may_see(pid) {
        let way_out = "ask as that user, or as root";
        return vec![Finding::bad("rights", "it belongs to another user, or is more than you are", way_out)];
    }
    let family = families.iter().find(|family| family.processes.iter().any(|process| process.pid == pid));
    let Some(family) = family else { return vec![told_without(pid)] };
    let mut found = vec![with(family)];
    // As on a host where none can be a channel.
    found.extend(
        [host::kernel(), host::pages()].into_iter().filter(|finding| finding.verdict != Verdict::Fine),
    );
    found.extend(variables::examine(&read(pid, "environ").unwrap_or_default(), |place| {
        variables::writes(pid, place)
    }));
    found.extend(surroundings(pid));
    if family.state == State::On {
        found.extend(connections(family));
    } else if family.state == State::Idle {
        found.push(Finding::fine(
            "connections",
            "none yet that could become a channel: TCP within this host, with more than three calls",
        ));
    }
    if matches!(family.state, State::On | State::Idle) {
        let mut sockets = Sockets::default();
        found.extend(neighbours::examine(pid, family, families, &mut sockets));
        found.extend(beyond::examine(pid, &mut sockets));
    }
    found
}

/// Why there is no shim in a process.
pub enum Without {
    /// The loader keeps it out of the program: why, and the way out.
    Obstacle(String, &'static str),
    /// LD_PRELOAD names it, and it was not loaded.
    NotLoaded,
    /// It was started without it.
    Started,
}

/// Whether the loader ignores the environment of a process (AT_SECURE), as the kernel told it. None: that cannot be read here.
fn is_distrusted(pid: u32) -> Option<bool> {
    let vector = read(pid, "auxv")?;
    let words: Vec<u64> =
        vector.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("8"))).collect();
    let of = |key| words.chunks_exact(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
    // That of a process of 32 bits has shorter words. The entries of a header of 64 bits have 56 bytes.
    (of(libc::AT_PHENT) == Some(56)).then(|| of(libc::AT_SECURE).is_some_and(|secure| secure != 0))
}

pub fn without(pid: u32) -> Without {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    // As the process itself sees the file, which may be in another root.
    let inside = PathBuf::from(format!("/proc/{pid}/exe"));
    // The real ones: they are its starter's, whatever its file gave it.
    let real = |field| status(pid, field).and_then(|id| u32::try_from(id).ok());
    let starter = Starter { user: real("Uid"), group: real("Gid") };
    if let Some(why) = program::obstacle_of_process(&inside, starter, is_distrusted(pid)) {
        let text = why.to_string().replace(&inside.display().to_string(), &exe.display().to_string());
        return Without::Obstacle(text, why.way_out());
    }
    let environ = read(pid, "environ").unwrap_or_default();
    let named = environ
        .split(|&b| b == 0)
        .any(|v| v.starts_with(b"LD_PRELOAD=") && v.windows(13).any(|w| w == b"libdp_preload"));
    if named {
        Without::NotLoaded
    } else {
        Without::Started
    }
}

/// The path of its control group.
pub fn cgroup(pid: u32) -> Vec<u8> {
    read(pid, "cgroup").map(|text| dp_rules::cgroup(&text).to_vec()).unwrap_or_default()
}

/// How to start it with the shim: a service by its unit.
fn way_in(pid: u32) -> String {
    match unit::named(&cgroup(pid)) {
        Some((unit, is_user)) => {
            let user = if is_user { "--user-manager " } else { "" };
            format!("dp enable {user}{unit}, and restart it; or start it with dp run --")
        }
        None => "start it with dp run --, or with LD_PRELOAD as dp-preload(7) says".into(),
    }
}

/// The same in words.
fn told_without(pid: u32) -> Finding {
    match without(pid) {
        Without::Obstacle(why, way_out) => Finding::bad("shim", why, way_out),
        Without::NotLoaded => {
            let way_out = "see what the loader said on its standard error; the file must be readable in its root, and be for its C library";
            Finding::bad("shim", "LD_PRELOAD names the shim, and it was not loaded", way_out)
        }
        Without::Started => Finding::bad("shim", "it was started without the shim", way_in(pid)),
    }
}

/// What the shim in it is like.
fn with(family: &Family) -> Finding {
    let (own, its) = (env!("CARGO_PKG_VERSION"), family.shim.as_deref());
    let version = its.unwrap_or("of unknown version");
    match family.state {
        State::Disabled => Finding::bad(
            "shim",
            "it is there and does nothing: DP_DISABLE is set",
            "start it without DP_DISABLE",
        ),
        State::Unreadable => {
            let way_out = "restart it with the shim of this dp, or ask the dp that came with its shim";
            Finding::bad(
                "shim",
                format!("{version}, with a layout that this dp ({own}) cannot read"),
                way_out,
            )
        }
        _ if its.is_some_and(|its| its != own) => {
            let here = shim::find().map_or_else(|_| "none".to_owned(), |path| path.display().to_string());
            Finding::note(
                "shim",
                format!("{version}, and this dp is {own}"),
                format!("restart it to have the one of now ({here})"),
            )
        }
        _ => Finding::fine("shim", version),
    }
}

/// What limits the process.
fn surroundings(pid: u32) -> Vec<Finding> {
    let mut found = Vec::new();
    let service = Service::of(pid).and_then(|service| Some((service.hindrances(&of_systemd)?, service)));
    let service = service.as_ref().map(|(hindrances, service)| (service, hindrances));
    if status(pid, "Seccomp").is_some_and(|mode| mode != 0) {
        found.extend(filters(service));
    }
    let limits = text(pid, "limits").unwrap_or_default();
    let limit = |name: &str| {
        limits
            .lines()
            .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    if let Some(few) = limit("Max open files").filter(|&n| n < needs::FEW_FILES) {
        found.push(Finding::note(
            "limits",
            format!("it may have {few} descriptors"),
            "raise RLIMIT_NOFILE (LimitNOFILE= of systemd)",
        ));
    }
    if let Some(n) = limit("Max address space") {
        let way_out = "lift RLIMIT_AS where connections are on TCP for memory";
        found.push(Finding::note("limits", format!("it may have {} MiB of addresses", n >> 20), way_out));
    }
    let rings = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_ring = |link: &PathBuf| link.to_string_lossy().contains("[io_uring]");
    if rings.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|link| is_ring(&link)) {
        found.push(Finding::note(
            "io_uring",
            "it has one: sockets that it is told of stay on TCP, and all of them where the shim cannot follow it",
            "dp-preload(7), What stays on TCP: let the program use epoll, if it can be told to",
        ));
    }
    let space = |pid: &str| fs::metadata(format!("/proc/{pid}/ns/net")).map(|data| data.ino()).ok();
    if space(&pid.to_string()) != space("self") {
        found.push(network(service));
    }
    found
}

/// Of the filter of system calls that holds for a process: the lines of its service that forbid what the shim needs.
pub fn filters(service: Option<(&Service, &Hindrances)>) -> Vec<Finding> {
    let named = service.map(|(service, hindrances)| service.filters(hindrances)).unwrap_or_default();
    if !named.is_empty() {
        return named;
    }
    let mut text = "a filter of system calls holds for it".to_owned();
    if let Some((service, _)) = service {
        text += &format!("; the lines of {} leave the shim what it needs", service.name);
    }
    let way_out =
        "if connections are on TCP for sandbox or no-unix, see dp-preload(7), Filters of system calls";
    vec![Finding::note("seccomp", text, way_out)]
}

/// Of a process in another network namespace: the line of its service that gives it one.
pub fn network(service: Option<(&Service, &Hindrances)>) -> Finding {
    let text = "it is in another network namespace than you";
    match service.and_then(|(service, hindrances)| Some((&service.name, hindrances.network?))) {
        Some((unit, key)) => {
            let way_out = "both ends must be in the same one: leave that line out, or JoinsNamespaceOf= the other end's unit";
            Finding::note("network", format!("{text}: {unit} has {key}="), way_out)
        }
        None => {
            let way_out = "both ends must be in the same one, as the containers of a pod are";
            Finding::note("network", text, way_out)
        }
    }
}

/// What became of the family's connections.
fn connections(family: &Family) -> Vec<Finding> {
    let open = |state: &str| family.connections.iter().filter(|c| c.state == state).count();
    let (channels, ever) = (open("channel"), family.channels);
    let mut found = vec![if ever > 0 {
        Finding::fine("channels", format!("{channels} open, {ever} since it began"))
    } else {
        Finding::note("channels", "none yet", "see what keeps its connections on TCP below, or wait: a connection has more than three calls first")
    }];
    let offered = open("offered");
    if offered > 0 {
        let way_out = "it does so in one of its next calls; where it does not, see dp doctor of that program";
        let text = format!("{offered} offered, and not answered yet by the other end");
        found.push(Finding::note("channels", text, way_out));
    }
    let mut reasons: BTreeMap<&str, u64> = family.on_tcp.clone();
    for c in &family.connections {
        // Not counted yet: it may still become a channel.
        if let (Some(reason), "new") = (c.reason, c.state) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (word, n) in reasons {
        let Some(reason) = Reason::ALL.iter().copied().find(|reason| reason.word() == word) else { continue };
        let text = format!("{n} on TCP, {word}: {}", reason.text());
        found.push(match advice::of(reason) {
            Some(way_out) => Finding::note("tcp", text, way_out),
            None => Finding::fine("tcp", text),
        });
    }
    if family.lost_wakeups > 0 {
        found.push(Finding {
            verdict: Verdict::Bad,
            about: "wake-ups",
            text: format!(
                "{} waits slept over something that had come: a fault of the shim",
                family.lost_wakeups
            ),
            // The count of these waits ends with the process.
            way_out: Some(format!(
                "before anything is restarted: dp doctor {} --report FILE; then run it without the shim, and send the file",
                family.processes.first().map_or(0, |process| process.pid)
            )),
        });
    }
    found
}
