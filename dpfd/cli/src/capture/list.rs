//! `--list`: the channels that would be captured, and whether they may be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;

use super::rights::{Denied, Opened};
use super::wanted::Wanted;
use crate::ls::families::{self, Connection};
use crate::say;

/// One channel in the list.
#[derive(Default)]
struct Line {
    ends: [Option<(String, u32)>; 2],
    wanted: bool,
    bytes: [u64; 2],
}

/// Prints them.
///
/// # Errors
///
/// When /proc cannot be listed, or nobody takes the text.
pub fn print(wanted: &Wanted) -> Result<ExitCode, String> {
    let families = families::all().map_err(|error| format!("/proc: {error}"))?;
    let channels = families.iter().flat_map(|family| &family.connections).filter(|c| c.state == "channel");
    let mut lines: BTreeMap<[SocketAddr; 2], Line> = BTreeMap::new();
    channels.for_each(|c| note(&mut lines, c, wanted));
    let mut text = String::new();
    let mut denied = BTreeMap::new();
    for ([client, server], line) in lines.iter().filter(|(_, line)| line.wanted) {
        let pids = line.ends.iter().flatten().map(|end| end.1);
        // One end is enough: the rings are both ends' memory.
        let outcomes: Vec<(u32, Result<(), Denied>)> =
            pids.map(|pid| (pid, Opened::new(pid).map(drop))).collect();
        let may = outcomes.iter().any(|(_, outcome)| outcome.is_ok());
        let name = |end: &Option<(String, u32)>| {
            end.as_ref().map_or("?".into(), |(name, pid)| format!("{} ({pid})", name.escape_debug()))
        };
        let [from, to] = [name(&line.ends[0]), name(&line.ends[1])];
        text += &format!(
            "{}  {from} {client} > {to} {server}  {} > < {}\n",
            if may { "may   " } else { "may not" },
            line.bytes[0],
            line.bytes[1]
        );
        if !may {
            denied.extend(outcomes.into_iter().filter_map(|(pid, outcome)| match outcome {
                Err(Denied::Why(why)) => Some((pid, why)),
                _ => None,
            }));
        }
    }
    if text.is_empty() {
        eprintln!("dp capture: there is no such channel now");
    }
    denied.iter().for_each(|(pid, why)| eprintln!("dp capture: process {pid}: {why}"));
    say::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn note(lines: &mut BTreeMap<[SocketAddr; 2], Line>, c: &Connection, wanted: &Wanted) {
    let client = c.role != Some("server");
    let addresses = if client { [c.local, c.peer] } else { [c.peer, c.local] };
    let line = lines.entry(addresses).or_default();
    line.ends[usize::from(!client)] = Some((c.program.clone(), c.pid));
    line.wanted |= wanted.is_of(c.pid, &c.program) && wanted.is_between(addresses);
    let [sent, received] = if client { [0, 1] } else { [1, 0] };
    line.bytes[sent] = line.bytes[sent].max(c.tx_bytes);
    line.bytes[received] = line.bytes[received].max(c.rx_bytes);
}
