//! Endpoints of other nodes: looked up like any other, and answered by a gateway.

use std::io::{IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpfd::driver::user::deposit::Deposit;
use dpfd::driver::user::gateway::Gateway;
use dpfd::driver::user::route::code;
use dpfd::driver::Driver;
use dpfd::endpoint::Held;
use dpfd::{Addr, Endpoint, Error, Parts};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;

use crate::kit::*;
use crate::toy::{route, Node};

const ECHO: u16 = 7000;
const COUNT: u64 = 300;

fn there(nid: u16) -> Addr {
    Addr { nid, dpid: ECHO }
}

fn end(child: Child) {
    kill(child.0, Signal::SIGKILL).expect("a process");
    let _ = waitpid(child.0, None);
}

fn length(i: u64) -> usize {
    8 + (i * 97 % 3000) as usize
}

/// A message with an immediate, and the next one without.
fn send(e: &Endpoint, i: u64, to: Addr) {
    let message = numbered(i, length(i));
    let pieces = [IoSlice::new(&message)];
    let parts = Parts::new(&pieces);
    e.send_parts_to(if i % 2 == 0 { parts.with_immediate(i ^ u64::MAX) } else { parts }, to).expect("room");
}

fn immediate_of(i: u64) -> Option<u64> {
    (i % 2 == 0).then_some(i ^ u64::MAX)
}

/// Sends everything back to where it says it is from.
fn echo(d: Driver) -> bool {
    let e = open_here(d, ECHO);
    loop {
        let message = e.recv().expect("a message");
        let bytes = message.to_vec();
        let pieces = [IoSlice::new(&bytes)];
        let parts = Parts::new(&pieces);
        let parts = message.immediate().map_or(parts, |immediate| parts.with_immediate(immediate));
        let to = message.from();
        drop(message);
        e.send_parts_to(parts, to).expect("the way back");
    }
}

/// [`open`], where the folder is a node's.
fn open_here(d: Driver, dpid: u16) -> Endpoint {
    Endpoint::open_on(d, dpid).expect("a free number")
}

/// Two nodes, their gateways, and an endpoint on the second that answers.
fn two_nodes(d: Driver) -> ([Node; 2], [Child; 3]) {
    let nodes = [Node::new(1), Node::new(2)];
    let (here, there) = route();
    let children = [nodes[0].gateway(2, &here), nodes[1].gateway(1, &there), nodes[1].run(|| echo(d))];
    until("the gateways are there", || nodes.iter().all(|n| n.folder().join("gateway").is_symlink()));
    (nodes, children)
}

pub fn without_one_the_error_names_the_node(d: Driver) {
    let e = open(d, numbers(1));
    for error in [e.target(there(999)).unwrap_err(), e.send_to(b"x", there(999)).unwrap_err()] {
        assert_eq!(error.errno(), libc::EHOSTUNREACH);
        let text = error.to_string();
        assert!(text.contains("node 999") && text.contains("gateway"), "{text}");
    }
}

pub fn another_node_is_reached_through_it(d: Driver) {
    let (nodes, children) = two_nodes(d);
    nodes[0]
        .run(|| {
            let a = open_here(d, 0);
            for first in (0..COUNT).step_by(20) {
                // Several at once: order, lengths and immediates are those that were sent.
                (first..first + 20).for_each(|i| send(&a, i, there(2)));
                for i in first..first + 20 {
                    let message = a.recv().expect("an answer");
                    assert_eq!(message.from(), there(2));
                    assert_eq!(message.immediate(), immediate_of(i), "message {i}");
                    assert!(message.to_vec() == numbered(i, length(i)), "message {i}");
                }
            }
            // The same by a target, plainly, and from another endpoint; and a node's own number is this one.
            let b = open_here(d, 0);
            b.target(there(2)).expect("a route");
            write(&b, b"plainly");
            assert_eq!(read(&b), b"plainly");
            b.send_to(b"to oneself", Addr { nid: 1, dpid: b.dpid() }).expect("room");
            read(&b) == b"to oneself"
        })
        .ok();
    children.into_iter().for_each(end);
}

pub fn one_that_comes_back_is_found_again(d: Driver) {
    let nodes = [Node::new(1), Node::new(2)];
    let (here, far) = route();
    let far_gateway = nodes[1].gateway(1, &far);
    let answers = nodes[1].run(|| echo(d));
    let mut gateway = nodes[0].gateway(2, &here);
    until("a gateway", || nodes[0].folder().join("gateway").is_symlink());
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let sender = nodes[0].run(|| {
        let a = open_here(d, 0);
        a.set_nonblocking(true).expect("a flag");
        for round in 0..3u64 {
            // What was with the gateway that was killed is gone with it, as with any receiver.
            until("an answer", || {
                let _ = a.send_to(&numbered(round, 64), there(2));
                sleep(Duration::from_millis(2));
                a.recv().is_ok_and(|m| number_of(&m.to_vec()) == round && m.from() == there(2))
            });
            (&theirs).write_all(b"x").expect("the other side");
            (&theirs).read_exact(&mut [0]).expect("the other side");
        }
        true
    });
    drop(theirs); // so that a sender that fails is noticed
    for round in 0..3 {
        ours.read_exact(&mut [0]).expect("the sender");
        if round < 2 {
            end(gateway);
            gateway = nodes[0].gateway(2, &here);
        }
        ours.write_all(b"x").expect("the sender");
    }
    sender.ok();
    [gateway, far_gateway, answers].into_iter().for_each(end);
}

pub fn a_node_that_it_does_not_know_is_an_error(d: Driver) {
    let (nodes, children) = two_nodes(d);
    nodes[0]
        .run(|| {
            let a = open_here(d, 0);
            let last = Instant::now() + SOON;
            let error = loop {
                // The first is on its way to the gateway when it says so.
                match a.send_to(b"anybody?", there(3)) {
                    Err(error) => break error,
                    Ok(()) => assert!(Instant::now() < last, "it was taken"),
                }
                sleep(Duration::from_millis(1));
            };
            assert!(matches!(error, Error::NoRoute(3)), "{error}");
            // Others go on.
            a.send_to(b"somebody", there(2)).expect("room");
            recv(&a) == b"somebody"
        })
        .ok();
    children.into_iter().for_each(end);
}

pub fn a_node_has_one(d: Driver) {
    let node = Node::new(1);
    let (here, _far) = route();
    let gateway = node.gateway(2, &here);
    until("a gateway", || node.folder().join("gateway").is_symlink());
    let second = || match Gateway::start() {
        Err(error @ Error::HasGateway { .. }) => error.errno() == libc::EADDRINUSE,
        _ => false,
    };
    node.run(second).ok();
    end(gateway);
    // One that was killed is in nobody's way; one that ends leaves nothing, and a proxy is not this node's.
    node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        assert!(Endpoint::proxy(&gateway, Addr { nid: 1, dpid: 5 }).is_err());
        let proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
        assert_eq!(proxy.addr(), there(2));
        assert!(matches!(Endpoint::proxy(&gateway, there(2)), Err(Error::InUse(ECHO))));
        drop(open_here(d, ECHO));
        drop(gateway);
        !node.folder().join("gateway").is_symlink()
    })
    .ok();
}

