//! Programs that are nodes by themselves, with their gateways inside.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use dpfd::Endpoint;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::time::{clock_gettime, ClockId};

use crate::kit::{
    echo, exchange, exchange_by, in_time, number_of, numbered, open, until, Child, Node, SEALED,
};
use crate::{lose_nothing_of_a_sender_that_goes_on, port, there, two_nodes, ECHO};

/// A program that answers.
fn answers(node: &Node) -> Child {
    node.run(|| {
        let _gateway = node.inside();
        echo(ECHO)
    })
}

#[test]
fn messages_of_all_lengths_go_both_ways_without_another_process() {
    let [one, two] = two_nodes();
    let server = answers(&two);
    one.run(|| {
        let _gateway = one.inside();
        exchange(there(2), 300)
    })
    .ok();
    let flow = &two.status().expect("it runs").nodes[0].flows[0];
    assert_eq!((flow.messages_out, flow.messages_in), (300, 300));
    server.kill();
}

#[test]
fn one_side_may_have_a_gateway_that_is_a_process() {
    let [one, two] = two_nodes();
    let gateway = two.gateway();
    let server = two.run(|| echo(ECHO));
    one.run(|| {
        let _gateway = one.inside();
        exchange(there(2), 200)
    })
    .ok();
    [server, gateway].into_iter().for_each(Child::kill);
}

#[test]
fn other_programs_of_the_node_may_use_it() {
    let [one, two] = two_nodes();
    let server = answers(&two);
    let host = one.run(|| {
        let _gateway = one.inside();
        std::thread::sleep(Duration::from_secs(60));
        true
    });
    until("a gateway", || one.status().is_some());
    one.run(|| exchange(there(2), 200)).ok();
    [server, host].into_iter().for_each(Child::kill);
}

#[test]
fn one_that_ends_loses_nothing_of_another_program_of_the_node_that_sends_on() {
    let start = |node: &Node| {
        let (tell, mut told) = UnixStream::pair().expect("a pair");
        let host = node.run(|| {
            let _gateway = node.inside();
            told.read_exact(&mut [0]).is_ok()
        });
        until("a gateway", || node.status().is_some());
        (host, tell)
    };
    lose_nothing_of_a_sender_that_goes_on(two_nodes(), Duration::from_secs(1), start, |(host, mut tell)| {
        tell.write_all(b"x").expect("the host");
        host.ok();
    });
}

/// Its own messages to a node that is down stay where they are, however long it waits for them.
#[test]
fn nor_does_one_that_cannot_hand_over_what_it_sent_itself() {
    let [a, b, c] = [port(), port(), port()];
    let node = |nid: u16, port: u16| format!("[[node]]\nnid = {nid}\nroutes = [\"udp:127.0.0.1:{port}\"]\n");
    let graph = format!("{SEALED}{}{}{}", node(1, a), node(2, b), node(3, c));
    let nodes = [Node::new(1, &graph, None), Node::new(2, &graph, None)];
    let start = |node: &Node| {
        let (mut tell, mut told) = UnixStream::pair().expect("a pair");
        let host = node.run(|| {
            let _gateway = node.inside();
            let e = open(0);
            e.set_nonblocking(true).expect("a flag");
            let mut in_vain = 0;
            while in_vain < 100 {
                match e.send_to(&[0; 100_000], there(3)) {
                    Ok(()) => in_vain = 0,
                    Err(_) => in_vain += 1,
                }
                std::thread::sleep(Duration::from_millis(u64::from(in_vain > 0)));
            }
            told.write_all(b"x").and_then(|()| told.read_exact(&mut [0])).is_ok()
        });
        tell.read_exact(&mut [0]).expect("the host");
        (host, tell)
    };
    lose_nothing_of_a_sender_that_goes_on(nodes, Duration::from_secs(4), start, |(host, mut tell)| {
        tell.write_all(b"x").expect("the host");
        host.ok();
    });
}

