//! Nodes as processes: each with a registry of its own, and where it can be had a network namespace.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dp_graph::Graph;
use dp_node::nart::Nart;
use dp_node::serve::{Options, Server};
use dp_node::status::Gateway;
use dp_node::{InProcess, Limits};
use dp_seal::GraphKey;
use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Endpoint, Nid};
use nix::sched::{sched_setaffinity, setns, unshare, CloneFlags, CpuSet};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};

pub const SOON: Duration = Duration::from_secs(30);

pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !so() {
        assert!(Instant::now() < end, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Says what could not be tried here.
pub fn skip(what: &str) {
    // Past what captures the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIP: {what}");
    let path = of_environment(|| std::env::var_os("DP_SKIPS"));
    if let Some(path) = path {
        let file = File::options().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "SKIP: {what}")).expect("the list of skips");
    }
}

/// Whether nodes can be network namespaces here; says so if not.
pub fn namespaces_are_possible(test: &str) -> bool {
    let possible = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join().unwrap();
    if !possible {
        skip(&format!("dp-node {test}: network namespaces need root"));
    }
    possible
}

/// While a program is started, or a variable is read, the standard library holds the lock of the environment. A child that is forked
/// then by another test's thread would wait for it for ever.
static FORKS: Mutex<()> = Mutex::new(());

/// While nobody else forks.
fn alone() -> MutexGuard<'static, ()> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `read` has of the environment, while nobody forks.
fn of_environment<T>(read: impl FnOnce() -> T) -> T {
    let _alone = alone();
    read()
}

/// Where files go that nobody keeps.
pub fn temp_dir() -> PathBuf {
    of_environment(std::env::temp_dir)
}

/// Starts a program, while nobody forks.
pub fn spawn(program: &mut Command) -> std::io::Result<std::process::Child> {
    let _alone = alone();
    program.spawn()
}

/// A network namespace.
#[derive(Debug, Clone)]
pub struct Network(Arc<File>);

impl Network {
    pub fn new() -> Network {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            tell.send(File::open("/proc/thread-self/ns/net").expect("its file")).unwrap();
        });
        let network = Network(Arc::new(told.recv().unwrap()));
        network.ip("link set lo up");
        network
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs ip(8) there.
    pub fn ip(&self, line: &str) -> String {
        let (done, out, why) = self.program("ip", line);
        assert!(done, "ip {line}: {why}");
        out
    }

    /// Runs a program of Debian's iproute2 there: whether it did what it should, and what it said.
    pub fn program(&self, name: &'static str, line: &str) -> (bool, String, String) {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let network = self.clone();
        let out = std::thread::spawn(move || {
            network.enter();
            let mut program = Command::new(name);
            program.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            spawn(&mut program).and_then(|child| child.wait_with_output())
        });
        let text = |bytes| String::from_utf8(bytes).expect("text");
        match out.join().unwrap() {
            Ok(out) => (out.status.success(), text(out.stdout), text(out.stderr)),
            // It is not installed.
            Err(why) => (false, String::new(), why.to_string()),
        }
    }

    /// A cable: interface `own` here, and `others` there.
    pub fn cable(&self, own: &str, other: &Network, others: &str) {
        self.ip(&format!("link add {own} type veth peer name {others} netns {}", other.path()));
    }

    /// Sets an interface up, and waits until it carries frames.
    pub fn up(&self, interface: &str) {
        self.ip(&format!("link set {interface} up"));
        until(interface, || self.ip(&format!("link show {interface}")).contains("state UP"));
    }

    pub fn enter(&self) {
        setns(&*self.0, CloneFlags::CLONE_NEWNET).expect("its own file");
    }
}

/// What a graph says whose nodes have a key, which the gateways of this file are given without a file.
pub const SEALED: &str = "[security]\nkey = \"of tests\"\n";

/// A node, whose registry is a folder.
#[derive(Debug, Clone)]
pub struct Node {
    pub nid: Nid,
    network: Option<Network>,
    folder: PathBuf,
    graph: Arc<String>,
    libraries: Vec<PathBuf>,
}

impl Node {
    /// Of a graph, in a network namespace or in this one.
    pub fn new(nid: Nid, graph: &str, network: Option<&Network>) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = temp_dir().join(format!("dp-node-{}-{n}-{nid}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Node {
            nid,
            network: network.cloned(),
            folder,
            graph: Arc::new(graph.to_string()),
            libraries: Vec::new(),
        }
    }

    /// The same, whose gateways have the route in this shared object.
    pub fn with_library(mut self, path: &Path) -> Node {
        self.libraries.push(path.into());
        self
    }

