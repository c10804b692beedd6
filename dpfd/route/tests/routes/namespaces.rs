//! Between nodes: network namespaces that are joined by veth pairs. Needs root.

use std::io;
use std::time::Duration;

use dp_route::choice::{self, Choice, Want};
use dp_route::eth::{Eth, OpenError};
use dp_route::udp::{Options, Udp};
use dp_route::xdp::Xdp;
use dp_route::{Frames, PeerAddr, Reason, Route};

use crate::contract;
use crate::kit::{await_frames, await_nothing, nodes_are_possible, until, Node};

fn udp(node: &Node, local: &str) -> Udp {
    let local = local.parse().unwrap();
    node.run(move || Udp::open(local, Options::default())).unwrap()
}

fn eth(node: &Node, interface: &'static str) -> Eth {
    node.run(move || Eth::open(interface, Xdp::Never)).unwrap()
}

fn pair() -> (Node, Node) {
    let (left, right) = (Node::new(), Node::new());
    left.join("left", &right, "right", 1);
    (left, right)
}

/// Sends one frame of so many bytes.
fn try_send(route: &mut dyn Route, to: &PeerAddr, length: usize) -> io::Result<usize> {
    let bytes = vec![7; length];
    route.send(to, Frames::new(&bytes, &[length as u16]).unwrap())
}

fn reason(sent: io::Result<usize>) -> Option<Reason> {
    sent.err().map(|error| Reason::of(&error))
}

#[test]
fn udp_between_nodes() {
    if !nodes_are_possible("udp") {
        return;
    }
    let (left, right) = pair();
    for (a, b, headers) in
        [("10.1.0.1:7411", "10.1.0.2:7411", 28), ("[fd00:1::1]:7411", "[fd00:1::2]:7411", 48)]
    {
        let (mut a, mut b) = (udp(&left, a), udp(&right, b));
        assert_eq!(a.mtu(&b.local()).unwrap(), 1500 - headers);
        contract::keeps(&mut a, &mut b);
        if a.remark().is_none() {
            let counters = a.counters();
            assert!(counters.sent_calls * 2 < counters.sent, "no offload: {counters:?}");
        }
    }
}

#[test]
fn eth_between_nodes() {
    if !nodes_are_possible("eth") {
        return;
    }
    let (left, right) = pair();
    let (mut a, mut b) = (eth(&left, "left"), eth(&right, "right"));
    assert_eq!(a.local().to_string(), "eth:left/02:00:00:00:01:01");
    assert_eq!(a.mtu(&b.local()).unwrap(), 1500);
    contract::keeps(&mut a, &mut b);
    let counters = a.counters();
    assert!(counters.sent_calls * 2 < counters.sent, "no batches: {counters:?}");
}

/// What a machine in between, or a switch that does not know better, brings to this interface.
#[test]
fn eth_takes_what_is_for_this_node_only() {
    if !nodes_are_possible("eth") {
        return;
    }
    let (left, right) = pair();
    let (mut a, mut b) = (eth(&left, "left"), eth(&right, "right"));
    right.ip("link set right promisc on");
    try_send(&mut a, &"eth:x/02:00:00:00:09:09".parse().unwrap(), 60).unwrap();
    await_nothing(&mut b, Duration::from_millis(200));
    assert_eq!(b.counters().refused(Reason::Foreign), 1);
    // Other EtherTypes do not even wake it.
    let mut ip = udp(&left, "10.1.0.1:0");
    try_send(&mut ip, &"udp:10.1.0.2:9".parse().unwrap(), 60).unwrap();
    await_nothing(&mut b, Duration::from_millis(100));
    assert_eq!(b.counters().refused(Reason::Foreign), 1);
}

#[test]
fn a_link_goes_down_and_comes_back() {
    if !nodes_are_possible("link down") {
        return;
    }
    let (left, right) = pair();
    let mut routes: [(Box<dyn Route>, Box<dyn Route>); 2] = [
        (Box::new(udp(&left, "10.1.0.1:7411")), Box::new(udp(&right, "10.1.0.2:7411"))),
        (Box::new(eth(&left, "left")), Box::new(eth(&right, "right"))),
    ];
    for (a, b) in &mut routes {
        let name = a.name().to_string();
        try_send(&mut **a, &b.local(), 100).unwrap();
        await_frames(&mut **b, 1);
        left.ip("link set left down");
        let down = reason(try_send(&mut **a, &b.local(), 100));
        assert_eq!(down, Some(Reason::Unreachable), "{name}");
        await_nothing(&mut **a, Duration::from_millis(50));
        left.up("left");
        a.refresh().unwrap_or_else(|error| panic!("{name}: {error}"));
        until(&name, || try_send(&mut **a, &b.local(), 101).is_ok());
        assert_eq!(
            await_frames(&mut **b, 1)[0].1.len(),
            101,
            "{name}: what was sent while it was down is gone"
        );
        try_send(&mut **b, &a.local(), 102).unwrap();
        assert_eq!(await_frames(&mut **a, 1)[0].1.len(), 102, "{name}: both directions");
    }
}