/// Between two nodes, each of which believes that the other one is at an address of this: of all frames some are lost, some come
/// twice, and some come late.
struct Relay {
    ends: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Relay {
    fn new() -> (Relay, [Node; 2]) {
        let (a, b) = (port(), port());
        let bind = || Arc::new(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let of = |socket: &UdpSocket| socket.local_addr().expect("its address").port();
        let (as_one, as_two, ends) = (bind(), bind(), Arc::new(AtomicBool::new(false)));
        let graph = |one: u16, two: u16| {
            format!(
                "{SEALED}[[node]]\nnid = 1\nroutes = [\"udp:127.0.0.1:{one}\"]\n\
                 [[node]]\nnid = 2\nroutes = [\"udp:127.0.0.1:{two}\"]\n"
            )
        };
        let nodes = [Node::new(1, &graph(a, of(&as_two)), None), Node::new(2, &graph(of(&as_one), b), None)];
        let threads = [(as_two.clone(), as_one.clone(), b), (as_one, as_two, a)].map(|(from, by, to)| {
            let ends = ends.clone();
            std::thread::spawn(move || hand_on(&from, &by, to, &ends))
        });
        (Relay { ends, threads: threads.into() }, nodes)
    }
}

fn hand_on(from: &UdpSocket, by: &UdpSocket, to: u16, ends: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let (mut seed, mut late, mut frame) = (u64::from(to), None::<Vec<u8>>, vec![0; 1 << 16]);
    let send = |bytes: &[u8]| drop(by.send_to(bytes, ("127.0.0.1", to)));
    while !ends.load(Ordering::Relaxed) {
        let Ok(n) = from.recv(&mut frame) else { continue };
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match (seed >> 33) % 40 {
            0 | 1 => {}
            2 => [0; 2].iter().for_each(|_| send(&frame[..n])),
            3 if late.is_none() => late = Some(frame[..n].to_vec()),
            _ => {
                send(&frame[..n]);
                late.take().iter().for_each(|late| send(late));
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn what_is_lost_on_the_way_comes_all_the_same() {
    let (_relay, [one, two]) = Relay::new();
    let server = answers(&two);
    one.run(|| {
        let _gateway = one.inside();
        exchange(there(2), 300)
    })
    .ok();
    let again: u64 = two.status().expect("it runs").nodes[0].flows.iter().map(|flow| flow.again).sum();
    assert!(again > 0, "nothing was lost");
    server.kill();
}

/// Programs die with their gateways: what was on its way goes to the next one, nothing comes twice or out of order, and missing is only
/// what was in the pool of one that died, which it had not read.
#[test]
fn a_receiver_that_is_killed_is_followed_by_another() {
    let [one, two] = two_nodes();
    let (mut told, tell) = UnixStream::pair().expect("a pair");
    let receiver = || {
        two.run(|| {
            let _gateway = two.inside();
            let e = open(ECHO);
            loop {
                let number = number_of(&e.recv().expect("a message").to_vec()).expect("a whole one");
                (&tell).write_all(&number.to_ne_bytes()).expect("the test");
            }
        })
    };
    let mut there_ = receiver();
    let sender = one.run(|| {
        let _gateway = one.inside();
        let e = open(0);
        for i in 0.. {
            e.send_to(&numbered(i, 16 + (i * 97 % 3000) as usize), there(2)).expect("room");
            std::thread::sleep(Duration::from_micros(100));
        }
        false
    });
    let (mut next, mut gaps) = (0, 0);
    for kills in 0..4 {
        for _ in 0..500 {
            let mut number = [0; 8];
            told.read_exact(&mut number).expect("a receiver");
            let number = u64::from_ne_bytes(number);
            assert!(number >= next, "{number} where {next} was due");
            gaps += u32::from(number > next);
            assert!(gaps <= kills, "{next} to {} are missing, and nobody died with them", number - 1);
            next = number + 1;
        }
        there_.kill();
        there_ = receiver();
    }
    [sender, there_].into_iter().for_each(Child::kill);
}

#[test]
fn a_sender_that_is_killed_is_followed_by_another() {
    let [one, two] = two_nodes();
    let (mut told, tell) = UnixStream::pair().expect("a pair");
    let receiver = two.run(|| {
        let _gateway = two.inside();
        let e = open(ECHO);
        loop {
            let number = number_of(&e.recv().expect("a message").to_vec()).expect("a whole one");
            (&tell).write_all(&number.to_ne_bytes()).expect("the test");
        }
    });
    // Of each sender all up to the last that came.
    let mut next = 0;
    for turn in 0..4u64 {
        let sender = one.run(|| {
            let _gateway = one.inside();
            let e = open(4000);
            for i in 0.. {
                e.send_to(&numbered(turn << 32 | i, 500), there(2)).expect("room");
            }
            false
        });
        let mut of_this = 0;
        while of_this < 2000 {
            let mut number = [0; 8];
            told.read_exact(&mut number).expect("the receiver");
            let number = u64::from_ne_bytes(number);
            let is_first = number == turn << 32 && next <= number;
            assert!(is_first || number == next, "{number:x} where {next:x} was due");
            of_this += u64::from(number >> 32 == turn);
            next = number + 1;
        }
        sender.kill();
    }
    receiver.kill();
}

/// What was sent has arrived when the program ends, though it makes no call any more.
#[test]
fn a_program_that_ends_hands_on_what_it_has() {
    let [one, two] = two_nodes();
    let receiver = two.run(|| {
        let _gateway = two.inside();
        crate::receive_all(&open(ECHO), 300, |_| 4000);
        true
    });
    one.run(|| {
        let gateway = one.inside();
        let e = open(0);
        (0..300).for_each(|i| e.send_to(&numbered(i, 4000), there(2)).expect("room"));
        drop(gateway);
        true
    })
    .ok();
    receiver.ok();
}

/// The first message goes by the service, which has to ask for a proxy before the gateway gets it.
#[test]
fn a_program_that_ends_at_once_hands_on_the_only_message_it_sent() {
    let [one, two] = two_nodes();
    let receiver = two.run(|| {
        let _gateway = two.inside();
        in_time(|| open(ECHO).recv().expect("a message").to_vec() == numbered(0, 100))
    });
    until("a gateway", || two.status().is_some());
    one.run(|| {
        let gateway = one.inside();
        let e = open(0);
        e.send_to(&numbered(0, 100), there(2)).expect("room");
        drop(gateway);
        true
    })
    .ok();
    receiver.ok();
}

#[test]
fn a_receive_sleeps_where_the_gateway_has_ended() {
    let [one, two] = two_nodes();
    let server = answers(&two);
    one.run(|| {
        let gateway = one.inside();
        exchange(there(2), 16);
        drop(gateway);
        // What was due last is over.
        std::thread::sleep(Duration::from_millis(1500));
        std::thread::spawn(|| {
            let e = open(0);
            drop(e.recv());
        });
        std::thread::sleep(Duration::from_millis(200));
        let used = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).expect("a clock");
        let before = used();
        std::thread::sleep(Duration::from_millis(500));
        used() - before < Duration::from_millis(50)
    })
    .ok();
    server.kill();
}

/// The other one is told by bells only, which a gateway inside does not need.
#[test]
fn a_gateway_that_is_a_process_follows_one_that_was_inside() {
    let [one, two] = two_nodes();
    let server = answers(&two);
    let (mut told, tell) = UnixStream::pair().expect("a pair");
    let program = one.run(|| {
        drop(one.inside());
        (&tell).write_all(b"x").expect("the test");
        until("the other gateway", || one.status().is_some());
        in_time(|| exchange(there(2), 100))
    });
    told.read_exact(&mut [0]).expect("the program");
    let gateway = one.gateway_that_spins(Duration::ZERO);
    program.ok();
    [server, gateway].into_iter().for_each(Child::kill);
}

/// The descriptor tells, though nobody is in a call of the library's.
#[test]
fn a_program_that_polls_is_told() {
    let [one, two] = two_nodes();
    let server = two.run(|| {
        let _gateway = two.inside();
        let e = open(ECHO);
        e.set_nonblocking(true).expect("a flag");
        loop {
            poll(&mut [PollFd::new(e.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).expect("a message");
            while let Ok(message) = e.recv() {
                let (bytes, to) = (message.to_vec(), message.from());
                drop(message);
                until("room", || e.send_to(&bytes, to).is_ok());
            }
        }
    });
    one.run(|| {
        let _gateway = one.inside();
        exchange(there(2), 300)
    })
    .ok();
    server.kill();
}

/// Several threads wait at once, some of them without looking: each gets what is its own.
#[test]
fn threads_that_wait_side_by_side_are_all_woken() {
    const THREADS: u16 = 4;
    let [one, two] = two_nodes();
    let each = |what: fn(&Endpoint, u16) -> bool| {
        move |n: u16| {
            std::thread::spawn(move || {
                let e = open(if n < 100 { ECHO + n } else { 0 });
                e.set_spin(if n % 2 == 0 { 0 } else { 50_000 });
                what(&e, n % 100)
            })
        }
    };
    let server = two.run(|| {
        let _gateway = two.inside();
        let run = each(|e, _| loop {
            let message = e.recv().expect("a message");
            let (bytes, to) = (message.to_vec(), message.from());
            drop(message);
            e.send_to(&bytes, to).expect("the way back");
        });
        let all: Vec<_> = (0..THREADS).map(run).collect();
        all.into_iter().all(|thread| thread.join().is_ok())
    });
    one.run(|| {
        let _gateway = one.inside();
        let run = each(|e, n| exchange_by(e, dpfd::Addr { nid: 2, dpid: ECHO + n }, 200));
        let all: Vec<_> = (100..100 + THREADS).map(run).collect();
        all.into_iter().all(|thread| thread.join().expect("an exchange"))
    })
    .ok();
    server.kill();
}

#[test]
fn a_number_that_the_graph_does_not_say_is_an_error() {
    let [one, two] = two_nodes();
    let mixed = Node::clone(&one);
    two.run(|| {
        std::env::set_var("DP_NID", "2");
        let error = std::panic::catch_unwind(|| mixed.inside()).expect_err("two numbers");
        let said = error.downcast_ref::<String>().cloned().unwrap_or_default();
        said.contains("Number")
    })
    .ok();
}

/// Has a child that does nothing, like a worker or a snapshot, and tells its number.
pub fn fork_a_sleeper(mut tell: &UnixStream) {
    // SAFETY: the child sleeps, in calls of the kernel alone, until it is killed.
    match unsafe { nix::unistd::fork() }.expect("a fork") {
        nix::unistd::ForkResult::Parent { child } => {
            tell.write_all(&child.as_raw().to_ne_bytes()).expect("a pair")
        }
        nix::unistd::ForkResult::Child => {
            // Not for ever: the test may have failed.
            std::thread::sleep(Duration::from_secs(30));
            // SAFETY: ends the child at once.
            unsafe { nix::libc::_exit(0) }
        }
    }
}

/// The number of the child of which that told.
pub fn sleeper(mut told: &UnixStream) -> nix::unistd::Pid {
    let mut number = [0; 4];
    told.read_exact(&mut number).expect("a number");
    nix::unistd::Pid::from_raw(i32::from_ne_bytes(number))
}

#[test]
fn a_child_that_outlives_its_program_keeps_nothing_of_its_gateway() {
    let [one, two] = two_nodes();
    let server = answers(&two);
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let program = one.run(|| {
        let _gateway = one.inside();
        exchange(there(2), 20);
        fork_a_sleeper(&theirs);
        std::thread::sleep(Duration::from_secs(60));
        true
    });
    let sleeper = sleeper(&ours);
    program.kill();
    one.run(|| {
        let _gateway = one.inside();
        exchange(there(2), 100)
    })
    .ok();
    nix::sys::signal::kill(sleeper, nix::sys::signal::Signal::SIGKILL).expect("it lives");
    server.kill();
}