    /// Runs `f` in a process of this node, which must say true.
    pub fn run(&self, f: impl FnOnce() -> bool) -> Child {
        self.run_under(alone(), f).1
    }

    /// The same by one who is alone already, and stays it.
    fn run_under(
        &self,
        alone: MutexGuard<'static, ()>,
        f: impl FnOnce() -> bool,
    ) -> (MutexGuard<'static, ()>, Child) {
        // SAFETY: the child runs `f` and leaves; what other threads held at the fork it does not touch but through the
        // library, which says what a child may call.
        match unsafe { nix::unistd::fork() }.expect("a fork") {
            nix::unistd::ForkResult::Parent { child } => (alone, Child(child)),
            nix::unistd::ForkResult::Child => {
                // It may start programs itself.
                drop(alone);
                // One that runs for ever does not outlive a test that failed.
                // SAFETY: takes numbers only.
                unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
                let yes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    if let Some(network) = &self.network {
                        network.enter();
                    }
                    std::env::set_var("DP_RUNTIME_DIR", &self.folder);
                    std::env::set_var("DP_NID", self.nid.to_string());
                    f()
                }));
                // SAFETY: ends the child at once.
                unsafe { nix::libc::_exit(i32::from(!yes.unwrap_or(false))) }
            }
        }
    }

    /// Its gateway, once it is there.
    pub fn gateway(&self) -> Child {
        self.gateway_that_spins(Duration::from_micros(50))
    }

    pub fn gateway_that_spins(&self, spin: Duration) -> Child {
        self.gateway_with(spin, Limits::default(), None)
    }

    /// One whose process does something first.
    pub fn gateway_after(&self, first: impl Fn()) -> Child {
        self.start_gateway(Duration::from_micros(50), Limits::default(), first)
    }

    /// One that is kept on a processor, if one is named.
    pub fn gateway_with(&self, spin: Duration, limits: Limits, cpu: Option<usize>) -> Child {
        self.start_gateway(spin, limits, || stay_on(cpu))
    }

    /// The gateway inside this process, a program of the node.
    pub fn inside(&self) -> InProcess {
        self.inside_with(Limits::default())
    }

    pub fn inside_with(&self, limits: Limits) -> InProcess {
        InProcess::start(self.options(Duration::ZERO, limits), |_| ()).expect("a gateway inside")
    }

    fn start_gateway(&self, spin: Duration, limits: Limits, first: impl Fn()) -> Child {
        let child = self.run(|| {
            first();
            let options = self.options(spin, limits);
            // Past what captures the output of tests: the child's would be lost.
            let tell = |why: &dyn std::fmt::Display| {
                let _ = writeln!(std::io::stderr(), "the gateway of node {}: {why}", self.nid);
            };
            match Server::open(options, |_| ()) {
                Ok(mut server) => server.run().is_ok_and(|lost| lost == 0),
                Err(why) => {
                    tell(&why);
                    false
                }
            }
        });
        until("a gateway", || self.status().is_some());
        child
    }

    /// What a gateway of it says that cannot run: what does not work, and in the end why it does not.
    pub fn try_gateway(&self) -> Vec<String> {
        self.try_gateway_after(|| ())
    }

    /// The same of one whose process does something first.
    pub fn try_gateway_after(&self, first: impl Fn()) -> Vec<String> {
        // A child of another test's that had their end, too, would have to end as well before all was read.
        let alone = alone();
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let (alone, child) = self.run_under(alone, || {
            first();
            let mut said = Vec::new();
            let opened =
                Server::open(self.options(Duration::ZERO, Limits::default()), |what| said.push(what));
            let why = opened.err().map(|why| why.to_string());
            let failed = why.is_some();
            said.extend(why);
            said.iter().all(|text| writeln!(theirs, "{text}").is_ok()) && failed
        });
        drop(theirs);
        drop(alone);
        let mut text = String::new();
        ours.read_to_string(&mut text).expect("what it said");
        child.ok();
        text.lines().map(String::from).collect()
    }

    fn options(&self, spin: Duration, limits: Limits) -> Options {
        let graph = Graph::parse(&self.graph).expect("a graph");
        Options {
            nart: Nart::of(&graph, self.nid).expect("a node of it"),
            key: graph.key.as_ref().map(|_| GraphKey::from_bytes([9; 32])),
            spin,
            limits,
            libraries: self.libraries.clone(),
        }
    }

    /// What its gateway tells; nothing where none runs, or it was killed.
    pub fn status(&self) -> Option<Gateway> {
        match Gateway::ask(&self.folder, SOON) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => None,
            answer => answer.expect("an answer"),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub struct Child(nix::unistd::Pid);

impl Child {
    /// What it found.
    pub fn ok(self) {
        let status = waitpid(self.0, None).expect("a child");
        assert_eq!(status, WaitStatus::Exited(self.0, 0), "what the child found");
    }

    /// All of them, in whatever order they end; if one did not find what it should, nobody waits for the others.
    pub fn all_ok(mut all: Vec<Child>) {
        while !all.is_empty() {
            all.retain(|child| match waitpid(child.0, Some(WaitPidFlag::WNOHANG)).expect("a child") {
                WaitStatus::StillAlive => true,
                status => {
                    assert_eq!(status, WaitStatus::Exited(child.0, 0), "what the child found");
                    false
                }
            });
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn kill(self) {
        kill(self.0, Signal::SIGKILL).expect("a process");
        let _ = waitpid(self.0, None);
    }

    pub fn pid(&self) -> nix::unistd::Pid {
        self.0
    }

    /// Seconds of a processor that it has used.
    pub fn used(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).expect("it lives");
        // Behind the name, which may have anything in it: fields 14 and 15, in hundredths.
        let behind = stat.rsplit(')').next().expect("a name");
        let ticks =
            behind.split_whitespace().skip(11).take(2).map(|word| word.parse::<f64>().expect("ticks"));
        ticks.sum::<f64>() / 100.0
    }

    /// Descriptors that it has.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.0)).expect("it lives").count()
    }

    /// Whether it has ended, whatever it found.
    pub fn has_ended(&self) -> bool {
        !matches!(waitpid(self.0, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }

    pub fn terminate(&self) {
        kill(self.0, Signal::SIGTERM).expect("a process");
    }
}

/// Keeps this process, or thread, on one processor.
pub fn stay_on(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu).expect("a processor");
        sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).expect("a processor of this machine");
    }
}

