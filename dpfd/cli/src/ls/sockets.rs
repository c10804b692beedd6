//! What the kernel knows of TCP sockets: their addresses, and which processes have them.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use super::processes;

/// The tables are read when they are asked for, once.
#[derive(Default)]
pub struct Sockets {
    /// By inode of the network namespace.
    tables: HashMap<u64, Table>,
    /// Processes by inode of the socket; only those that this user may look into.
    owners: Option<HashMap<u64, HashSet<u32>>>,
}

/// The connections of a network namespace.
#[derive(Default)]
struct Table {
    by_ends: HashMap<(SocketAddr, SocketAddr), u64>,
    by_inode: HashMap<u64, (SocketAddr, SocketAddr)>,
    /// Those in both of whose directions bytes may come.
    established: HashSet<u64>,
    /// Both ends of all, those too that nobody has yet, and what has the number there, or 0.
    all: Vec<(SocketAddr, SocketAddr, u64)>,
    listening: HashSet<SocketAddr>,
}

/// A connection of a process whose two ends are both of its network namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct Within {
    pub own: SocketAddr,
    pub other: SocketAddr,
    /// Whether something listens at its own address: it was accepted.
    pub accepted: bool,
    /// The processes that have the other end.
    pub with: HashSet<u32>,
}

/// A connection of a process whose other end is not in its network namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct Beyond {
    pub own: SocketAddr,
    pub other: SocketAddr,
    /// `None`: the other end is in no namespace that may be seen, or one of several there.
    pub with: Option<Far>,
}

/// The other end of a connection, in another network namespace of this machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Far {
    /// The processes that have it; none: they may not be seen. `None`: nobody has it yet.
    pub by: Option<HashSet<u32>>,
    /// It is taken for it by one of the two addresses, or is not the only one that has both.
    pub probable: bool,
}

/// The sockets of network namespaces, by the addresses of their ends. The number of one that nobody has is 0.
#[derive(Default)]
struct Ends {
    both: HashMap<(SocketAddr, SocketAddr), Vec<u64>>,
    own: HashMap<SocketAddr, Vec<u64>>,
    other: HashMap<SocketAddr, Vec<u64>>,
}

impl Sockets {
    /// The end of descriptor `fd` of process `pid`.
    pub fn local(&mut self, pid: u32, fd: u32) -> Option<SocketAddr> {
        let inode = socket(&fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.to_string_lossy())?;
        self.table(pid)?.by_inode.get(&inode).map(|ends| ends.0)
    }

    /// The processes that have the socket with these ends, seen from where `pid` is. `None`: there is no such socket, it
    /// waits to be accepted, or nobody who may be seen has it.
    pub fn holders(&mut self, pid: u32, own: SocketAddr, other: SocketAddr) -> Option<HashSet<u32>> {
        let inode = *self.table(pid)?.by_ends.get(&(unscoped(own), unscoped(other)))?;
        self.owners.get_or_insert_with(owners).get(&inode).cloned()
    }

    /// The open connections of process `pid` within its host.
    pub fn within(&mut self, pid: u32) -> Vec<Within> {
        let inodes = sockets_of(pid);
        let Some(table) = self.table(pid) else { return Vec::new() };
        let mut found: Vec<(SocketAddr, SocketAddr, bool, u64)> = Vec::new();
        for inode in inodes {
            let Some(&(own, other)) = table.by_inode.get(&inode) else { continue };
            if let Some(&back) = table.by_ends.get(&(other, own)) {
                found.push((own, other, table.listens(own), back));
            }
        }
        found.sort_unstable();
        let owners = self.owners.get_or_insert_with(owners);
        let with = |back| owners.get(&back).cloned().unwrap_or_default();
        let within = |(own, other, accepted, back)| Within { own, other, accepted, with: with(back) };
        found.into_iter().map(within).collect()
    }