#[test]
fn refresh_tells_of_a_link_that_is_down() {
    if !nodes_are_possible("refresh") {
        return;
    }
    let (left, _right) = pair();
    let (mut u, mut e) = (udp(&left, "10.1.0.1:7411"), eth(&left, "left"));
    u.refresh().expect("nobody is known as yet");
    u.mtu(&"udp:10.1.0.2:9".parse().unwrap()).unwrap();
    left.ip("link set left down");
    assert_eq!(Reason::of(&e.refresh().unwrap_err()), Reason::Unreachable);
    for _ in 0..2 {
        assert_eq!(Reason::of(&u.refresh().unwrap_err()), Reason::Unreachable);
    }
    left.up("left");
    e.refresh().unwrap();
    u.refresh().unwrap();
}

#[test]
fn an_address_that_goes_and_comes_back_does_not_cost_the_offload() {
    if !nodes_are_possible("address") {
        return;
    }
    let (left, right) = pair();
    let (mut a, mut b) = (udp(&left, "10.1.0.1:7411"), udp(&right, "10.1.0.2:7411"));
    let bytes = [7; 300];
    let three = Frames::new(&bytes, &[100; 3]).unwrap();
    let segments = a.segments();
    a.send(&b.local(), three).unwrap();
    await_frames(&mut b, 3);
    left.ip("addr del 10.1.0.1/24 dev left");
    left.ip("addr add 10.1.0.9/24 dev left");
    let reason = reason(a.send(&b.local(), three)).expect("it cannot be sent from there");
    assert!(reason.is_fatal(), "{reason:?}");
    left.ip("addr add 10.1.0.1/24 dev left");
    until("the address", || a.send(&b.local(), three).is_ok());
    await_frames(&mut b, 3);
    assert_eq!(a.segments(), segments);
}

#[test]
fn an_interface_that_was_made_anew_is_found_again() {
    if !nodes_are_possible("new interface") {
        return;
    }
    let (left, right) = pair();
    let mut a = eth(&left, "left");
    let to = "eth:right/02:00:00:00:01:02".parse().unwrap();
    left.ip("link del left");
    assert_eq!(reason(try_send(&mut a, &to, 100)), Some(Reason::Unreachable));
    assert_eq!(Reason::of(&a.refresh().unwrap_err()), Reason::Unreachable);
    // So that it gets another number.
    left.ip("link add between type veth peer name other");
    left.join("left", &right, "right", 1);
    let mut b = eth(&right, "right");
    a.refresh().unwrap();
    try_send(&mut a, &to, 100).unwrap();
    await_frames(&mut b, 1);
    try_send(&mut b, &a.local(), 100).unwrap();
    await_frames(&mut a, 1);
}

#[test]
fn an_mtu_changes() {
    if !nodes_are_possible("MTU") {
        return;
    }
    let (left, right) = pair();
    let mtu = |bytes| {
        right.ip(&format!("link set right mtu {bytes}"));
        left.ip(&format!("link set left mtu {bytes}"));
    };
    type Ends = (Box<dyn Route>, Box<dyn Route>, usize);
    let mut routes: [Ends; 3] = [
        (Box::new(udp(&left, "10.1.0.1:7411")), Box::new(udp(&right, "10.1.0.2:7411")), 28),
        (Box::new(udp(&left, "[fd00:1::1]:7411")), Box::new(udp(&right, "[fd00:1::2]:7411")), 48),
        (Box::new(eth(&left, "left")), Box::new(eth(&right, "right")), 0),
    ];
    for (a, b, headers) in &mut routes {
        let name = b.local().to_string();
        let offload = a.remark().is_none();
        assert_eq!(a.mtu(&b.local()).unwrap(), 1500 - *headers, "{name}");
        mtu(1300);
        // A whole batch of what was right before.
        let bytes = vec![7; 10 * 1400];
        let error = a.send(&b.local(), Frames::new(&bytes, &[1400; 10]).unwrap()).expect_err(&name);
        assert_eq!(Reason::of(&error), Reason::TooLong, "{name}: {error}");
        assert_eq!(a.mtu(&b.local()).unwrap(), 1300 - *headers, "{name}: found out with the error");
        let whole = vec![7; 10 * (1300 - *headers)];
        let sent = a.send(&b.local(), Frames::new(&whole, &[1300 - *headers as u16; 10]).unwrap());
        assert_eq!(sent.unwrap(), 10, "{name}");
        await_frames(&mut **b, 10);
        assert_eq!(a.remark().is_none(), offload, "{name}: that was not the offload's fault");
        mtu(9000);
        a.refresh().unwrap();
        b.refresh().unwrap();
        assert_eq!(a.mtu(&b.local()).unwrap(), 9000 - *headers, "{name}");
        try_send(&mut **a, &b.local(), 9000 - *headers).unwrap();
        await_frames(&mut **b, 1);
        mtu(1500);
        a.refresh().unwrap();
        b.refresh().unwrap();
    }
}

