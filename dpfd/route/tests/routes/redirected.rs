//! Ethernet frames that an XDP program redirects (AF_XDP), between network namespaces. Needs root.

use std::process::Command;
use std::time::Duration;

use dp_route::eth::{Eth, OpenError};
use dp_route::udp::{Options, Udp};
use dp_route::xdp::{NoXdp, Xdp};
use dp_route::{Frames, PeerAddr, Route};

use crate::contract;
use crate::kit::{await_frames, await_nothing, nodes_are_possible, skip, until, Node};

fn open(node: &Node, interface: &'static str, xdp: Xdp) -> Eth {
    node.run(move || Eth::open(interface, xdp)).unwrap()
}

fn pair() -> (Node, Node) {
    let (left, right) = (Node::new(), Node::new());
    left.join("left", &right, "right", 1);
    (left, right)
}

/// Whether frames can be redirected here; says so if not.
fn is_possible(test: &str) -> bool {
    if !nodes_are_possible(test) {
        return false;
    }
    let (left, _right) = pair();
    match left.run(|| Eth::open("left", Xdp::Always)) {
        Ok(_) => true,
        Err(OpenError::Xdp(_, why @ (NoXdp::Capability | NoXdp::Kernel))) => {
            skip(&format!("dp-route {test}: {why}"));
            false
        }
        Err(why) => panic!("{why}"),
    }
}

fn means(route: &Eth) -> String {
    route.means().unwrap().to_string()
}

/// In its node, whose interfaces it may look for.
fn refresh(node: &Node, mut route: Eth) -> Eth {
    node.run(move || {
        // What it says is not asked here.
        let _ = route.refresh();
        route
    })
}