/// An older one, which takes a note that it does not know for a fault.
pub fn one_that_said_no_routes_is_told_of_none(d: Driver) {
    let node = Node::new(1);
    let sender = node.run(|| {
        let e = open_here(d, 0);
        let gateway = Gateway::start().expect("none lives");
        gateway.offer(&["eth"]).expect("a file");
        e.set_route(Some("eth")).expect("a route");
        drop(gateway);
        until("the next one", || node.folder().join("gateway").is_symlink());
        send(&e, 7, there(2));
        loop {
            sleep(Duration::from_secs(1));
        }
    });
    let folder = node.folder();
    until("the former one's end", || {
        folder.join("gateway.routes").exists() && !folder.join("gateway").is_symlink()
    });
    node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        until("somebody asks", || gateway.asked() == [there(2)]);
        let proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
        assert_eq!(number_of(&proxy.recv().expect("a message").to_vec()), 7);
        gateway.wishes().is_empty()
    })
    .ok();
    end(sender);
}

/// By every way that a message can take: before there is a proxy, over the edge, with an immediate, out of line, plainly before.
pub fn a_message_that_names_its_route_says_so(d: Driver) {
    let node = Node::new(1);
    const COUNT: u64 = 60;
    let long = |i: u64| if i % 20 == 13 { 3 << 20 } else { length(i) };
    let names = [None, Some("eth"), Some("udp")];
    let name = |i: u64| names[(i / 2 % 3) as usize];
    let gateway = node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        gateway.offer(&["eth", "udp"]).expect("a file");
        until("somebody asks", || gateway.asked() == [there(2)]);
        // What was sent until now waits in the sender's process.
        sleep(Duration::from_millis(50));
        let proxy = std::sync::Arc::new(Endpoint::proxy(&gateway, there(2)).expect("a proxy"));
        for i in 0..2 * COUNT {
            let mut held = None;
            until("a message", || {
                held = Held::next(&proxy).expect("a message");
                held.is_some()
            });
            let held = held.expect("there is one");
            let mut bytes = vec![0; held.size()];
            held.copy_from(0, &mut bytes);
            assert!(bytes == numbered(i, long(i)), "message {i}");
            assert_eq!(held.immediate(), immediate_of(i), "message {i}");
            assert_eq!(held.route(), name(i).map_or(0, code), "message {i}");
        }
        std::fs::write(node.folder().join("all"), "").is_ok()
    });
    let sender = node.run(|| {
        until("a gateway", || node.folder().join("gateway.routes").exists());
        let e = open_here(d, 0);
        let send = |i: u64| {
            let message = numbered(i, long(i));
            let (first, second) = message.split_at(5);
            let pieces = [IoSlice::new(first), IoSlice::new(second)];
            let parts = Parts::new(&pieces);
            let parts = immediate_of(i).map_or(parts, |immediate| parts.with_immediate(immediate));
            e.send_parts_to(name(i).map_or(parts, |name| parts.by_route(name)), there(2)).expect("room");
        };
        (0..2 * COUNT).for_each(|i| {
            if i == COUNT {
                sleep(Duration::from_millis(200));
            }
            send(i);
        });
        let error =
            e.send_parts_to(Parts::new(&[]).by_route("wireless"), there(2)).expect_err("there is none");
        assert!(error.errno() == libc::ENOENT && error.to_string().contains("eth, udp"), "{error}");
        // Within a node nothing of it is seen.
        let own = Addr::local(e.dpid());
        e.send_parts_to(Parts::new(&[IoSlice::new(b"here")]).by_route("eth"), own).expect("room");
        assert_eq!(recv(&e), b"here");
        until("all of it", || node.folder().join("all").exists());
        true
    });
    gateway.ok();
    sender.ok();
}

