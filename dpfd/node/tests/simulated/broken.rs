//! Routes that fail.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use dp_node::node::Node;
use dp_node::places::Places;
use dp_route::{Counters, Frames, PeerAddr, Received, Route};

use crate::world::Programs;

/// One that fails to say what came, as long as it is broken, or only that it does not work.
#[derive(Default)]
struct Broken {
    broken: Arc<AtomicBool>,
    is_down: Arc<AtomicBool>,
    asked: Arc<AtomicU32>,
    counters: Counters,
}

impl Route for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    fn local(&self) -> PeerAddr {
        PeerAddr::other("broken", "n1").expect("an address")
    }
    fn mtu(&mut self, _: &PeerAddr) -> io::Result<usize> {
        Ok(1500)
    }
    fn send(&mut self, _: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        Ok(frames.len())
    }
    fn slot(&self) -> usize {
        1500
    }
    fn recv(&mut self, _: &mut Received) -> io::Result<usize> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(nix::libc::EPROTO));
        }
        Ok(0)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn refresh(&mut self) -> io::Result<()> {
        if self.broken.load(Ordering::Relaxed) || self.is_down.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(nix::libc::EPROTO));
        }
        Ok(())
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn node(route: Broken, file: &Path) -> Node<Programs> {
    let places = Places::open(file, 1).expect("a file");
    Node::new(1, Programs::default(), vec![Box::new(route)], Vec::new(), places, None, 1)
}

/// Its descriptor would stay readable, and whoever sleeps on it be woken without end.
#[test]
fn a_route_that_fails_each_time_is_not_asked_until_it_works_again() {
    const SECOND: u64 = 1_000_000_000;
    let file = std::env::temp_dir().join(format!("dp-node-broken-{}", std::process::id()));
    let route = Broken::default();
    let (broken, asked) = (route.broken.clone(), route.asked.clone());
    let mut node = node(route, &file);
    node.turn(SECOND);
    broken.store(true, Ordering::Relaxed);
    (0..1000).for_each(|_| assert_eq!(node.receive(SECOND, 0), 0));
    assert!(asked.load(Ordering::Relaxed) < 100);
    assert_eq!((node.is_heard(0), node.heard_changed(), node.heard_changed()), (false, true, false));
    node.turn(3 * SECOND);
    assert!(!node.is_heard(0) && !node.heard_changed());
    broken.store(false, Ordering::Relaxed);
    node.turn(5 * SECOND);
    assert!(node.is_heard(0) && node.heard_changed());
    // An error that is told once is none of the route's.
    for _ in 0..100 {
        broken.store(true, Ordering::Relaxed);
        node.receive(5 * SECOND, 0);
        broken.store(false, Ordering::Relaxed);
        node.receive(5 * SECOND, 0);
    }
    assert!(node.is_heard(0));
    std::fs::remove_file(file).expect("the file");
}

/// Nothing else wakes a node that nobody sends anything to.
#[test]
fn a_route_that_does_not_work_is_looked_at_until_it_does() {
    const SECOND: u64 = 1_000_000_000;
    let file = std::env::temp_dir().join(format!("dp-node-down-{}", std::process::id()));
    let route = Broken::default();
    let flags = [route.broken.clone(), route.is_down.clone()];
    let mut node = node(route, &file);
    let mut now = SECOND;
    node.turn(now);
    assert_eq!(node.next_timeout(), None);
    for flag in flags {
        flag.store(true, Ordering::Relaxed);
        // Its descriptor tells, once: sooner than it would be looked at.
        (0..20).for_each(|_| assert_eq!(node.receive(now + 1, 0), 0));
        node.turn(now + 1);
        for _ in 0..3 {
            assert_eq!(node.next_timeout(), Some(now + SECOND));
            now += SECOND;
            node.turn(now);
        }
        flag.store(false, Ordering::Relaxed);
        now += SECOND;
        node.turn(now);
        assert!(node.is_heard(0));
        assert_eq!(node.next_timeout(), None, "nobody is woken any more");
    }
    std::fs::remove_file(file).expect("the file");
}