    /// The established connections of process `pid` whose other end is not in its network namespace, and whether there may be
    /// namespaces of this machine that could not be looked into.
    pub fn beyond(&mut self, pid: u32) -> (Vec<Beyond>, bool) {
        let inodes = sockets_of(pid);
        let Some(table) = self.table(pid) else { return (Vec::new(), false) };
        let here = Ends::of([table]);
        let mut open: Vec<(SocketAddr, SocketAddr, bool)> = Vec::new();
        for inode in inodes.iter().filter(|inode| table.established.contains(inode)) {
            let (own, other) = table.by_inode[inode];
            if !other.ip().is_loopback() && here.opposite(own, other).is_empty() {
                open.push((own, other, table.listens(own)));
            }
        }
        if open.is_empty() {
            return (Vec::new(), false);
        }
        open.sort_unstable();
        let (others, hidden) = other_spaces(pid);
        let spaces: Vec<u64> = others.into_iter().filter_map(|one| self.load(one)).collect();
        let there = Ends::of(spaces.iter().map(|space| &self.tables[space]));
        let mut found = Vec::new();
        for (own, other, accepted) in open {
            let exact = there.opposite(own, other);
            // Translated within its own namespace: that is told with the connections there.
            if exact.is_empty() && !here.translated(own, other, accepted).is_empty() {
                continue;
            }
            let with = there.counterpart(own, other, accepted).map(|(inode, probable)| {
                let owners = self.owners.get_or_insert_with(owners);
                let by = (inode != 0).then(|| owners.get(&inode).cloned().unwrap_or_default());
                Far { by, probable }
            });
            found.push(Beyond { own, other, with });
        }
        (found, hidden)
    }

    fn table(&mut self, pid: u32) -> Option<&Table> {
        let space = self.load(pid)?;
        self.tables.get(&space)
    }

    /// Reads the table of the network namespace that `pid` is in, which it returns, unless that was done.
    fn load(&mut self, pid: u32) -> Option<u64> {
        let space = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
        self.tables.entry(space).or_insert_with(|| {
            let mut table = Table::default();
            for name in ["tcp", "tcp6"] {
                table.add(&fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
            }
            table
        });
        Some(space)
    }
}

impl Ends {
    fn of<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Ends {
        let mut ends = Ends::default();
        for &(own, other, inode) in tables.into_iter().flat_map(|table| &table.all) {
            ends.both.entry((own, other)).or_default().push(inode);
            ends.own.entry(own).or_default().push(inode);
            ends.other.entry(other).or_default().push(inode);
        }
        ends
    }

    /// What has the two ends of a connection the other way round.
    fn opposite(&self, own: SocketAddr, other: SocketAddr) -> &[u64] {
        self.both.get(&(other, own)).map_or(&[], Vec::as_slice)
    }

    /// What could be the other end where one of the addresses was translated on the way: both sockets still have that of the
    /// connecting one.
    fn translated(&self, own: SocketAddr, other: SocketAddr, accepted: bool) -> &[u64] {
        let found = if accepted { self.own.get(&other) } else { self.other.get(&own) };
        found.map_or(&[], Vec::as_slice)
    }

    /// The number of the socket at the other end of a connection, and whether it is only probable that it is that one.
    fn counterpart(&self, own: SocketAddr, other: SocketAddr, accepted: bool) -> Option<(u64, bool)> {
        // What somebody has, before what is left of connections of before.
        let held =
            |found: &[u64]| -> Vec<u64> { found.iter().copied().filter(|&inode| inode != 0).collect() };
        let exact = self.opposite(own, other);
        match (held(exact).as_slice(), exact) {
            (&[one], _) => return Some((one, false)),
            (&[one, ..], _) => return Some((one, true)),
            (&[], &[_, ..]) => return Some((0, false)),
            (&[], &[]) => {}
        }
        let similar = self.translated(own, other, accepted);
        match (held(similar).as_slice(), similar) {
            (&[one], _) | (&[], &[one]) => Some((one, true)),
            _ => None,
        }
    }
}

impl Table {
    /// Whether something listens there, at that address or at all.
    fn listens(&self, end: SocketAddr) -> bool {
        let any = |ip: IpAddr| self.listening.contains(&SocketAddr::new(ip, end.port()));
        any(end.ip()) || any(Ipv4Addr::UNSPECIFIED.into()) || any(Ipv6Addr::UNSPECIFIED.into())
    }

