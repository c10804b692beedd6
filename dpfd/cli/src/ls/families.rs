//! Families as they are: what their memory says, held against the processes that there really are.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;

use dp_channel::family::{self, Member, Reason, Snapshot, Stage, View};
use dp_channel::slot::Side;
use serde::Serialize;

use super::processes::{self, Process};
use super::sockets::Sockets;

/// A program and what it forked.
#[derive(Serialize, Clone)]
pub struct Family {
    /// Inode of its memory: what tells it from others, whichever of its processes end.
    #[serde(skip)]
    pub memory: Option<u64>,
    pub processes: Vec<Program>,
    pub state: State,
    /// Version of its shim, and that of the memory's layout.
    pub shim: Option<String>,
    pub layout: Option<u32>,
    /// Since the family began, connections that are over included.
    pub channels: u64,
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub doorbells: u64,
    pub hand_backs: u64,
    /// Waits that slept while a channel had something, until a second look: a fault of the shim's.
    pub lost_wakeups: u64,
    /// Connections that stayed on TCP or went back to it for good, by reason.
    pub on_tcp: BTreeMap<&'static str, u64>,
    pub connections: Vec<Connection>,
}

/// What there is to say of a family.
#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has, or had, connections.
    On,
    /// It has the shim, and had no connection yet that could become a channel.
    Idle,
    /// The shim does nothing in it, by `DP_DISABLE`.
    Disabled,
    /// Its memory has a layout that this dp does not know.
    Unreadable,
}

#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub program: String,
    pub pid: u32,
    pub uid: u32,
}

#[derive(Serialize, Clone)]
pub struct Connection {
    pub program: String,
    pub pid: u32,
    pub fd: u32,
    pub role: Option<&'static str>,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub state: &'static str,
    /// Bytes through the rings; TCP's own are the kernel's to count.
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub doorbells: u64,
    pub hand_backs: u64,
    /// Of a channel: bytes of the ring into which this end sends.
    pub tx_ring_bytes: Option<u64>,
    pub reason: Option<&'static str>,
}

/// Every family that this user may see, by the lowest number of its processes.
///
/// # Errors
///
/// When /proc cannot be listed.
pub fn all() -> io::Result<Vec<Family>> {
    let found = processes::all()?;
    let shimmed = |pid: u32| found.iter().any(|process| process.pid == pid && !process.disabled);
    let mut sockets = Sockets::default();
    let groups = group(&found).into_iter();
    let mut families: Vec<Family> =
        groups.filter_map(|group| Family::of(&group, &mut sockets, &shimmed)).collect();
    families.sort_by_key(|family| family.processes.iter().map(|process| process.pid).min());
    Ok(families)
}

/// Programs with what they forked: those that share a family's memory, and children that were forked before there was any.
/// The first of a group has the memory, if one has.
fn group(found: &[Process]) -> Vec<Vec<Process>> {
    let mut groups: Vec<Vec<Process>> = Vec::new();
    for process in found.iter().filter(|process| process.family.is_some()) {
        match groups.iter_mut().find(|group| group[0].family == process.family) {
            Some(group) => group.push(process.clone()),
            None => groups.push(vec![process.clone()]),
        }
    }
    let mut rest: Vec<&Process> = found.iter().filter(|process| process.family.is_none()).collect();
    while !rest.is_empty() {
        let before = rest.len();
        rest.retain(|process| {
            let parents = groups.iter_mut().find(|group| group.iter().any(|p| process.is_fork_of(p)));
            parents.map(|group| group.push((*process).clone())).is_none()
        });
        // A process whose parent is in no group begins one.
        if rest.len() == before {
            let begins = |process: &&Process| !rest.iter().any(|other| process.is_fork_of(other));
            let first = rest.iter().position(begins).unwrap_or(0);
            groups.push(vec![rest.remove(first).clone()]);
        }
    }
    groups
}

impl Family {
    /// Processes without a family's memory.
    fn idle(processes: &[Process]) -> Family {
        Family {
            memory: None,
            processes: processes.iter().map(Program::of).collect(),
            state: if processes[0].disabled { State::Disabled } else { State::Idle },
            shim: processes[0].shim.clone(),
            layout: None,
            channels: 0,
            tx_bytes: 0,
            rx_bytes: 0,
            doorbells: 0,
            hand_backs: 0,
            lost_wakeups: 0,
            on_tcp: BTreeMap::new(),
            connections: Vec::new(),
        }
    }

