//! Gateways, senders and receivers as processes: on one machine, and in network namespaces of their own.

mod account;
mod foreign;
mod inside;
mod ipv6;
mod kit;
mod memory;
mod namespaces;
mod redirected;
mod soak;
mod thrift;
mod users;

use std::time::{Duration, Instant};

use dpfd::{Addr, Error};

use account::{Account, Runs};
use kit::{
    echo, exchange, exchange_by, length, number_of, numbered, open, receive_all, until, Node, SEALED, SOON,
};

const ECHO: u16 = 7000;

fn there(nid: u16) -> Addr {
    Addr { nid, dpid: ECHO }
}

/// A port of the loopback that nobody has.
fn port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("its address").port()
}

/// Two nodes at such ports.
fn two_nodes() -> [Node; 2] {
    let (a, b) = (port(), port());
    let graph = format!(
        "{SEALED}[[node]]\nnid = 1\nroutes = [\"udp:127.0.0.1:{a}\"]\n\
         [[node]]\nnid = 2\nname = \"beta\"\nroutes = [\"udp:127.0.0.1:{b}\"]\n"
    );
    [Node::new(1, &graph, None), Node::new(2, &graph, None)]
}

#[test]
fn messages_of_all_lengths_go_both_ways() {
    let [one, two] = two_nodes();
    let gateways = [one.gateway(), two.gateway()];
    let answers = two.run(|| echo(ECHO));
    one.run(|| exchange(there(2), 200)).ok();
    let status = one.status().expect("it runs");
    let flow = &status.nodes[0].flows[0];
    assert_eq!((flow.messages_out, flow.messages_in), (200, 200));
    assert!(flow.open && flow.round_trip_ns > 0, "{flow:?}");
    assert!(status.nodes[0].by.is_some() && status.unknown == 0, "{status:?}");
    answers.kill();
    gateways.into_iter().for_each(kit::Child::kill);
}