    /// The lines of /proc/net/tcp or tcp6.
    fn add(&mut self, text: &str) {
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let end = |i: usize| fields.get(i).and_then(|text| address(text));
            let (Some(own), Some(other)) = (end(1), end(2)) else { continue };
            if fields.get(3) == Some(&"0A") {
                self.listening.insert(own);
                continue;
            }
            // What nobody has, or nobody yet, has number 0.
            let inode = fields.get(9).and_then(|n| n.parse().ok()).filter(|&n: &u64| n != 0);
            self.all.push((own, other, inode.unwrap_or(0)));
            if let Some(inode) = inode {
                if fields.get(3) == Some(&"01") {
                    self.established.insert(inode);
                }
                self.by_ends.insert((own, other), inode);
                self.by_inode.insert(inode, (own, other));
            }
        }
    }
}

/// As the kernel's table has it, where a link-local address is without its interface.
fn unscoped(mut end: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut end {
        v6.set_scope_id(0);
    }
    end
}

/// `0100007F:1F90`, or as long as an IPv6 address: words as this machine has them in memory.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..ip.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let ip: IpAddr = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(v4) => v4.into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(ip, port))
}

fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The numbers of the sockets that a process has.
fn sockets_of(pid: u32) -> HashSet<u64> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    fds.filter_map(|fd| socket(&fs::read_link(fd.path()).ok()?.to_string_lossy())).collect()
}

/// The inode of the pid namespace that each kernel begins with (`PROC_PID_INIT_INO`).
const FIRST_PID_SPACE: u64 = 0xEFFF_FFFC;

/// Whether /proc may be without processes of this machine, as in a container, or where it was mounted with `hidepid=2`.
fn is_partial() -> bool {
    let space = fs::metadata("/proc/self/ns/pid").map(|data| data.ino());
    space.ok() != Some(FIRST_PID_SPACE) || fs::metadata("/proc/1").is_err()
}

/// A process of each network namespace but that of `pid`, and whether there may be processes whose namespace this user may not see.
fn other_spaces(pid: u32) -> (Vec<u32>, bool) {
    let space = |pid: u32| fs::metadata(format!("/proc/{pid}/ns/net")).map(|data| data.ino());
    let mut seen: HashSet<u64> = space(pid).into_iter().collect();
    let (mut found, mut hidden) = (Vec::new(), is_partial());
    for one in processes::numbers().unwrap_or_default() {
        match space(one) {
            Ok(space) if seen.insert(space) => found.push(one),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => hidden = true,
            _ => {}
        }
    }
    (found, hidden)
}

