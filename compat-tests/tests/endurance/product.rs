//! What the product and the kernel say of running processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use compat_tests::tools::TempDir;
use compat_tests::{programs, Combo, Job};
use serde::Deserialize;

/// These tests look at times and loads, so they take turns.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether much time may be taken.
pub fn long() -> bool {
    std::env::var("DP_LONG").is_ok_and(|value| value == "1")
}

/// Numbers that differ from run to run, unless `DP_SEED` says which.
pub struct Random {
    /// Where it began.
    pub seed: u64,
    state: u64,
}

impl Random {
    pub fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let seed = std::env::var("DP_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(u64::from(now.subsec_nanos()));
        Self { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % limit
    }
}

#[derive(Debug, Deserialize)]
pub struct Family {
    processes: Vec<Member>,
    pub state: String,
    pub shim: Option<String>,
    pub channels: u64,
    pub on_tcp: BTreeMap<String, u64>,
    pub connections: Vec<Connection>,
}

#[derive(Debug, Deserialize)]
pub struct Connection {
    pub pid: i32,
    pub local: String,
    peer: String,
    pub reason: Option<String>,
    pub tx_ring_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Member {
    pid: i32,
}

#[derive(Deserialize)]
struct Listing {
    families: Vec<Family>,
}

/// Says to the programs of `folder` that they may go on, by a mark that they wait for.
pub fn mark(folder: &TempDir, name: &str) {
    fs::write(folder.file("new"), "1\n").expect("the mark");
    fs::rename(folder.file("new"), folder.file(&format!("port.{name}"))).expect("the mark");
}

/// What puts a program into a pid namespace of its own. `None`, and that is told, where there may be none.
pub fn pid_namespace(test: &str) -> Option<[&'static str; 4]> {
    let wrapper = ["/usr/bin/unshare", "--pid", "--fork", "--kill-child"];
    let tried = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").status();
    if tried.is_ok_and(|status| status.success()) {
        return Some(wrapper);
    }
    skip(&format!("{test}: no pid namespace may be made here"));
    None
}

/// Says what could not be tried here.
pub fn skip(why: &str) {
    compat_tests::tools::skip(&format!("endurance {why}"));
}

/// What `dp ls` says of the process, if it has a family's memory.
pub fn family(pid: i32) -> Option<Family> {
    listed(pid).filter(|family| family.state == "on")
}

/// How many ends of connections to a port are channels.
pub fn channel_ends(port: u16) -> usize {
    let port = format!(":{port}");
    let there = |c: &&Connection| c.local.ends_with(&port) || c.peer.ends_with(&port);
    let families = families();
    let all = families.iter().flat_map(|family| &family.connections).filter(there);
    all.filter(|c| c.tx_ring_bytes.is_some()).count()
}

/// What `dp ls` says of the process.
pub fn listed(pid: i32) -> Option<Family> {
    families().into_iter().find(|family| family.processes.iter().any(|member| member.pid == pid))
}

fn families() -> Vec<Family> {
    let dp = programs::target_dir().join("release/dp");
    let said =
        Command::new(&dp).args(["ls", "--json"]).output().expect("dp: run `cargo build --release` first");
    assert!(said.status.success(), "dp ls: {}", String::from_utf8_lossy(&said.stderr));
    let listing: Listing = serde_json::from_slice(&said.stdout).expect("what dp ls --json prints");
    listing.families
}

/// What `dp doctor` prints.
pub fn doctor(arguments: &[&str]) -> String {
    let dp = programs::target_dir().join("release/dp");
    let said = Command::new(&dp).arg("doctor").args(arguments).output().expect("dp");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// How many connections of the process became channels.
pub fn channels(pid: i32) -> u64 {
    family(pid).map_or(0, |family| family.channels)
}

/// Waits until the process has a channel; false if it gets none.
pub fn becomes_channel(pid: i32, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while channels(pid) == 0 {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    true
}

/// The shim's memory that a process has open or mapped: inode numbers.
pub fn memory_of(process: &Path) -> Vec<u64> {
    let mut inodes: Vec<u64> = descriptors(process)
        .into_iter()
        .filter(|(_, target)| target.starts_with("/memfd:dp-"))
        .filter_map(|(fd, _)| fs::metadata(process.join("fd").join(fd)).ok())
        .map(|data| data.ino())
        .collect();
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    inodes.extend(
        maps.lines()
            .filter(|line| line.contains("/memfd:dp-"))
            .filter_map(|line| line.split_whitespace().nth(4)?.parse::<u64>().ok()),
    );
    inodes.sort_unstable();
    inodes.dedup();
    inodes
}

/// Descriptors of a process and what they stand for.
pub fn descriptors(process: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), target.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Processes that hold some of this memory.
pub fn holders(inodes: &[u64]) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let numbered =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok());
    processes
        .filter(|path| numbered(path) && memory_of(path).iter().any(|inode| inodes.contains(inode)))
        .map(|path| path.display().to_string())
        .collect()
}

/// The doors that are open on a port.
pub fn doors(port: u16) -> Vec<String> {
    let sockets = fs::read_to_string("/proc/net/unix").expect("/proc/net/unix");
    let of_port = format!("/{port:04x}/");
    let ours = |line: &&str| line.contains("@dp-door-") && line.contains(&of_port);
    sockets.lines().filter(ours).map(str::to_string).collect()
}

/// Names in /dev/shm that could be ours.
pub fn named_memory() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.contains("dp"));
    names.sort();
    names
}

/// Processor time that a process has used.
pub fn cpu(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
    // utime and stime, in ticks of 10 ms: fields 14 and 15, of which the bracket ends the second
    let ticks: u64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Starts one side of a program with more environment.
pub fn start(
    combo: &Combo,
    program: &Path,
    role: &str,
    folder: &Path,
    arguments: &[&str],
    environment: &[(&str, String)],
) -> Job {
    let client = role.starts_with("client");
    let mut command =
        if client { combo.client_command(program, folder) } else { combo.server_command(program, folder) };
    command.arg(if client { "client" } else { "server" }).arg(folder.join("port")).args(arguments);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // One file of output for each of several clients.
    let name = format!(
        "{role}-{}-{}",
        program.file_name().unwrap_or_default().to_string_lossy(),
        arguments.join("-")
    );
    Job::start(&name, command, folder)
}

/// Where every thread of a process waits, by name of the kernel's function and number of the system call.
pub fn threads(pid: i32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let line = |folder: &Path| {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default().trim().to_string();
        let stat = read("stat");
        let state = stat.rsplit_once(')').map_or("?", |(_, rest)| rest.trim()).chars().next().unwrap_or('?');
        format!("  {} {state} wchan {} syscall {}\n", folder.display(), read("wchan"), read("syscall"))
    };
    tasks.map(|task| line(&task.path())).collect()
}