    /// `None`: its memory went meanwhile, or is none.
    fn of(processes: &[Process], sockets: &mut Sockets, shimmed: &impl Fn(u32) -> bool) -> Option<Family> {
        let Some(inode) = processes[0].family else { return Some(Family::idle(processes)) };
        let view = processes.iter().find_map(|process| View::of_process(process.pid, inode))?;
        let mut programs: Vec<Program> = processes.iter().map(Program::of).collect();
        // Which process each member is; those that ended are none.
        let mut members: HashMap<u32, usize> = HashMap::new();
        for (n, member) in view.members() {
            if let Some(i) = processes.iter().position(|p| is(member, p)) {
                let name = member.name();
                if !name.is_empty() {
                    programs[i].program = name;
                }
                members.insert(n, i);
            } else if is_out_of_sight(member) {
                members.insert(n, programs.len());
                programs.push(Program { program: member.name(), pid: member.pid(), uid: member.uid() });
            }
        }
        let whose = |seen: &Snapshot, sockets: &mut Sockets| {
            let mut holders: Vec<usize> =
                seen.holders.iter().filter_map(|n| members.get(n)).copied().collect();
            // The process that had it first, where it still is one of them.
            holders.sort_by_key(|&i| (processes.get(i).is_none_or(|p| p.inner != seen.pid), programs[i].pid));
            holders.first().map(|&i| programs[i].clone()).or_else(|| {
                // Nobody counts these: the kernel tells whether somebody still has it.
                let pid = processes.first().filter(|_| seen.uncounted)?.pid;
                let pids = sockets.holders(pid, address(seen.local), address(seen.peer))?;
                programs.iter().find(|program| pids.contains(&program.pid)).cloned()
            })
        };
        let mut connections = Vec::new();
        for seen in view.connections() {
            if let Some(program) = whose(&seen, sockets) {
                connections.push(Connection::of(&seen, &program).completed(sockets, shimmed));
            }
        }
        let [channels, tx_bytes, rx_bytes, doorbells, hand_backs] = view.totals();
        programs.sort_by_key(|program| program.pid);
        programs.dedup_by_key(|program| program.pid);
        Some(Family {
            memory: Some(inode),
            processes: programs,
            state: if view.is_readable() { State::On } else { State::Unreadable },
            shim: view.shim().or_else(|| processes.iter().find_map(|p| p.shim.clone())),
            layout: Some(view.layout),
            channels,
            tx_bytes,
            rx_bytes,
            doorbells,
            hand_backs,
            lost_wakeups: view.lost(),
            on_tcp: view.reasons().into_iter().map(|(reason, count)| (reason.word(), count)).collect(),
            connections,
        })
    }
}

impl Program {
    fn of(process: &Process) -> Program {
        Program { program: process.name.clone(), pid: process.pid, uid: process.uid }
    }
}

/// Whether the member is that process. A member's number is that of its own pid namespace; one that could not find out
/// which that is, or is about to, has any.
fn is(member: &Member, process: &Process) -> bool {
    member.pid() == process.inner && member.may_be_in(process.space)
}

/// Whether the member lives, as far as the kernel says, and belongs to another user. What has none of the family's memory
/// any more although it could be seen, has executed another program.
fn is_out_of_sight(member: &Member) -> bool {
    member.space() == family::space() && member.alive() && !processes::may_see(member.pid())
}

impl Connection {
    /// All that `state` can be.
    pub const STATES: [&'static str; 5] = ["new", "offered", "accepted", "channel", "tcp"];

    pub fn of(seen: &Snapshot, program: &Program) -> Connection {
        Connection {
            program: program.program.clone(),
            pid: program.pid,
            fd: seen.fd,
            role: seen.side.map(|side| match side {
                Side::Client => "client",
                Side::Server => "server",
            }),
            local: address(seen.local),
            peer: address(seen.peer),
            state: Connection::STATES[match seen.stage {
                Stage::Unused | Stage::Candidate => 0,
                Stage::Offered => 1,
                Stage::Accepted => 2,
                Stage::Live => 3,
                Stage::Plain => 4,
            }],
            tx_bytes: seen.tx_bytes,
            rx_bytes: seen.rx_bytes,
            doorbells: seen.bells,
            hand_backs: seen.back,
            tx_ring_bytes: (seen.stage == Stage::Live).then_some(seen.tx_ring),
            reason: Some(seen.reason).filter(|reason| *reason != Reason::None).map(Reason::word),
        }
    }

    /// What the shim finds out later than the kernel tells: a client's own address, and whether the other end has the shim.
    fn completed(mut self, sockets: &mut Sockets, shimmed: &impl Fn(u32) -> bool) -> Connection {
        if self.local.port() == 0 {
            self.local = sockets.local(self.pid, self.fd).unwrap_or(self.local);
        }
        if self.state == "new" && self.reason.is_none() {
            let others = sockets.holders(self.pid, self.peer, self.local);
            if others.is_some_and(|pids| !pids.is_empty() && !pids.into_iter().any(shimmed)) {
                let client = self.role == Some("client");
                self.reason = Some(if client { Reason::NoDoor.word() } else { Reason::NoOffer.word() });
            }
        }
        self
    }
}

pub fn address(addr: dp_channel::tcp::Addr) -> SocketAddr {
    use std::net::{IpAddr, Ipv6Addr};
    match Ipv6Addr::from(addr.ip).to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, addr.port)),
        IpAddr::V6(ip) => std::net::SocketAddrV6::new(ip, addr.port, 0, addr.scope).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, file: &str, family: Option<u64>) -> Process {
        let (inner, space, uid) = (pid, 7, 0);
        let (name, file) = (file.to_string(), file.into());
        Process {
            pid,
            inner,
            parent,
            space,
            uid,
            name,
            file,
            family,
            shim: None,
            replaced: false,
            disabled: false,
        }
    }

    #[test]
    fn a_program_is_grouped_with_what_it_forked_and_not_with_what_it_executed() {
        let found = [
            process(5, 9, "shell", None),
            process(6, 5, "server", Some(77)),
            process(7, 6, "server", Some(77)),
            process(8, 6, "server", None),
            process(9, 1, "shell", None),
            process(10, 8, "server", None),
            process(11, 6, "tool", None),
            process(12, 6, "server", Some(78)),
        ];
        let pids = |group: Vec<Process>| group.iter().map(|p| p.pid).collect::<Vec<_>>();
        let groups: Vec<_> = group(&found).into_iter().map(pids).collect();
        assert_eq!(groups, [vec![6, 7, 8, 10], vec![12], vec![9, 5], vec![11]]);
    }
}