/// One that goes raw, and the next one with its number, which does not.
pub fn who_goes_raw_says_so_and_the_next_one_is_not_taken_for_it(d: Driver) {
    let node = Node::new(1);
    let dpid = numbers(1);
    let sender = |raw: bool, i: u64| {
        node.run(|| {
            until("a gateway", || node.folder().join("gateway").is_symlink());
            let e = open_here(d, dpid);
            if raw {
                e.set_raw();
            }
            send(&e, i, there(2));
            loop {
                sleep(Duration::from_secs(1));
            }
        })
    };
    let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
    let gateway = node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        until("somebody asks", || gateway.asked() == [there(2)]);
        let proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
        let mut raw = None;
        let hear = |raw: &mut Option<bool>| {
            let mut of = gateway.wishes().into_iter().filter(|wish| (wish.from, wish.to) == (dpid, there(2)));
            *raw = of.next_back().map(|wish| wish.how.raw).or(*raw);
        };
        assert_eq!(number_of(&proxy.recv().expect("a message").to_vec()), 1);
        until("its word", || {
            hear(&mut raw);
            raw == Some(true)
        });
        theirs.write_all(b"x").expect("the other side");
        assert_eq!(number_of(&proxy.recv().expect("a message").to_vec()), 2);
        hear(&mut raw);
        raw == Some(false)
    });
    let first = sender(true, 1);
    ours.read_exact(&mut [0]).expect("the gateway");
    end(first);
    let second = sender(false, 2);
    gateway.ok();
    end(second);
}