#[test]
fn a_node_that_is_not_in_the_graph_is_an_error() {
    let [one, two] = two_nodes();
    let gateway = one.gateway();
    one.run(|| {
        let e = open(0);
        let end = Instant::now() + SOON;
        let error = loop {
            // The first is on its way to the gateway when it says so.
            match e.send_to(b"anybody?", there(3)) {
                Err(error) => break error,
                Ok(()) => assert!(Instant::now() < end, "it was taken"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        matches!(error, Error::NoRoute(3)) && error.errno() == nix::libc::EHOSTUNREACH
    })
    .ok();
    drop(two);
    gateway.kill();
}

#[test]
fn who_sends_before_the_other_node_is_up_is_heard_when_it_is() {
    let [one, two] = two_nodes();
    let here = one.gateway();
    let sender = one.run(|| {
        let e = open(0);
        (0..50).for_each(|i| e.send_to(&numbered(i, length(i)), there(2)).expect("room"));
        // What is with the gateway has this process's number as its sender.
        let answer = e.recv().expect("an answer").to_vec();
        answer == b"done"
    });
    until("a flow", || one.status().is_some_and(|status| !status.nodes[0].flows.is_empty()));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(one.status().expect("it runs").nodes[0].by, None, "node 2 is down");
    let there_ = two.gateway();
    std::thread::sleep(Duration::from_millis(100));
    let receiver = two.run(|| {
        let e = open(ECHO);
        for i in 0..50 {
            let message = e.recv().expect("a message");
            assert!(message.to_vec() == numbered(i, length(i)), "message {i}");
            if i == 49 {
                e.send_to(b"done", message.from()).expect("the way back");
            }
        }
        // Until it has left.
        std::thread::sleep(Duration::from_millis(300));
        true
    });
    kit::Child::all_ok(vec![sender, receiver]);
    [here, there_].into_iter().for_each(kit::Child::kill);
}

#[test]
fn a_receiving_gateway_that_is_killed_loses_and_repeats_nothing() {
    const COUNT: u64 = 20_000;
    let len = |i: u64| 16 + (i * 97 % 2000) as usize;
    let [one, two] = two_nodes();
    let here = one.gateway();
    let mut there_ = two.gateway();
    let receiver = two.run(|| {
        receive_all(&open(ECHO), COUNT, len);
        true
    });
    let sender = one.run(|| {
        let e = open(0);
        for i in 0..COUNT {
            e.send_to(&numbered(i, len(i)), there(2)).expect("room");
            if i % 100 == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // The last ones are the gateway's; they stay in its pool when this process ends.
        std::thread::sleep(Duration::from_millis(200));
        true
    });
    for pause in [300, 150, 400, 50, 200] {
        std::thread::sleep(Duration::from_millis(pause));
        there_.kill();
        there_ = two.gateway();
    }
    kit::Child::all_ok(vec![sender, receiver]);
    [here, there_].into_iter().for_each(kit::Child::kill);
}

/// A receiver's gateway ends while its receiver, who is slow, has much to read of what it brought, and the next one has more.
fn comes_in_order_to_one_who_is_slow(end: impl Fn(kit::Child)) {
    const COUNT: u64 = 600;
    let [one, two] = two_nodes();
    let here = one.gateway();
    let mut there_ = two.gateway();
    let receiver = two.run(|| {
        receive_all(&open(ECHO), COUNT, |_| {
            std::thread::sleep(Duration::from_millis(2));
            40
        });
        true
    });
    let sender = one.run(|| {
        let e = open(0);
        for i in 0..COUNT {
            e.send_to(&numbered(i, 40), there(2)).expect("room");
            if i >= 200 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(Duration::from_millis(200));
        true
    });
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(100));
        end(there_);
        there_ = two.gateway();
    }
    kit::Child::all_ok(vec![sender, receiver]);
    [here, there_].into_iter().for_each(kit::Child::kill);
}

#[test]
fn what_a_killed_gateway_brought_and_nobody_has_read_comes_before_what_the_next_one_brings() {
    comes_in_order_to_one_who_is_slow(kit::Child::kill);
}

#[test]
fn what_a_gateway_that_was_told_to_end_brought_comes_before_what_the_next_one_brings() {
    comes_in_order_to_one_who_is_slow(|gateway| {
        gateway.terminate();
        gateway.ok();
    });
}

/// As that of a gateway that was killed, which the kernel clears away behind its lock.
#[test]
fn an_address_that_somebody_has_for_a_moment_yet_is_waited_for() {
    let at = port();
    let graph = format!(
        "{SEALED}[[node]]\nnid = 1\nroutes = [\"udp:127.0.0.1:{at}\"]\n\
         [[node]]\nnid = 2\nroutes = [\"udp:127.0.0.1:{}\"]\n",
        port()
    );
    let one = Node::new(1, &graph, None);
    // In a process of its own: children of this one would keep it as well.
    let has_it = |time| {
        let (mut told, mut tell) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let somebody = one.run(|| {
            let _socket = std::net::UdpSocket::bind(("127.0.0.1", at)).expect("it is free");
            std::io::Write::write_all(&mut tell, b"x").expect("the test");
            std::thread::sleep(time);
            true
        });
        std::io::Read::read_exact(&mut told, &mut [0]).expect("it has the address");
        somebody
    };
    let somebody = has_it(Duration::from_millis(300));
    let gateway = one.gateway();
    somebody.ok();
    gateway.kill();
    let somebody = has_it(SOON);
    let said = one.try_gateway();
    assert!(said.iter().any(|text| text.contains("going on without this route")), "{said:?}");
    somebody.kill();
}

#[test]
fn a_sending_gateway_that_is_killed_takes_with_it_only_what_nobody_acknowledged_and_its_senders_go_on() {
    let [one, two] = two_nodes();
    let mut here = one.gateway();
    let there_ = two.gateway();
    let mut account = Account::new();
    let receiver = two.run(|| {
        let e = open(ECHO);
        let mut runs = Runs::default();
        loop {
            match number_of(&e.recv().expect("a message").to_vec()).expect("a whole one") {
                u64::MAX => break account.came(&runs),
                number => runs.add(number),
            }
        }
        true
    });
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let sender = one.run(|| {
        let e = open(0);
        theirs.set_nonblocking(true).expect("a flag");
        let mut i = 0;
        while std::io::Read::read(&mut &theirs, &mut [0]).is_err() {
            i += 1;
            e.send_to(&numbered(i, 500), there(2)).expect("room");
            account.sent(i);
            std::thread::sleep(Duration::from_micros(200));
        }
        e.send_to(&numbered(u64::MAX, 16), there(2)).expect("room");
        std::thread::sleep(Duration::from_millis(500));
        true
    });
    for pause in [300, 150, 400] {
        std::thread::sleep(Duration::from_millis(pause));
        account.kill(&one, there(2), here);
        here = one.gateway();
    }
    std::thread::sleep(Duration::from_millis(500));
    std::io::Write::write_all(&mut ours, b"x").expect("the sender");
    kit::Child::all_ok(vec![sender, receiver]);
    account.settle(&one, there(2));
    [here, there_].into_iter().for_each(kit::Child::kill);
}

#[test]
fn one_that_is_told_to_end_hands_on_what_it_has() {
    let [one, two] = two_nodes();
    let (here, there_) = (one.gateway(), two.gateway());
    let receiver = two.run(|| {
        receive_all(&open(ECHO), 500, |_| 4000);
        true
    });
    one.run(|| {
        let e = open(0);
        (0..500).for_each(|i| e.send_to(&numbered(i, 4000), there(2)).expect("room"));
        std::thread::sleep(Duration::from_millis(300));
        true
    })
    .ok();
    here.terminate();
    here.ok();
    receiver.ok();
    let gone = |name: &str| one.folder().join(name).symlink_metadata().is_err();
    assert!(gone("gateway.status") && gone("gateway"));
    there_.kill();
}

/// One gateway of node 1 after the other ends in this time while a program sends without a pause: nothing is lost, and nothing comes
/// twice.
fn lose_nothing_of_a_sender_that_goes_on<G>(
    [one, two]: [Node; 2],
    within: Duration,
    start: impl Fn(&Node) -> G,
    end: impl Fn(G),
) {
    let mut here = start(&one);
    let there_ = two.gateway();
    let receiver = two.run(|| {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let e = open(ECHO);
            let mut next = 0;
            loop {
                let number = number_of(&e.recv().expect("a message").to_vec());
                tell.send(number).expect("the test");
                if number == Some(u64::MAX) {
                    return;
                }
                assert_eq!(number, Some(next), "the next one");
                next += 1;
            }
        });
        // However long there is something to receive; an error ends it as well.
        loop {
            match told.recv_timeout(SOON) {
                Ok(Some(u64::MAX)) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    });
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let sender = one.run(|| {
        let e = open(0);
        theirs.set_nonblocking(true).expect("a flag");
        let mut i = 0;
        // Without a pause: its edge is never empty.
        while std::io::Read::read(&mut &theirs, &mut [0]).is_err() {
            e.send_to(&numbered(i, 500), there(2)).expect("room");
            i += 1;
        }
        e.send_to(&numbered(u64::MAX, 16), there(2)).expect("room");
        // Until it has come.
        theirs.set_nonblocking(false).expect("a flag");
        theirs.set_read_timeout(Some(2 * SOON)).expect("a limit");
        std::io::Read::read_exact(&mut &theirs, &mut [0]).is_ok()
    });
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(200));
        let told = Instant::now();
        end(here);
        assert!(told.elapsed() < within, "nobody had to be waited for so long");
        here = start(&one);
    }
    std::thread::sleep(Duration::from_millis(200));
    std::io::Write::write_all(&mut ours, b"x").expect("the sender");
    receiver.ok();
    std::io::Write::write_all(&mut ours, b"x").expect("the sender");
    sender.ok();
    end(here);
    there_.kill();
}

#[test]
fn one_that_is_told_to_end_loses_nothing_of_a_sender_that_goes_on() {
    let within = Duration::from_secs(1);
    lose_nothing_of_a_sender_that_goes_on(two_nodes(), within, Node::gateway, |gateway| {
        gateway.terminate();
        gateway.ok();
    });
}

/// Whether programs were given the graph or not.
#[test]
fn gateways_of_a_strict_graph_let_nothing_go_along_other_edges() {
    let (a, b) = (port(), port());
    let graph = |strict: &str| {
        let processes = "[[process]]\nname = \"one\"\nnode = 1\nendpoints = [5000, 5001]\n\
                         [[process]]\nname = \"two\"\nnode = 2\nendpoints = [7000]\n";
        let edges =
            "[[edge]]\nfrom = \"1/5000\"\nto = \"2/7000\"\n[[edge]]\nfrom = \"2/7000\"\nto = \"1/5000\"\n";
        format!(
            "{strict}{SEALED}[[node]]\nnid = 1\nroutes = [\"udp:127.0.0.1:{a}\"]\n\
             [[node]]\nnid = 2\nroutes = [\"udp:127.0.0.1:{b}\"]\n{processes}{edges}"
        )
    };
    for one_is_strict in [true, false] {
        let strict = |is: bool| graph(if is { "strict = true\n" } else { "" });
        let one = Node::new(1, &strict(one_is_strict), None);
        let two = Node::new(2, &strict(true), None);
        let gateways = [one.gateway(), two.gateway()];
        let answers = two.run(|| {
            let e = open(ECHO);
            loop {
                let message = e.recv().expect("a message");
                assert_eq!(message.from().dpid, 5000);
                e.send_to(&message.to_vec(), message.from()).expect("the way back");
            }
        });
        one.run(|| exchange_by(&open(5000), there(2), 50)).ok();
        one.run(|| {
            let e = open(5001);
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                match e.send_to(b"another edge", there(2)) {
                    Err(Error::NoEdge { from, to }) if one_is_strict => {
                        return (from, to) == (Addr { nid: 1, dpid: 5001 }, there(2));
                    }
                    Err(error) => panic!("{error}"),
                    Ok(()) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
            !one_is_strict
        })
        .ok();
        one.run(|| exchange_by(&open(5000), there(2), 50)).ok();
        if !one_is_strict {
            assert!(two.status().expect("it runs").nodes[0].refused > 0);
        }
        answers.kill();
        gateways.into_iter().for_each(kit::Child::kill);
    }
}
