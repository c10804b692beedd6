//! What the tests share: waiting, skips, and nodes that are network namespaces.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};

use dp_route::{PeerAddr, Received, Route};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{unshare, CloneFlags};

const PATIENCE: Duration = Duration::from_secs(10);

/// The next `n` frames, and nothing beside them.
pub fn await_frames(route: &mut dyn Route, n: usize) -> Vec<(PeerAddr, Vec<u8>)> {
    let mut into = Received::new(8, route.slot());
    let mut got: Vec<(PeerAddr, Vec<u8>)> = Vec::new();
    let end = Instant::now() + PATIENCE;
    while got.len() < n {
        assert!(Instant::now() < end, "{}: {} of {n} frames in ten seconds", route.name(), got.len());
        wait(route, Duration::from_millis(200));
        if route.recv(&mut into).unwrap() > 0 {
            got.extend(into.iter().map(|(from, frame)| (*from, frame.to_vec())));
        }
    }
    assert_eq!(got.len(), n, "more than was sent");
    got
}

/// Nothing arrives for so long.
pub fn await_nothing(route: &mut dyn Route, time: Duration) {
    let mut into = Received::new(8, route.slot());
    wait(route, time);
    assert_eq!(route.recv(&mut into).unwrap(), 0);
}

fn wait(route: &dyn Route, time: Duration) {
    let Some(descriptor) = route.descriptor() else { return };
    let mut polled = [PollFd::new(descriptor, PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::try_from(time).unwrap()).unwrap();
}

/// Tries until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "{what}: not in ten seconds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says what could not be tried here.
pub fn skip(what: &str) {
    use std::io::Write;
    println!("SKIP: {what}");
    if let Some(path) = std::env::var_os("DP_SKIPS") {
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "SKIP: {what}")).expect("the list of skips");
    }
}

/// Whether nodes can be made here; says so if not.
pub fn nodes_are_possible(test: &str) -> bool {
    let possible = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join().unwrap();
    if !possible {
        skip(&format!("dp-route {test}: network namespaces need root"));
    }
    possible
}

type Work = Box<dyn FnOnce() + Send>;

/// A node: a thread in a network namespace of its own, which ends with it. Sockets that it opens stay there.
pub struct Node {
    work: Sender<Work>,
    task: i32,
}

impl Node {
    pub fn new() -> Node {
        let (work, todo) = channel::<Work>();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            todo.iter().for_each(|work| work());
        });
        let node = Node { work, task: told.recv().unwrap() };
        node.ip("link set lo up");
        node
    }

    /// Does it there.
    pub fn run<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.work.send(Box::new(move || tell.send(what()).unwrap_or(()))).unwrap();
        told.recv().expect("it did not panic")
    }

    /// The thread, by which ip(8) knows the node.
    pub fn task(&self) -> i32 {
        self.task
    }

    /// Runs ip(8) there; what it prints.
    pub fn ip(&self, line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let out = self.run(move || Command::new("ip").args(words).output());
        let out = out.expect("ip, of Debian's iproute2");
        assert!(out.status.success(), "ip {line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    }

    /// Sets an interface up, and waits until it carries frames: the kernel drops them without a word for up to a second.
    pub fn up(&self, interface: &str) {
        self.ip(&format!("link set {interface} up"));
        until(interface, || self.ip(&format!("link show {interface}")).contains("state UP"));
    }

    /// Joins it to another by a cable of two interfaces, whose addresses end in 1 and 2: 10.N.0.1 and 10.N.0.2,
    /// fd00:N::1 and fd00:N::2, 02:00:00:00:0N:01 and so on.
    pub fn join(&self, interface: &str, other: &Node, others: &str, number: u8) {
        self.ip(&format!("link add {interface} type veth peer name {others} netns {}", other.task));
        for (node, name, end) in [(self, interface, 1), (other, others, 2)] {
            node.ip(&format!("link set {name} address 02:00:00:00:{number:02x}:{end:02x}"));
            node.ip(&format!("addr add 10.{number}.0.{end}/24 dev {name}"));
            node.ip(&format!("addr add fd00:{number}::{end}/64 dev {name} nodad"));
            node.ip(&format!("link set {name} up"));
        }
        self.up(interface);
        other.up(others);
    }
}

/// A folder of this test's own, below the build's, which other users cannot write to.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("route-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