pub fn open(dpid: Dpid) -> Endpoint {
    Endpoint::open_on(Driver::User, dpid).expect("a free number")
}

/// Whether `f` says true before long. What hangs does so in a thread, which ends with its process.
pub fn in_time(f: impl FnOnce() -> bool + Send + 'static) -> bool {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(f()));
    told.recv_timeout(SOON) == Ok(true)
}

/// A message that tells its number and has a checksum, of any length from 16 on, or an empty one.
pub fn numbered(i: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|k| (i as usize * 31 + k * 7 + k / 251) as u8).collect();
    if len >= 16 {
        bytes[..8].copy_from_slice(&i.to_ne_bytes());
        let sum = u64::from(dp_flow::crc32c(0, &bytes[16..]));
        bytes[8..16].copy_from_slice(&sum.to_ne_bytes());
    }
    bytes
}

/// Its number, if it is whole.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let bytes = Some(bytes).filter(|bytes| bytes.len() >= 16)?;
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    (word(8)? == u64::from(dp_flow::crc32c(0, &bytes[16..]))).then(|| word(0)).flatten()
}

/// Lengths from nothing to 1 MiB, most of them short.
pub fn length(i: u64) -> usize {
    match i % 40 {
        0 => 0,
        1 => 1 << 20,
        2..8 => 16 + (i * 7919 % 100_000) as usize,
        _ => 16 + (i * 97 % 3000) as usize,
    }
}

/// Sends everything back to where it says it is from.
pub fn echo(dpid: Dpid) -> bool {
    let e = open(dpid);
    loop {
        let message = e.recv().expect("a message");
        let (bytes, to) = (message.to_vec(), message.from());
        drop(message);
        e.send_to(&bytes, to).expect("the way back");
    }
}

/// Sends `count` messages to one that echoes, a few at a time, and looks at what comes back.
pub fn exchange(to: Addr, count: u64) -> bool {
    exchange_by(&open(0), to, count)
}

/// The same by an endpoint.
pub fn exchange_by(e: &Endpoint, to: Addr, count: u64) -> bool {
    for first in (0..count).step_by(8) {
        let some = first..(first + 8).min(count);
        some.clone().for_each(|i| e.send_to(&numbered(i, length(i)), to).expect("room"));
        for i in some {
            let message = e.recv().expect("an answer");
            assert_eq!(message.from(), to);
            let bytes = message.to_vec();
            let (len, number) = (bytes.len(), number_of(&bytes));
            assert!(bytes == numbered(i, length(i)), "message {i}: number {number:?} of {len} bytes");
        }
    }
    true
}

/// Receives messages 0 to `count`, each once and in order; tells `at` of each.
pub fn receive_all(e: &Endpoint, count: u64, len: impl Fn(u64) -> usize) {
    for i in 0..count {
        let bytes = e.recv().expect("a message").to_vec();
        assert_eq!(number_of(&bytes), Some(i), "{} bytes", bytes.len());
        assert_eq!(bytes.len(), len(i));
    }
}