/// The same until it receives so: the kernel clears a former socket away when it comes to it.
fn refresh_until(node: &Node, mut route: Eth, begins: &str) -> Eth {
    for _ in 0..8 {
        route = refresh(node, route);
        if means(&route).starts_with(begins) {
            return route;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("{} where it should be {begins}", means(&route));
}

fn send(route: &mut dyn Route, to: &PeerAddr, length: usize) {
    let bytes = vec![7; length];
    assert_eq!(route.send(to, Frames::new(&bytes, &[length as u16]).unwrap()).unwrap(), 1);
}

fn has_program(node: &Node, interface: &str) -> bool {
    node.ip(&format!("link show {interface}")).contains("prog/xdp")
}

#[test]
fn a_driver_redirects_and_leaves_others_their_frames() {
    if !is_possible("AF_XDP") {
        return;
    }
    let (left, right) = pair();
    let (mut a, mut b) = (open(&left, "left", Xdp::Always), open(&right, "right", Xdp::Always));
    assert!(means(&a).starts_with("xdp: in the interface's driver, 1 queue"), "{}", means(&a));
    contract::keeps(&mut a, &mut b);
    let udp = |node: &Node, at: &str| {
        let at = at.parse().unwrap();
        node.run(move || Udp::open(at, Options::default())).unwrap()
    };
    contract::keeps(&mut udp(&left, "10.1.0.1:7411"), &mut udp(&right, "10.1.0.2:7411"));
    assert!(has_program(&left, "left"));
    drop(a);
    until("no program", || !has_program(&left, "left"));
    drop(b);
    let (mut a, mut b) = (open(&left, "left", Xdp::Never), open(&right, "right", Xdp::Always));
    assert_eq!(means(&a), "packet: xdp = \"never\"");
    contract::keeps(&mut a, &mut b);
    assert!(!has_program(&left, "left"));
}

/// A bridge's driver runs no programs.
#[test]
fn the_kernel_redirects_where_a_driver_does_not() {
    if !is_possible("AF_XDP of the kernel's") {
        return;
    }
    let (left, right) = pair();
    right.ip("link add bridge type bridge forward_delay 0");
    right.ip("link set bridge address 02:00:00:00:01:09");
    right.ip("link set right master bridge");
    right.up("bridge");
    let without = open(&right, "bridge", Xdp::Auto);
    assert!(means(&without).contains("driver runs no XDP programs"), "{}", means(&without));
    let mut b = open(&right, "bridge", Xdp::Always);
    assert!(means(&b).starts_with("xdp: in the kernel"), "{}", means(&b));
    let mut a = open(&left, "left", Xdp::Never);
    drop(without);
    contract::keeps(&mut a, &mut b);
}

#[test]
fn what_nobody_else_uses_is_redirected_by_itself() {
    if !is_possible("AF_XDP by itself") {
        return;
    }
    let (left, _right) = pair();
    let a = open(&left, "left", Xdp::Auto);
    assert!(means(&a).starts_with("packet: the interface has an IP address"), "{}", means(&a));
    assert!(!has_program(&left, "left"));
    left.ip("addr flush dev left scope global");
    let a = open(&left, "left", Xdp::Auto);
    assert!(means(&a).starts_with("xdp: "), "{}", means(&a));
    left.ip("addr add 10.9.0.1/24 dev left");
    let a = refresh(&left, a);
    assert!(means(&a).starts_with("packet: the interface has an IP address"), "{}", means(&a));
    until("no program", || !has_program(&left, "left"));
}

#[test]
fn anothers_program_stays() {
    if !is_possible("two programs") {
        return;
    }
    let (left, right) = pair();
    right.ip("addr flush dev right scope global");
    let mut first = open(&right, "right", Xdp::Always);
    let refused = right.run(|| Eth::open("right", Xdp::Always)).unwrap_err().to_string();
    assert!(refused.contains("another XDP program is on the interface"), "{refused}");
    let second = open(&right, "right", Xdp::Auto);
    assert!(means(&second).starts_with("packet: another XDP program"), "{}", means(&second));
    drop(second);
    let mut a = open(&left, "left", Xdp::Never);
    contract::keeps(&mut a, &mut first);
    assert!(has_program(&right, "right"));
}

/// As that of a gateway that was killed, which the kernel has not cleared away yet.
#[test]
fn a_program_that_goes_late_is_followed() {
    if !is_possible("a program that goes late") {
        return;
    }
    let (_left, right) = pair();
    right.ip("addr flush dev right scope global");
    let former = open(&right, "right", Xdp::Auto);
    let route = open(&right, "right", Xdp::Auto);
    assert!(means(&route).starts_with("packet: another XDP program"), "{}", means(&route));
    drop(former);
    let route = refresh_until(&right, route, "xdp: ");
    drop(route);
}

/// Those beyond the fourth have no socket; what comes by them goes to the packet socket.
#[test]
fn all_queues_bring_their_frames() {
    if !is_possible("queues") {
        return;
    }
    let (left, right) = (Node::new(), Node::new());
    let queues = "numrxqueues 6 numtxqueues 6";
    left.ip(&format!("link add left {queues} type veth peer name right {queues} netns {}", right.task()));
    right.ip("link set right address 02:00:00:00:00:02");
    for (node, name) in [(&left, "left"), (&right, "right")] {
        node.ip(&format!("link set {name} up"));
    }
    left.up("left");
    right.up("right");
    let mut b = open(&right, "right", Xdp::Auto);
    assert!(means(&b).ends_with("4 queues"), "{}", means(&b));
    let mut a = open(&left, "left", Xdp::Never);
    contract::keeps(&mut a, &mut b);
    for queue in 0..6 {
        assert!(sends_by(&left, queue), "the kernel's transmit packet steering (CONFIG_XPS)");
        for length in 100..140 {
            send(&mut a, &b.local(), length);
            assert_eq!(await_frames(&mut b, 1)[0].1.len(), length, "queue {queue}");
        }
    }
}

/// Has all processors send by this one of six queues of "left"; whether that could be said. The namespace's own sysfs says it.
fn sends_by(node: &Node, queue: usize) -> bool {
    let of = |n: usize| format!("/sys/class/net/left/queues/tx-{n}/xps_cpus");
    let no_other: String = (0..6).map(|n| format!(" && echo 0 > {}", of(n))).collect();
    let all = "printf '%x' $(((1 << $(nproc --all)) - 1))";
    let line = format!("mount -t sysfs none /sys{no_other} && {all} > {}", of(queue));
    node.run(move || {
        let made = Command::new("unshare").args(["--mount", "sh", "-c", &line]).output();
        made.is_ok_and(|out| out.status.success())
    })
}

#[test]
fn frames_that_are_not_redirected_come_as_before() {
    if !is_possible("passed frames") {
        return;
    }
    let (left, right) = pair();
    let (mut a, mut b) = (open(&left, "left", Xdp::Never), open(&right, "right", Xdp::Always));
    // Another socket of the EtherType has what is passed on, and nothing else: here the kernel driver's layout.
    let mut other = open(&right, "right", Xdp::Never);
    let bytes = [1; 100];
    a.send(&b.local(), Frames::new(&bytes, &[100]).unwrap()).unwrap();
    assert_eq!(await_frames(&mut b, 1)[0].1, bytes);
    assert_eq!(await_frames(&mut other, 1)[0].1, bytes);
    send(&mut a, &b.local(), 100);
    assert_eq!(await_frames(&mut b, 1)[0].1, [7; 100]);
    await_nothing(&mut other, Duration::from_millis(50));
    // Longer than a chunk, of an MTU that the route does not know of as yet.
    right.ip("link set right mtu 9000");
    left.ip("link set left mtu 9000");
    let mut a = refresh(&left, a);
    let mut room = dp_route::Received::new(8, 9000);
    send(&mut a, &b.local(), 5000);
    until("a long frame", || b.recv(&mut room).unwrap() == 1);
    assert_eq!(room.iter().next().unwrap().1.len(), 5000);
}

#[test]
fn a_redirect_follows_its_interface() {
    if !is_possible("interfaces") {
        return;
    }
    let (left, right) = pair();
    let (mut a, mut b) = (open(&left, "left", Xdp::Never), open(&right, "right", Xdp::Always));
    let to = b.local();
    // Down and up.
    right.ip("link set right down");
    await_nothing(&mut b, Duration::from_millis(50));
    b = refresh(&right, b);
    right.up("right");
    left.up("left");
    b = refresh(&right, b);
    send(&mut a, &to, 101);
    assert_eq!(await_frames(&mut b, 1)[0].1.len(), 101);
    assert!(means(&b).starts_with("xdp: "), "{}", means(&b));
    // Longer frames than fit, and back.
    for (mtu, begins) in [(9000, "packet: frames of 9000 bytes"), (3000, "xdp: "), (1500, "xdp: ")] {
        right.ip(&format!("link set right mtu {mtu}"));
        left.ip(&format!("link set left mtu {mtu}"));
        a = refresh(&left, a);
        b = refresh_until(&right, b, begins);
        send(&mut a, &to, mtu);
        assert_eq!(await_frames(&mut b, 1)[0].1.len(), mtu);
    }
    // Another address.
    right.ip("link set right address 02:00:00:00:01:07");
    b = refresh_until(&right, b, "xdp: ");
    send(&mut a, &b.local(), 102);
    assert_eq!(await_frames(&mut b, 1)[0].1.len(), 102);
    // Made anew, with another number.
    right.ip("link del right");
    b = refresh(&right, b);
    right.ip("link add between type veth peer name other");
    left.join("left", &right, "right", 1);
    let (mut a, mut b) = (refresh(&left, a), refresh_until(&right, b, "xdp: "));
    send(&mut a, &b.local(), 103);
    assert_eq!(await_frames(&mut b, 1)[0].1.len(), 103);
}

/// A bridge gives what is for others on, though it is of the same EtherType.
#[test]
fn frames_for_other_machines_pass() {
    if !is_possible("frames for others") {
        return;
    }
    let (left, middle, right) = (Node::new(), Node::new(), Node::new());
    left.join("left", &middle, "near", 1);
    right.join("right", &middle, "far", 2);
    middle.ip("link add bridge type bridge forward_delay 0");
    middle.ip("link set near master bridge");
    middle.ip("link set far master bridge");
    middle.up("bridge");
    let mut between = open(&middle, "near", Xdp::Always);
    contract::keeps(&mut open(&left, "left", Xdp::Never), &mut open(&right, "right", Xdp::Never));
    let mut a = open(&left, "left", Xdp::Never);
    send(&mut a, &between.local(), 104);
    assert_eq!(await_frames(&mut between, 1)[0].1.len(), 104);
}

/// With the capability for packet sockets alone, the rest is told of and done without.
#[test]
fn missing_capabilities_are_told() {
    if !is_possible("capabilities") {
        return;
    }
    let (left, _right) = pair();
    left.ip("addr flush dev left scope global");
    let (auto, always) = left.run(|| {
        const NET_RAW: u32 = 1 << 13;
        let header = [0x2008_0522u32, 0];
        let sets = [NET_RAW, NET_RAW, 0, 0, 0, 0];
        // SAFETY: a header of version 3 for this thread, and six numbers, which are only read.
        let status = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
        assert_eq!(status, 0);
        (Eth::open("left", Xdp::Auto).unwrap(), Eth::open("left", Xdp::Always).unwrap_err())
    });
    assert!(means(&auto).contains("CAP_BPF"), "{}", means(&auto));
    let text = always.to_string();
    assert!(text.contains("which is asked for") && text.contains("CAP_NET_ADMIN"), "{text}");
}