fn owners() -> HashMap<u64, HashSet<u32>> {
    let mut owners: HashMap<u64, HashSet<u32>> = HashMap::new();
    for pid in processes::numbers().unwrap_or_default() {
        for fd in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(link) = fs::read_link(fd.path()) else { continue };
            if let Some(inode) = socket(&link.to_string_lossy()) {
                owners.entry(inode).or_default().insert(pid);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read_with_both_kinds_of_addresses() {
        let text = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0
   2: 0100007F:9C40 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
   3: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:0051 01 0:0 0:0 0 0 0 79 1
   4: nonsense
   5: 00000000000000000000000001000000:0050 00000000000000000000000001000000:0052 01 0:0 0:0 0 0 0 80 1
";
        let mut table = Table::default();
        table.add(text);
        let found = |own: &str, other: &str| {
            table.by_ends.get(&(own.parse().unwrap(), other.parse().unwrap())).copied()
        };
        assert_eq!(found("127.0.0.1:8080", "127.0.0.1:40000"), Some(78));
        assert_eq!(found("127.0.0.1:40000", "127.0.0.1:8080"), None);
        assert_eq!(found("127.0.0.1:80", "127.0.0.1:81"), Some(79));
        assert_eq!(found("[::1]:80", "[::1]:82"), Some(80));
        assert_eq!(unscoped("[fe80::1%7]:80".parse().unwrap()), "[fe80::1]:80".parse().unwrap());
        assert_eq!(table.by_inode[&78].0, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(address("0100007F"), None);
        assert_eq!(address("0100007:1F90"), None);
        assert_eq!(address("0100007F0100007F:1F90"), None);
    }

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// What the lines of a namespace's table say.
    fn table(lines: &str) -> Table {
        let mut table = Table::default();
        table.add(&format!("head\n{lines}"));
        table
    }

    #[test]
    fn the_other_end_is_known_by_the_connecting_one_where_an_address_was_translated() {
        // 10.0.0.1:80 of 10.0.0.9:40000, and 10.0.0.1:40001 to 10.0.0.7:81.
        let table = table(
            "0: 0100000A:0050 0900000A:9C40 01 0:0 0:0 0 0 0 78 1
             1: 0100000A:9C41 0700000A:0051 01 0:0 0:0 0 0 0 0 1",
        );
        assert!(table.established.contains(&78));
        let ends = Ends::of([&table]);
        let (own, client) = (end("10.0.0.1:80"), end("10.0.0.9:40000"));
        assert_eq!(ends.counterpart(client, own, false), Some((78, false)));
        assert_eq!(ends.counterpart(client, end("10.1.1.1:8080"), false), Some((78, true)), "translated");
        assert_eq!(ends.counterpart(end("10.0.0.9:40001"), own, false), None, "another client of it");
        let (server, client) = (end("10.0.0.7:81"), end("10.0.0.1:40001"));
        assert_eq!(ends.counterpart(server, client, true), Some((0, false)));
        assert_eq!(ends.counterpart(end("10.3.3.3:8081"), client, true), Some((0, true)), "translated");
        assert_eq!(ends.counterpart(server, end("10.0.0.1:40002"), true), None);
    }

    #[test]
    fn what_has_both_addresses_is_the_other_end_before_what_has_one() {
        let (own, client) = (end("10.0.0.1:80"), end("10.0.0.9:40000"));
        // 10.0.0.2:80 and 10.0.0.3:80 of that client, in one namespace; in the other 10.0.0.1:80 of it, or of one before.
        let similar = "0: 0200000A:0050 0900000A:9C40 01 0:0 0:0 0 0 0 70 1";
        let more = format!("{similar}\n1: 0300000A:0050 0900000A:9C40 01 0:0 0:0 0 0 0 71 1");
        let exact = "0: 0100000A:0050 0900000A:9C40 01 0:0 0:0 0 0 0 78 1";
        let before = "0: 0100000A:0050 0900000A:9C40 06 0:0 0:0 0 0 0 0 1";
        let found = |lines: &[&str]| {
            let tables: Vec<Table> = lines.iter().copied().map(table).collect();
            Ends::of(&tables).counterpart(client, own, false)
        };
        assert_eq!(found(&[similar, exact]), Some((78, false)));
        assert_eq!(found(&[&more, exact]), Some((78, false)));
        assert_eq!(found(&[before, exact]), Some((78, false)), "nobody has the first");
        assert_eq!(found(&[similar, before]), Some((0, false)));
        assert_eq!(found(&[similar]), Some((70, true)));
        assert_eq!(found(&[&more]), None, "either");
        assert_eq!(found(&[exact, &exact.replace("78", "79")]), Some((78, true)), "the same addresses twice");
    }

    #[test]
    fn the_holders_of_a_socket_are_found_by_its_ends() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let me = std::process::id();
        let holders = |own, other| Sockets::default().holders(me, own, other);
        assert!(holders(own, other).unwrap().contains(&me));
        assert_eq!(holders(other, own), None, "not accepted yet");
        let (_server, _) = listener.accept().unwrap();
        assert!(holders(other, own).unwrap().contains(&me));
        let within = Sockets::default().within(me);
        let of = |own| within.iter().find(|c| c.own == own).unwrap_or_else(|| panic!("{own}: {within:?}"));
        assert!(!of(own).accepted && of(own).other == other && of(own).with.contains(&me));
        assert!(of(other).accepted);
        use std::os::fd::AsRawFd;
        assert_eq!(Sockets::default().local(me, client.as_raw_fd() as u32), Some(own));
    }
}