pub fn what_a_proxy_deposits_is_with_its_receiver_or_nowhere(d: Driver) {
    let node = Node::new(1);
    node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        let proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
        let to = numbers(1);
        let published = std::cell::Cell::new(0u64);
        let deposit = |i: u64, len: usize| {
            let message = numbered(i, len);
            let pieces = [IoSlice::new(&message)];
            let parts = Parts::new(&pieces).with_immediate(i);
            let mut told = || published.set(published.get() + 1);
            proxy.deposit(parts, Addr::local(to), &mut told).expect("nobody is refused")
        };
        assert_eq!(deposit(0, 100), Deposit::Absent);
        assert!(!proxy.reaches(Addr::local(to)).expect("an address"));
        let receiver = open_here(d, to);
        until("the receiver", || proxy.reaches(Addr::local(to)).expect("an address"));
        // Plainly first, and what is too long for that waits; then into the pool, also what is too long for an edge.
        let mut sent = 0;
        for len in [100, 5 << 20, 200, 3 << 20] {
            until("its turn", || {
                let done = deposit(sent, len);
                receiver.usual_pool().expect("memory");
                done == Deposit::Done
            });
            sent += 1;
            assert_eq!(published.get(), sent, "told once, and only if it went");
        }
        // Until there is no room: what was not told is not there.
        while deposit(sent, 20_000) == Deposit::Done {
            sent += 1;
            assert!(sent < 10_000, "there is no end of room");
        }
        assert_eq!(published.get(), sent);
        for i in 0..sent {
            let message = receiver.recv().expect("a message");
            assert_eq!((message.from(), message.immediate()), (there(2), Some(i)));
            assert_eq!(number_of(&message.to_vec()), i);
        }
        receiver.set_nonblocking(true).expect("a flag");
        receiver.recv().is_err_and(|error| is_would_block(&error))
    })
    .ok();
}

/// A server that was restarted, and to which nothing came since.
pub fn an_unused_proxy_ends_where_its_receiver_is_another(d: Driver) {
    let node = Node::new(1);
    node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        let proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
        let to = numbers(1);
        let open = || {
            let receiver = open_here(d, to);
            receiver.usual_pool().expect("memory");
            until("the receiver", || proxy.reaches(Addr::local(to)).expect("an address"));
            receiver
        };
        let first = open();
        until("its turn", || {
            let pieces = [IoSlice::new(b"hello")];
            proxy.deposit(Parts::new(&pieces), Addr::local(to), &mut || ()).expect("nobody is refused")
                == Deposit::Done
        });
        assert_eq!(recv(&first), b"hello");
        drop(first);
        until("its end", || !proxy.reaches(Addr::local(to)).expect("an address"));
        let second = open();
        // It has an edge by then.
        sleep(Duration::from_millis(100));
        until("the proxy's end", || {
            proxy.end_unused();
            sleep(Duration::from_millis(2));
            proxy.has_ended()
        });
        drop(second);
        true
    })
    .ok();
}

/// A server that has answered, and is open still.
pub fn an_unused_proxy_ends_where_its_senders_are_through(d: Driver) {
    let node = Node::new(1);
    node.run(|| {
        let gateway = Gateway::start().expect("none lives");
        let mut proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
        proxy.usual_pool().expect("memory");
        let sender = open_here(d, 0);
        for round in 0..3u64 {
            // By an edge, and before there is one.
            let first = 20 * round;
            (first..first + 19).for_each(|i| send(&sender, i, there(2)));
            until("a proxy", || match gateway.asked().as_slice() {
                [] => round == 0 || !proxy.has_ended(),
                [asked] => {
                    assert_eq!(*asked, there(2));
                    proxy = Endpoint::proxy(&gateway, there(2)).expect("a proxy");
                    proxy.usual_pool().expect("memory");
                    true
                }
                more => unreachable!("{more:?}"),
            });
            let take = |i: u64| {
                let message = proxy.recv().expect("a message");
                assert_eq!(number_of(&message.to_vec()), i);
                assert_eq!(message.immediate(), immediate_of(i));
            };
            (first..first + 19).for_each(take);
            send(&sender, first + 19, there(2));
            // It has something to take.
            (0..20).for_each(|_| proxy.end_unused());
            sleep(Duration::from_millis(50));
            // A sender whose message is on the descriptor may have let go; what has an edge has not.
            assert!(!proxy.has_ended(), "round {round}");
            take(first + 19);
            until("its end", || {
                proxy.end_unused();
                sleep(Duration::from_millis(2));
                proxy.has_ended()
            });
        }
        true
    })
    .ok();
}