#[test]
fn a_router_with_a_shorter_mtu_is_heard() {
    if !nodes_are_possible("path MTU") {
        return;
    }
    let (left, router, right) = (Node::new(), Node::new(), Node::new());
    left.join("left", &router, "near", 1);
    right.join("right", &router, "far", 2);
    router
        .run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
        })
        .unwrap();
    router.ip("link set far mtu 1300");
    for (node, near, network) in [(&left, 1, 2), (&right, 2, 1)] {
        node.ip(&format!("route add 10.{network}.0.0/24 via 10.{near}.0.2"));
        node.ip(&format!("route add fd00:{network}::/64 via fd00:{near}::2"));
    }
    for (a, b, headers) in
        [("10.1.0.1:7411", "10.2.0.1:7411", 28), ("[fd00:1::1]:7411", "[fd00:2::1]:7411", 48)]
    {
        let (mut a, mut b) = (udp(&left, a), udp(&right, b));
        let to = b.local();
        assert_eq!(a.mtu(&to).unwrap(), 1500 - headers);
        try_send(&mut a, &to, 100).unwrap();
        await_frames(&mut b, 1);
        // Lost, and the router says why.
        until("the router's word", || reason(try_send(&mut a, &to, 1500 - headers)) == Some(Reason::TooLong));
        assert_eq!(a.mtu(&to).unwrap(), 1300 - headers);
        try_send(&mut a, &to, 1300 - headers).unwrap();
        assert_eq!(await_frames(&mut b, 1)[0].1.len(), 1300 - headers);
    }
}

#[test]
fn eth_says_what_it_lacks() {
    if !nodes_are_possible("eth") {
        return;
    }
    let (left, _right) = pair();
    let open = |name: &'static str| left.run(move || Eth::open(name, Xdp::Auto)).unwrap_err();
    assert!(matches!(open("none"), OpenError::Missing(_)));
    assert!(matches!(open("a b"), OpenError::Name(_)));
    left.ip("tuntap add tunnel mode tun");
    assert!(matches!(open("tunnel"), OpenError::NotEthernet(_)));
    let unprivileged = left.run(|| {
        // SAFETY: takes numbers only. The system call, unlike the library's function, changes this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        Eth::open("left", Xdp::Auto).unwrap_err()
    });
    assert!(matches!(unprivileged, OpenError::Capability), "{unprivileged}");
    assert!(unprivileged.to_string().contains("CAP_NET_RAW"));
}

#[test]
fn the_next_route_comes_in_and_the_first_is_taken_back() {
    if !nodes_are_possible("choice") {
        return;
    }
    let (left, right) = pair();
    left.join("left2", &right, "right2", 2);
    let mut here: Vec<Box<dyn Route>> =
        vec![Box::new(eth(&left, "left")), Box::new(udp(&left, "10.2.0.1:7411"))];
    let mut there: Vec<Box<dyn Route>> =
        vec![Box::new(eth(&right, "right")), Box::new(udp(&right, "10.2.0.2:7411"))];
    let peer: Vec<PeerAddr> = there.iter().map(|route| route.local()).collect();
    let mut choice = Choice::new(&["eth", "udp"], Want::Order).unwrap();
    let at = Duration::from_millis;
    let mut send = |choice: &mut Choice, now| {
        choice::send(choice, now, &mut here, &peer, Frames::new(&[1, 2, 3], &[1, 2]).unwrap()).unwrap()
    };
    assert_eq!(send(&mut choice, at(0)), 2);
    await_frames(&mut *there[0], 2);
    left.ip("link set left down");
    assert_eq!(send(&mut choice, at(1)), 2, "the same call goes by the next");
    await_frames(&mut *there[1], 2);
    await_nothing(&mut *there[0], Duration::from_millis(20));
    left.up("left");
    assert_eq!(send(&mut choice, at(50)), 2, "nobody has tried the first yet");
    await_frames(&mut *there[1], 2);
    assert_eq!(choice.probe(at(101)), Some(0));
    choice.answered(at(102), 0);
    choice.answered(at(202), 0);
    assert_eq!(send(&mut choice, at(203)), 2);
    await_frames(&mut *there[0], 2);
    await_nothing(&mut *there[1], Duration::from_millis(20));
}
